from __future__ import annotations

import json
import re
import shlex
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from rlvc import Policy, evaluate
from rlvc.cli import report as cli_report
from rlvc.cli.command import command_of, print_plain
from rlvc.report import render
from rlvc.report.web import data as web_contents
from rlvc.runs import Callback
from tests.support.commands import SMALL_RUN, contents, strict

CORRIDOR = "tests.support.worlds:Corridor-v0"
LEARN = ["learn", CORRIDOR, "--interactions", 60, "--rounds", 2, "--episodes", 2]


class PageBuilder:
    """Says what a folder holds, in place of what takes long."""

    def __init__(self, callback: Callback | None = None) -> None:
        self._callback = callback or Callback()

    def describe(self, folder: Path) -> dict[str, Any]:
        self._callback.on_phase("draw", None)
        self._callback.on_phase("extract", 2)
        self._callback.on_step()
        finished = folder / "result.json"
        live = folder / "live.json"
        said = json.loads((finished if finished.exists() else live).read_text())
        if finished.exists():
            return {"title": said["task"], "live": None}
        assert Policy.load(folder / "live.rlvc").n_classes == said["classes"]
        return {"title": said["task"], "live": {"phase": said["phase"]}}


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_contents, "PageBuilder", PageBuilder)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unpainted: None) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    addresses: list[str] = []

    def open_it(url: str) -> bool:
        addresses.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", open_it)
    return addresses


