from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from rlvc import RLVC, Interactions, Percepts, Policy, collect
from rlvc._core.params import as_json
from rlvc.data import Image
from rlvc.vision import (
    BINARY,
    CAMERA,
    DRAWN,
    Descriptor,
    Detector,
    Euclidean,
    ExtractorConfig,
    Hamming,
    Harris,
    InterestPoints,
    Invariants,
    Mahalanobis,
    Metric,
    Orb,
    OrbDescriptor,
    Sift,
    SiftDescriptor,
    auto,
    choose_extractor,
)
from rlvc.vision.auto import distinctness, low_quantile, recurrence
from tests.support.builders import blocks, pictures

SCENE = blocks(0, (96, 1200, 3), side=9)


def windows(n: int, step: int = 12) -> list[NDArray[np.uint8]]:
    """Return views of a window that slides over the scene."""
    return [SCENE[:, step * i : step * i + 96] for i in range(n)]


def filmed(images: list[NDArray[np.uint8]], seed: int = 0) -> list[NDArray[np.uint8]]:
    """Return images with the noise of a camera."""
    rng = np.random.default_rng(seed)
    return [(image + rng.normal(0, 4, image.shape)).clip(0, 255).astype(np.uint8)
            for image in images]  # fmt: skip


def store_of(percepts: list[Any]) -> Percepts:
    store = Percepts()
    for percept in percepts:
        store.add(percept)
    return store


# What the images determine ---------------------------------------------------------------------


@pytest.mark.parametrize("n", [8, 30, 90])
def test_images_with_recurring_points_are_drawn_and_others_are_filmed(n: int) -> None:
    assert choose_extractor(store_of(windows(n))) == DRAWN
    assert choose_extractor(store_of(filmed(windows(n)))) == CAMERA


@pytest.mark.parametrize("n", [1, 2, 7])
def test_few_images_get_the_default(n: int) -> None:
    for images in (windows(n), filmed(windows(n)), list(pictures(n))):
        assert choose_extractor(store_of(images)) == DRAWN


def test_images_without_corners_get_sift() -> None:
    blank = [np.full((64, 64, 3), i, np.uint8) for i in range(10)]
    assert choose_extractor(store_of(blank)) == CAMERA
    assert choose_extractor(store_of(blank[:1])) == CAMERA
    assert choose_extractor(Percepts()) == CAMERA
    tiny = [image[:20, :20] for image in windows(20)]  # too small for a corner with its margin
    assert choose_extractor(store_of(tiny)) == CAMERA


def test_images_without_corners_do_not_count() -> None:
    blank = [np.full((96, 96, 3), i, np.uint8) for i in range(20)]
    assert choose_extractor(store_of([*blank, *windows(20)])) == DRAWN


def test_one_filmed_camera_is_enough_for_sift() -> None:
    drawn, noisy = windows(20), filmed(windows(20))
    for left, right, expected in (
        (drawn, drawn, DRAWN),
        (drawn, noisy, CAMERA),
        (noisy, drawn, CAMERA),
        (noisy, noisy, CAMERA),
        (drawn, noisy[:1] * 20, DRAWN),  # a single image decides nothing
    ):
        pairs = [{"left": a, "right": b} for a, b in zip(left, right, strict=True)]
        assert choose_extractor(store_of(pairs)) == expected


def test_consecutive_images_are_sampled_as_they_overlap() -> None:
    """An agent that is reset every few steps may never see the same place in two episodes."""
    rng = np.random.default_rng(0)
    images = []
    for seed in range(40):
        scene = blocks(seed, (96, 140, 3), side=9)
        images += [scene[:, x : x + 96] for x in rng.permutation(40)[:4]]
    assert choose_extractor(store_of(images)) == DRAWN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [("Maze", DRAWN), ("Subway", DRAWN), ("Hill", DRAWN), ("Campus", CAMERA)],
)
def test_the_tasks_get_suitable_extractors(name: str, expected: ExtractorConfig) -> None:
    env = gymnasium.make(f"rlvc/{name}-v0", disable_env_checker=True)
    data = collect(env, 30, seed=0)
    assert choose_extractor(data.percepts) == expected


