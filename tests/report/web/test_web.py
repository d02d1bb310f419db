"""What a page knows of a run, without opening it: see test_browser.py for that."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc import RLVC, Policy
from rlvc._core.params import as_json
from rlvc.classifiers._nodes import LEAF
from rlvc.data import as_image
from rlvc.errors import FileFormatError
from rlvc.features import AtLeast, LazyFeatures
from rlvc.report import render, to_json
from rlvc.report.web import PageBuilder, encode_array, encode_image, encode_images
from rlvc.report.web.data import SO_FAR
from rlvc.report.web.overview import describe_settings
from rlvc.runs import Examples, make_learner, task_of
from tests.support.builders import COLOUR, blocks, database
from tests.support.pages import KINDS, Page, known, large_policy, page_of

pytestmark = pytest.mark.slow

LARGEST = 15_000_000  # bytes of a page


@pytest.fixture(scope="module", params=KINDS)
def page(request: pytest.FixtureRequest, page_about: Callable[[str], Page]) -> Page:
    return page_about(request.param)


def numbers(coded: Any) -> NDArray[Any]:
    """Return numbers as the page reads them."""
    if isinstance(coded, list):
        return np.asarray(coded)
    return np.frombuffer(base64.b64decode(coded["data"]), coded["dtype"])


def decode(image: dict[str, Any]) -> NDArray[np.uint8]:
    """Return the pixels of a picture of the page."""
    found = cv2.imdecode(np.frombuffer(base64.b64decode(image["data"]), np.uint8), cv2.IMREAD_COLOR)
    assert found is not None
    assert found.shape == (image["height"], image["width"], 3)
    return np.asarray(cv2.cvtColor(found, cv2.COLOR_BGR2RGB), np.uint8)


def picture_at(data: dict[str, Any], camera: int, image: int) -> NDArray[np.uint8]:
    """Return the pixels that the page shows of an image."""
    where = data["cameras"][camera]
    file = where["file"] if isinstance(where["file"], int) else int(numbers(where["file"])[image])
    sheet = decode(data["images"][file])
    x, y = (int(numbers(where[key])[image]) if key in where else 0 for key in "xy")
    assert where["zoom"] == 1
    return np.asarray(sheet[y : y + where["height"], x : x + where["width"]], np.uint8)


def percepts_of(page: Page) -> Any:
    with known(page.kind):
        result = json.loads((page.folder / "result.json").read_text(encoding="utf-8"))
        file = page.folder / "examples.rlvc"
        examples = Examples.load(file) if file.exists() else None
        return task_of(result).scene(result, examples, is_draft=False)


def test_a_page_knows_which_features_an_image_shows(page: Page) -> None:
    scene, policy, shown = percepts_of(page), page.policy, page.data["policies"][0]
    rng = np.random.default_rng(0)
    cameras = [camera["name"] for camera in page.data["cameras"]]
    n_seen = 0
    for row in rng.choice(len(scene.table), min(12, len(scene.table)), replace=False):
        images = {
            name: scene.percepts.images[c][int(scene.table[row, c])]
            for c, name in enumerate(cameras)
        }
        features = LazyFeatures(policy.graph, policy.extractor, images)
        for camera, name in enumerate(cameras):
            coded = shown["seen"][camera]
            seen = {key: numbers(coded[key]) for key in ("begin", "feature", "x", "y")}
            image = int(scene.table[row, camera])
            rows = slice(seen["begin"][image], seen["begin"][image + 1])
            assert (np.diff(seen["feature"][rows].astype(int)) >= 0).all()
            for number, feature in enumerate(policy.features):
                if isinstance(feature, AtLeast) or policy.graph.camera[number] != name:
                    continue
                here = seen["feature"][rows] == number
                assert here.any() == features.exhibits(number)
                xy = np.column_stack([seen["x"][rows][here], seen["y"][rows][here]])
                xy = xy / coded["unit"]
                np.testing.assert_allclose(xy, features.find(number)[: len(xy), :2], atol=1 / 32)
                n_seen += len(xy)
    assert n_seen >= 5


def test_a_page_shows_percepts_to_the_pixel(page: Page) -> None:
    scene = percepts_of(page)
    for row in (0, len(scene.table) // 2, len(scene.table) - 1):
        for camera, image in enumerate(scene.table[row].tolist()):
            shown = picture_at(page.data, camera, image)
            expected = as_image(scene.percepts.images[camera][image])
            np.testing.assert_array_equal(shown, np.broadcast_to(expected, shown.shape))


def test_a_page_has_the_classifiers_and_their_values(page: Page) -> None:
    policy, shown = page.policy, page.data["policies"][0]
    members: list[Any] = [policy] if isinstance(policy, Policy) else [*policy.trees]
    assert len(shown["trees"]) == len(members)
    for one, tree in zip(members, shown["trees"], strict=True):
        nodes = one.classifier
        assert tree["feature"] == nodes.feature.tolist()
        assert json.loads(to_json(tree))["q"] == one.q.tolist()  # to the last bit
        assert tree["count"] == one.count.tolist()
        assert [f for f in tree["feature"] if f != LEAF]
    assert [one["is_tested"] for one in shown["features"]] == [
        number in policy.tested for number in range(len(policy.features))
    ]
    assert [one["name"] for one in shown["features"]] == [
        policy.graph.describe(number) for number in range(len(policy.features))
    ]


def test_every_feature_has_its_patch(page: Page) -> None:
    policy, shown = page.policy, page.data["policies"][0]
    where = shown["patches"]
    sheet = decode(page.data["images"][where["image"]]).astype(int)
    for number, feature in enumerate(shown["features"]):
        y, x = (32 * part for part in divmod(feature["patch"], where["columns"]))
        found = sheet[y : y + 32, x : x + 32]
        assert np.abs(found - policy.patches[number]).mean() < 30  # they are coded with loss


def test_an_overview_tells_what_was_measured(page: Page) -> None:
    result = json.loads((page.folder / "result.json").read_text(encoding="utf-8"))
    overview = page.data["overview"]
    text = to_json(overview)
    measures = result.get("measures") or result["compact"]
    shares = [key for key in ("success", "missed", "test_error") if key in measures]
    for key in shares:
        value = measures[key]["mean"] if isinstance(measures[key], dict) else measures[key]
        assert f"{value:.1%}" in text
    assert dict(overview["facts"])["interactions"] == f"{result['interactions']:,}"
    assert dict(overview["versions"]) == result["versions"]
    assert dict(overview["seconds"]) == result["seconds"]
    names = [name for name, *_ in overview["parameters"]]
    assert {"gamma", "solver", "selector.alpha", "generator.height"} <= set(names)
    if page.kind != "own":
        assert "paper" in text


def test_curves_are_those_of_the_run(page: Page) -> None:
    result = json.loads((page.folder / "result.json").read_text(encoding="utf-8"))
    history = result.get("history") or result["compact"]["history"]
    learning = page.data["learning"]
    assert learning["x"] == [line["stage"] for line in history]
    charts = {chart["title"]: chart for chart in learning["charts"]}
    first = charts["Visual classes"]["series"][0]
    assert first["values"] == [line["classes"] for line in history]
    for chart in learning["charts"]:
        for series in chart["series"]:
            assert len(series["values"]) == len(series.get("x", learning["x"]))


def test_a_page_is_one_file_that_asks_nobody(page: Page) -> None:
    text = page.file.read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST
    assert not re.search(r'(?:src|href)="(?!#)', text)
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert "default-src &#x27;none&#x27;" in text
    assert str(page.folder.parent) not in text.replace(str(page.folder / "photographs"), "")


def test_a_forest_comes_with_what_it_is_without(
    page_about: Callable[[str], Page], tmp_path: Path
) -> None:
    page = page_about("forest")
    kinds = [(one["name"], one["kind"]) for one in page.data["policies"]]
    assert kinds[0] == ("forest of 3 trees", "forest")
    assert kinds[1][1] == "tree"
    for name in ("result.json", "policy.rlvc"):
        shutil.copy(page.folder / name, tmp_path)
    assert len(page_of("forest", tmp_path).data["policies"]) == 1


def write_run(folder: Path, result: str = '{"task": "own"}') -> None:
    (folder / "result.json").write_text(result, encoding="utf-8")
    large_policy(5).save(folder / "policy.rlvc")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("result.json", None, "There is no run in"),
        ("policy.rlvc", None, "There is no policy in"),
        ("result.json", b"{", "is damaged"),
        ("result.json", b"[]", "does not hold the result"),
        ("policy.rlvc", b"PK", "is damaged: its header"),
        ("result.json", b'{"task": "x", "pictures": "y"}', "does not hold a run"),
        ("result.json", b'{"history": [{"stage": {}}, 3]}', "does not hold a run"),
    ],
)
def test_a_folder_that_holds_no_run_is_told(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    write_run(tmp_path)
    PageBuilder().describe(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(FileFormatError, match=words):
        PageBuilder().describe(tmp_path)


def test_a_run_that_goes_on_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    draft = {"task": "own", "phase": "learn", "history": [{"stage": 0, "classes": 1}]}
    (tmp_path / "live.json").write_text(json.dumps(draft))
    large_policy(7).save(tmp_path / "live.rlvc")
    data = PageBuilder().describe(tmp_path)
    assert data["live"] == {"phase": "learn", "stage": 0}
    assert data["policies"][0]["name"] == SO_FAR


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-1e999"])
def test_numbers_that_json_does_not_know_are_left_out(tmp_path: Path, number: str) -> None:
    history = f'[{{"stage": 0, "classes": 1, "residual": {number}}}]'
    seconds = f'{{"learn": {number}}}'
    write_run(tmp_path, f'{{"task": "own", "seconds": {seconds}, "history": {history}}}')
    data = PageBuilder().describe(tmp_path)
    assert data["overview"]["seconds"] == [("learn", None)]
    assert not re.search("NaN|Infinity|inf", to_json(data["overview"]) + to_json(data["learning"]))
    render(data)


def test_half_a_letter_in_a_name_does_no_harm(tmp_path: Path) -> None:
    write_run(tmp_path, '{"task": "a\\ud800b"}')
    assert "a?b" in render(PageBuilder().describe(tmp_path)).encode().decode()


@pytest.mark.parametrize(
    "settings", [[], ["post_process=compaction"], ["max_splits=3", "detector=sift"]]
)
def test_what_is_not_the_default_is_told(settings: list[str]) -> None:
    learner = make_learner("default", settings, RLVC())
    fitted = learner.fitted(database(COLOUR).percepts)
    rows = describe_settings({"parameters": as_json(fitted)}, task_of({}))
    changed = {name for name, _, _, is_other in rows if is_other}
    assert changed == {one.partition("=")[0] for one in settings if not one.startswith("detector")}
    values = {name: value for name, value, *_ in rows}
    assert values["gamma"] == "0.9"
    assert values["threshold"] == str(fitted.threshold)


def test_a_policy_of_another_task_is_refused(
    page_about: Callable[[str], Page], tmp_path: Path
) -> None:
    shutil.copy(page_about("maze").folder / "result.json", tmp_path)
    shutil.copy(page_about("hill").folder / "policy.rlvc", tmp_path)
    with known("maze"), pytest.raises(FileFormatError, match="was not learned on the task"):
        PageBuilder().describe(tmp_path)
    large_policy(6).save(tmp_path / "policy.rlvc")  # as many actions, other images
    with known("maze"), pytest.raises(FileFormatError, match="was not learned on the task"):
        PageBuilder().describe(tmp_path)


@pytest.mark.parametrize("shape", [(24, 20_000, 3), (20_000, 24, 1)])
def test_images_of_any_size_are_shown(shape: tuple[int, ...]) -> None:
    image = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    files, _ = encode_images("", [image], 0)
    assert files[0]["type"] == "image/webp"
    assert max(files[0]["width"], files[0]["height"]) == 320
    assert encode_image(image)["type"] == "image/png"


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("n", [1, 30])
def test_images_stand_on_sheets_or_alone(channels: int, n: int) -> None:
    small = [blocks(i, (40, 60, channels)) for i in range(n)]
    sheets, where = encode_images("left", small, 5)
    assert len(sheets) == 1
    assert set(numbers(where["file"])) == {5}
    large = [blocks(i, (900, 1200, channels)) for i in range(6)]
    files, where = encode_images("left", large, 2)
    assert numbers(where["file"]).tolist() == [2, 3, 4, 5, 6, 7]
    assert where["zoom"] == pytest.approx(320 / 1200)
    assert all(max(one["width"], one["height"]) == 320 for one in files)


@pytest.mark.parametrize("array", [[0, 5], [-1, 70_000], [1.5, -2.5], [], [True, False]])
def test_arrays_come_back(array: list[Any]) -> None:
    assert numbers(encode_array(np.asarray(array))).tolist() == array


def test_what_is_new_of_a_page_is_what_runs(tmp_path: Path) -> None:
    write_run(tmp_path)
    text = render(PageBuilder().describe(tmp_path))
    allowed = re.findall(r"script-src &#x27;sha256-([^&]+)&#x27;", text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert len(allowed) == len(scripts) == 1
    assert base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode() == allowed[0]
    assert "connect-src &#x27;none&#x27;" in text
    assert "connect-src &#x27;self&#x27;" in render(None)


# Colours ------------------------------------------------------------------------------------------


def themes() -> dict[str, dict[str, str]]:
    """Return the colours of the light and the dark theme by their names."""
    style = (resources.files("rlvc.report.web") / "assets" / "base.css").read_text("utf-8")
    blocks_ = re.findall(r"(:root[^{]*)\{([^}]*)\}", style)
    found: dict[str, dict[str, str]] = {}
    for selector, body in blocks_:
        colours = dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", body))
        if colours:
            found[selector.strip()] = colours
    return found


def luminance(colour: NDArray[np.float64]) -> float:
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    lights = [luminance(np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) / 255)
              for c in (one, other)]  # fmt: skip
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_both_ways_to_dark_are_one_theme() -> None:
    light, *dark = themes().values()
    assert len(dark) == 2
    assert dark[0] == dark[1]
    assert set(dark[0]) <= set(light)


@pytest.mark.parametrize("theme", range(2))
def test_texts_stand_out_from_what_they_are_on(theme: int) -> None:
    colours = [*themes().values()][theme]
    for text, ground, least in (
        ("ink", "paper", 10.0), ("ink", "panel", 10.0), ("ink", "soft", 10.0),
        ("quiet", "paper", 4.5), ("quiet", "panel", 4.5), ("quiet", "soft", 4.5),
        ("accent", "paper", 4.5), ("accent", "panel", 4.5), ("accent", "accent-soft", 4.5),
        ("seen", "panel", 4.5), ("seen", "seen-soft", 4.5),
        *((f"series-{k}", "panel", 3.0) for k in range(1, 7)),
    ):  # fmt: skip
        assert contrast(colours[text], colours[ground]) >= least, (text, ground)