def put(folder: Path, **results: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, result in results.items():
        (folder / f"{name}.json").write_text(json.dumps(result))
    return folder


# Report ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["", "result.json", "policy.rlvc"])
def test_a_report_is_one_file(given: str, call: Any, root: Path, opened: list[str]) -> None:
    folder = put(root / "my run", result={"task": "maze"})
    (folder / "policy.rlvc").write_bytes(b"")
    printed = call.succeed("report", folder / given)
    page = folder / "report.html"
    assert "<title>maze · rlvc</title>" in page.read_text()
    for phase in ("draw", "extract", "write"):
        assert re.search(rf"^{phase} .* s\b", printed, re.M), printed
    assert printed.endswith(f"The report is in {page} (0.2 MB).\n")
    assert opened == []
    call.succeed("report", folder / given, "--out", root / "deep" / "page.html", "--open")
    assert "<title>maze · rlvc</title>" in (root / "deep" / "page.html").read_text()
    assert opened == [(root / "deep" / "page.html").as_uri()]


@pytest.mark.parametrize("name", ["result.json", "policy.rlvc", "notes.txt"])
def test_a_page_takes_the_place_of_nothing_but_a_page(call: Any, root: Path, name: str) -> None:
    (root / "result.json").write_text('{"task": "corridor"}')
    (root / name).touch()
    before = (root / name).read_bytes()
    done = call("report", root, "--out", root / name)
    assert done.code == 2
    assert "must be a new file or a page" in done.err
    assert (root / name).read_bytes() == before
    for page in ("new", "page.html", "page.html"):
        assert call("report", root, "--out", root / page).code == 0


def test_a_run_that_goes_on_can_be_reported(call: Any, root: Path, policy: Policy) -> None:
    folder = put(root / "run", live={"task": "a", "phase": "learn", "classes": policy.n_classes})
    policy.save(folder / "live.rlvc")
    assert call.succeed("report", "run").endswith(
        "The run is not finished; this is what it has learned so far.\n"
        "The report is in run/report.html (0.2 MB).\n"
    )


def test_where_there_is_no_run_the_cure_is_named(call: Any, root: Path) -> None:
    for command in ("report", "watch"):
        assert call.fail(1, command, "no where") == (
            "rlvc: There is no folder no where; make a run with: rlvc run maze --out 'no where'\n"
        )
    (root / "empty").mkdir()
    (root / "empty" / "policy.rlvc").write_bytes(b"")
    for given in ("empty", "empty/policy.rlvc"):
        assert call.fail(1, "report", given) == (
            "rlvc: There is no run in empty: it has no result.json. If one was interrupted "
            "there, resume it with --resume; or make one, such as: rlvc run maze --out empty\n"
        )
    assert list(contents(root / "empty")) == ["policy.rlvc"]


def test_without_a_browser_the_address_is_told(
    call: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    put(root / "run", result={"task": "maze"})
    done = call("report", "run", "--open")
    address = (root / "run" / "report.html").as_uri()
    assert done.out.endswith(f"There is no browser here; open {address} yourself.\n")


# Watch and live ----------------------------------------------------------------------------------


def get(url: str, path: str = "") -> Any:
    with urllib.request.urlopen(url + path, timeout=10) as answer:
        return answer.read().decode()


class Visitor:
    """Looks at a page whenever a command waits, and presses Ctrl-C when there is no more to do."""

    def __init__(self, *visits: Callable[[str], None]) -> None:
        self.visits, self.url = list(visits), ""

    def pause(self) -> None:
        if not self.visits:
            raise KeyboardInterrupt
        self.visits.pop(0)(self.url)

    def print_plain(self, console: Console, text: str) -> None:
        if found := re.search(r"http://127\.0\.0\.1:\d+/", text):
            self.url = found[0]
        print_plain(console, text)


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Visitor]:
    def visit(*visits: Callable[[str], None]) -> Visitor:
        visitor = Visitor(*visits)
        monkeypatch.setattr(cli_report, "pause", visitor.pause)
        monkeypatch.setattr(cli_report, "print_plain", visitor.print_plain)
        return visitor

    return visit


def test_a_run_is_watched_to_its_end(
    call: Any, root: Path, visit: Callable[..., Visitor], opened: list[str], policy: Policy
) -> None:
    seen: list[Any] = []
    folder = put(root / "run")

    def look(url: str) -> None:
        seen.append((get(url), json.loads(get(url, "data")), json.loads(get(url, "version"))))

    def begin(url: str) -> None:
        look(url)
        policy.save(folder / "live.rlvc")
        put(folder, live={"task": "a", "phase": "learn", "classes": policy.n_classes})

    def finish(url: str) -> None:
        look(url)
        put(folder, result={"task": "a"})

    visitor = visit(begin, finish, look)
    assert call.succeed("watch", "run", "--open") == (
        "No run has begun in run yet.\n"
        f"The page is at {visitor.url} until you press Ctrl-C.\n"
        "The run is finished now.\n"
    )
    assert opened == [visitor.url]
    assert {page for page, _, _ in seen} == {render(None)}
    assert [data["live"] for _, data, _ in seen] == [
        {"phase": "waiting", "stage": None}, {"phase": "learn"}, None
    ]  # fmt: skip
    assert [version["finished"] for _, _, version in seen] == [False, False, True]
    numbers = [version["version"] for _, _, version in seen]
    assert numbers == sorted(set(numbers))
    with pytest.raises(OSError, match="refused"):
        get(visitor.url)


def test_a_run_that_is_finished_is_shown_all_the_same(
    call: Any, root: Path, visit: Callable[..., Visitor]
) -> None:
    put(root / "run", result={"task": "a"})
    visitor = visit(lambda url: None)
    first, second = call.succeed("watch", "run/result.json").splitlines()
    assert first == "The run in run is finished."
    assert second == f"The page is at {visitor.url} until you press Ctrl-C."


@pytest.mark.usefixtures("small")
def test_a_run_of_a_task_shows_itself(
    call: Any, root: Path, visit: Callable[..., Visitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def look(*_: object) -> dict[str, Any]:
        live = strict((root / "out" / "live.json").read_text())
        seen.append((live, json.loads(get(visitor.url, "data"))))
        return {}

    monkeypatch.setattr("rlvc.tasks.navigation.figures.draw_figures", look)
    visitor = visit(lambda url: seen.append(json.loads(get(url, "data"))))
    put(root / "out", result={"task": "an earlier run"})
    printed = call.succeed(*SMALL_RUN, "--out", "out", "--live", "--overwrite")
    assert printed.startswith(f"Watch it at {visitor.url}\n")
    assert printed.endswith(f"The page stays at {visitor.url} until you press Ctrl-C.\n")
    (live, during), after = seen
    assert during == {"title": "small", "live": {"phase": "write"}}
    assert after == {"title": "small", "live": None}
    assert set(contents(root / "out")) == {
        "policy.rlvc", "result.json", "stages.csv", "percept.png"
    }  # fmt: skip
    result = strict((root / "out" / "result.json").read_text())
    assert result["command"] == shlex.join(["rlvc", *SMALL_RUN, "--out", "out"])
    for key in ("task", "pictures", "seed", "interactions", "command", "parameters", "versions",
                "stages", "classes", "features", "percepts"):  # fmt: skip
        assert live[key] == result[key], key
    assert len(live["history"]) == len(result["history"])


def test_a_custom_task_shows_itself(
    call: Any, root: Path, visit: Callable[..., Visitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def look(*given: Any, **more: Any) -> Any:
        seen.append(strict((root / "out" / "live.json").read_text()))
        seen.append(json.loads(get(visitor.url, "data")))
        assert (root / "out" / "examples.rlvc").exists()
        return evaluate(*given, **more)

    monkeypatch.setattr("rlvc.tasks.custom.task.evaluate", look)
    visitor = visit()
    call.succeed(*LEARN, "--out", "out", "--live")
    live, during = seen
    assert during == {"title": CORRIDOR, "live": {"phase": "evaluate"}}
    result = strict((root / "out" / "result.json").read_text())
    for key in ("task", "source", "seed", "interactions", "command", "parameters", "versions",
                "rounds", "classes", "features", "percepts"):  # fmt: skip
        assert live[key] == result[key], key
    assert {"live.json", "live.rlvc"}.isdisjoint(contents(root / "out"))
    assert "examples.rlvc" in contents(root / "out")


def test_a_port_is_for_a_page(call: Any, root: Path) -> None:
    for words in (["run", "maze"], LEARN):
        told = call.fail(2, *words, "--port", 8000)
        assert told == "rlvc: --port is for the page of --live only; add --live.\n"
    assert list(root.iterdir()) == []
    assert "--port" in call("watch", root, "--port", 80).err


# The command line --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("run maze --live --port 8000 --overwrite", "rlvc run maze"),
        ("run maze --port=8000 --live --out 'my runs'", "rlvc run maze --out 'my runs'"),
        ("learn CartPole-v1 --set gamma=0.8 --port", "rlvc learn CartPole-v1 --set gamma=0.8"),
    ],
)
def test_the_command_is_kept_without_what_changes_nothing(
    typed: str, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["rlvc", *shlex.split(typed)])
    for words in (shlex.split(typed), None):
        context: Any = SimpleNamespace(find_root=lambda words=words: SimpleNamespace(obj=words))
        assert command_of(context) == kept