@pytest.mark.parametrize("n", [9, 40, 64, 65, 300])
def test_few_of_many_images_are_sampled(n: int) -> None:
    processed: list[int] = []

    class Counted:
        camera = ""

        def __len__(self) -> int:
            return n

        def __getitem__(self, number: int) -> Image:
            processed.append(number)
            return windows(40)[number % 40]

    sample = list(auto._sample(DRAWN.new_extractor(), Counted(), 1))  # type: ignore[arg-type]
    assert len(sample) == len(processed)
    assert processed == sorted(set(processed))
    assert len(processed) == n if n <= 64 else 50 <= len(processed) <= 64
    assert (processed[0], processed[-1]) == (0, n - 1)
    assert np.diff(processed).max() <= max(n // 12, 1)
    assert sum(b - a == 1 for a, b in itertools.pairwise(processed)) >= 0.7 * len(processed)


def boards(*, lines: int = 30) -> list[NDArray[np.uint8]]:
    """Return images of a board with a figure, on another square in each image."""
    images = []
    for y, x in itertools.product(range(12, 60, 12), range(12, 72, 12)):
        image = np.full((96, 96, 3), 30, np.uint8)
        image[::12] = image[:, ::12] = lines
        image[y + 2 : y + 10, x + 2 : x + 10] = (220, 60, 30)
        images.append(image)
    return images


def descriptors_of(config: ExtractorConfig, images: list[NDArray[np.uint8]]) -> list[NDArray[Any]]:
    extractor = config.new_extractor()
    return [extractor.extract_image(image)[1] for image in images]


def test_sift_is_chosen_if_corners_are_the_same_everywhere() -> None:
    images = boards(lines=60)
    corners, sift = (descriptors_of(config, images) for config in (DRAWN, CAMERA))
    assert recurrence(corners) >= auto.MIN_RECURRENCE  # so it counts as drawn
    assert distinctness(corners) < auto.MIN_DISTINCTNESS
    assert distinctness(sift) > distinctness(corners)
    assert choose_extractor(store_of(images)) == CAMERA
    assert choose_extractor(store_of(images[: auto.MIN_IMAGES - 1])) == DRAWN
    assert distinctness(descriptors_of(DRAWN, windows(20))) >= auto.MIN_DISTINCTNESS


def test_sift_must_tell_more_images_apart_than_corners() -> None:
    images = boards()  # without lines, the figure is all there is
    corners, sift = (descriptors_of(config, images) for config in (DRAWN, CAMERA))
    assert distinctness(corners) == distinctness(sift) == 1 / 20
    assert choose_extractor(store_of(images)) == DRAWN


def test_one_camera_whose_images_differ_is_enough() -> None:
    pairs = [{"a": a, "b": b} for a, b in zip(boards(lines=60), windows(20), strict=True)]
    assert choose_extractor(store_of(pairs)) == DRAWN
    pairs = [{"a": a, "b": a[:, ::-1]} for a in boards(lines=60)]
    assert choose_extractor(store_of(pairs)) == CAMERA


def test_distinctness_counts_sets_of_descriptors() -> None:
    one, two = np.array([[1, 2]], np.float32), np.array([[3, 4]], np.float32)
    none = np.empty((0, 2), np.float32)
    assert distinctness([one, one, one, one]) == 0.25
    assert distinctness([one, np.concatenate([one, one]), two, none]) == 0.75
    assert distinctness([np.concatenate([one, two]), np.concatenate([two, one])]) == 0.5
    assert distinctness([none, none]) == 0.5


def test_recurrence_is_a_share_of_all_descriptors() -> None:
    one, two, three = (np.array([[n, n]], np.float32) for n in (1, 2, 3))
    none = np.empty((0, 2), np.float32)
    assert recurrence([np.concatenate([one, one]), two]) == 0.0  # twice on one image is once
    assert recurrence([np.concatenate([one, one, two]), one, three]) == 0.6
    assert recurrence([one, none, one]) == 1.0


# What suits what ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"detector": Harris(radius=3)}, (Invariants(), Mahalanobis(), 0.2)),
        ({"detector": Sift()}, (SiftDescriptor(), Euclidean(), 160.0)),
        ({"detector": Orb()}, (OrbDescriptor(), Hamming(), None)),
        ({"descriptor": SiftDescriptor()}, (Sift(), Euclidean(), 160.0)),
        ({"descriptor": Invariants()}, (Harris(), Mahalanobis(), 0.2)),
        ({"descriptor": OrbDescriptor()}, (Orb(), Hamming(), None)),
        ({"metric": Hamming()}, (Orb(), OrbDescriptor(), None)),
        ({"metric": Euclidean()}, (Sift(), SiftDescriptor(), 160.0)),
        ({"detector": Harris(), "descriptor": SiftDescriptor()}, (Euclidean(), 160.0)),
        ({"detector": Sift(), "metric": Mahalanobis()}, (SiftDescriptor(), None)),
        ({"descriptor": SiftDescriptor(root=True)}, (Sift(), Euclidean(), None)),
        ({"descriptor": Invariants(sigma=3.0)}, (Harris(), Mahalanobis(), None)),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("images", [windows(20), filmed(windows(20))], ids=["drawn", "filmed"])
def test_a_part_determines_those_that_suit_it(
    given: dict[str, Any], expected: tuple[Any, ...], images: list[Image]
) -> None:
    config = choose_extractor(store_of(images), **given)
    for name, part in given.items():
        assert getattr(config, name) is part
    rest = [name for name in ("detector", "descriptor", "metric") if name not in given]
    assert [getattr(config, name) for name in rest] == list(expected[:-1])
    if expected[-1] is None:  # it is chosen from the images
        assert 0.0 < config.threshold != 160.0
    else:
        assert config.threshold == expected[-1]
    assert choose_extractor(store_of(images), **given, threshold=7.5).threshold == 7.5


def test_configurations_have_no_parts_in_common() -> None:
    configs = (DRAWN, CAMERA, BINARY)
    for name in ("detector", "descriptor", "metric"):
        assert len({type(getattr(config, name)) for config in configs}) == 3


@dataclass(frozen=True)
class Lattice:
    """A lattice of points."""

    def detect(self, image: Image) -> InterestPoints:
        y, x = np.mgrid[16:80:16, 16:80:16]
        return InterestPoints.at(np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32), 8.0)


@dataclass(frozen=True)
class Colour:
    """The colour of the point."""

    def describe(self, image: Image, points: InterestPoints) -> tuple[InterestPoints, NDArray[Any]]:
        x, y = points.xy.astype(int).T
        return points, image[y, x].astype(np.float32)


@dataclass(frozen=True)
class Chessboard:
    """The largest difference of any component."""

    def fit(self, descriptors: NDArray[Any]) -> Chessboard:
        return self

    def distances(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(np.abs(a[:, None].astype(float) - b[None].astype(float)).max(axis=2))


def test_custom_parts_get_parts_that_suit_any() -> None:
    drawn, noisy = store_of(windows(20, step=16)), store_of(filmed(windows(20, step=16)))
    lattice: Detector = Lattice()
    colour: Descriptor = Colour()
    assert choose_extractor(drawn, detector=lattice).descriptor == Invariants()
    assert choose_extractor(noisy, detector=lattice).descriptor == SiftDescriptor()
    for percepts, detector in ((drawn, Harris()), (noisy, Sift())):
        config = choose_extractor(percepts, descriptor=colour)
        assert (config.detector, config.metric) == (detector, Euclidean())
    config = choose_extractor(noisy, descriptor=colour, detector=Harris())
    assert (config.detector, config.metric) == (Harris(), Euclidean())


def test_parts_given_in_full_are_taken_as_they_are() -> None:
    class Blind:
        @property
        def images(self) -> Any:
            raise AssertionError("no image is needed")

    metric: Metric = Chessboard()
    given: dict[str, Any] = {"detector": Lattice(), "descriptor": Colour(), "metric": metric}
    config = choose_extractor(Blind(), **given, threshold=9.0)  # type: ignore[arg-type]
    assert config == ExtractorConfig(**given, threshold=9.0)
    assert choose_extractor(Blind(), detector=Sift()) == CAMERA  # type: ignore[arg-type]


def test_the_threshold_of_custom_parts_joins_few_pairs() -> None:
    percepts = store_of(list(pictures(30, shape=(96, 96, 3))))
    given: dict[str, Any] = {"detector": Lattice(), "descriptor": Colour(), "metric": Chessboard()}
    threshold = choose_extractor(percepts, **given).threshold
    assert choose_extractor(percepts, **given, threads=3).threshold == threshold
    rows = np.concatenate([Colour().describe(i, Lattice().detect(i))[1] for i in percepts])  # type: ignore[arg-type]
    gaps = Chessboard().distances(rows, rows)[np.triu_indices(len(rows), 1)]
    assert 0 < (gaps <= threshold).mean() < 0.005
    one = store_of([np.full((96, 96, 3), 9, np.uint8)])
    assert choose_extractor(one, **given).threshold == 0.0  # there is one descriptor
    two = store_of([np.full((96, 96, 3), level, np.uint8) for level in (9, 49)])
    assert choose_extractor(two, **given).threshold == 20.0


def test_a_low_quantile_is_below_all_if_these_are_few() -> None:
    assert low_quantile(np.empty(0), 0.1) == 0.0
    assert low_quantile(np.array([5.0]), 0.1) == 2.5
    assert low_quantile(np.arange(100.0, 0.0, -1.0), 0.05) == 5.0


# The learner -------------------------------------------------------------------------------------


def guess(images: list[NDArray[np.uint8]]) -> Interactions:
    """Return one-step episodes that reward telling in which half of the list an image is."""
    rng = np.random.default_rng(0)
    number, action = rng.integers(0, len(images), 400), rng.integers(0, 2, 400)
    right = (2 * number >= len(images)).astype(int)
    shown = [images[n] for n in number]
    return Interactions.from_arrays(
        shown, action, right == action, np.ones(400, np.bool_), next_observations=shown
    )


def test_a_fitted_learner_has_nothing_left_to_choose() -> None:
    percepts = store_of(filmed(windows(20)))
    learner = RLVC(gamma=0.7, max_splits=3)
    fitted = learner.fitted(percepts)
    assert (fitted.detector, fitted.threshold) == (Sift(), 160.0)
    assert (fitted.gamma, fitted.max_splits) == (0.7, 3)
    assert as_json(fitted.fitted(store_of(windows(20)))) == as_json(fitted)
    assert learner.detector is None
    mine = RLVC(detector=Harris(radius=3), threshold=0.1).fitted(percepts)
    assert (mine.detector, mine.descriptor, mine.threshold) == (Harris(radius=3), Invariants(), 0.1)


@pytest.mark.parametrize("is_filmed", [False, True])
def test_a_policy_saves_its_extractor(is_filmed: bool, tmp_path: Any) -> None:
    images = windows(24, step=20)
    data = guess(filmed(images) if is_filmed else images)
    policy = RLVC(threads=1).learn(data)
    assert type(policy.extractor.detector) is (Sift if is_filmed else Harris)
    policy.save(tmp_path / "policy")
    again = Policy.load(tmp_path / "policy")
    assert again.extractor.detector == policy.extractor.detector
    assert again.extractor.threshold == (160.0 if is_filmed else 0.2)
    right = [2 * n >= 24 for n in range(24)]
    new = filmed(images, seed=1) if is_filmed else images
    assert np.mean(again.predict(np.stack(new))[0] == right) >= 0.7


def test_fresh_interactions_use_the_extractor_of_the_first() -> None:
    first, later = guess(filmed(windows(24, step=20))), guess(windows(24, step=20))
    learner = RLVC(threads=1, max_stages=2, max_splits=1)
    stages = list(learner.stages(lambda k, policy: later if k else first))
    assert len(stages) == 3
    assert all(stage.database.extractor is stages[0].database.extractor for stage in stages)
    assert stages[-1].policy().extractor.detector == Sift()
