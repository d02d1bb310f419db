"""The kinds of files that rlvc reads: a few intact ones each, how to load and how to use them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rlvc import ForestPolicy, Percepts, Policy, load_policy, load_vocabulary, save_vocabulary
from rlvc._core.archive import write_archive
from rlvc.classifiers import Diagrams, Split, Tree
from rlvc.data import SINGLE, Image
from rlvc.errors import DamagedFileError, InvalidFileError
from rlvc.features import AtLeast, Composite, FeatureGraph, InCell, Primitive
from rlvc.runs import Examples
from rlvc.vision import (
    Euclidean,
    ExtractionCache,
    FeatureExtractor,
    Hamming,
    Harris,
    Invariants,
    Mahalanobis,
    Orb,
    OrbDescriptor,
    Sift,
    SiftDescriptor,
)
from tests.support import checkpoints as records

SIDE, LARGE = 48, 96  # pixels of images; ORB detects nothing near the border


@dataclass(frozen=True)
class Kind:
    """One kind of file.

    Attributes:
        name: The name of the kind.
        files: A few intact ones.
        load: Reads a file.
        act: Uses what was loaded, which must work.
    """

    name: str
    files: list[bytes]
    load: Callable[[Path], Any]
    act: Callable[[Any], None]

    def outcome(self, path: Path) -> str:
        """Load a file and use it; return whether it was loaded, damaged or invalid."""
        try:
            loaded = self.load(path)
        except DamagedFileError:
            return "damaged"
        except InvalidFileError:
            return "invalid"
        self.act(loaded)
        return "loaded"


class Memory:
    """The growth of memory from now on; Linux can reset the peak of a process."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self._before = self._read("VmRSS")

    @property
    def growth(self) -> int:
        """The largest number of bytes beyond those that were in use in the beginning."""
        return self._read("VmHWM") - self._before

    @staticmethod
    def _read(name: str) -> int:
        status = Path("/proc/self/status").read_text().split()
        return int(status[status.index(f"{name}:") + 1]) * 1024


def all_kinds(folder: Path) -> list[Kind]:
    """Return all kinds; their files are written to a folder first."""
    return [
        Kind("policy", _written(folder, policies()), load_policy, act),
        Kind("forest", _written(folder, [forest()]), load_policy, act),
        Kind("vocabulary", _written(folder, extractors()), load_vocabulary, see),
        Kind("examples", _written(folder, examples()), Examples.load, show),
        *(Kind(name, _written(folder, [part]), *does) for name, part, *does in checkpoints()),
    ]


def _written(folder: Path, things: list[Any]) -> list[bytes]:
    found = []
    for thing in things:
        path = folder / "intact"
        if isinstance(thing, FeatureExtractor):
            save_vocabulary(thing, path)
        elif isinstance(thing, tuple):
            write_archive(path, *thing)
        else:
            thing.save(path)
        found.append(path.read_bytes())
    return found


# Contents -----------------------------------------------------------------------------------


def picture(seed: int, channels: int = 3, height: int = SIDE, width: int = SIDE) -> Image:
    """Return an image with some corners, or a blank one for the seed 0."""
    coarse = np.random.default_rng(seed).integers(0, 256, (12, 12, channels), dtype=np.uint8)
    image = np.kron(coarse * bool(seed), np.ones((LARGE // 12, LARGE // 12, 1), np.uint8))
    return np.ascontiguousarray(image[:height, :width])


def extractors() -> list[FeatureExtractor]:
    """Return feature extractors with a few symbols each."""
    colour, grey = picture(1), picture(2, 1)
    percept: dict[str, Image] = {"front": colour, "rear": grey}
    large: dict[str, Image] = {"front": picture(1, 3, LARGE, LARGE)}
    made = []
    for extractor, seen in (
        (FeatureExtractor(Harris(), Invariants(), Mahalanobis(), 2.5), {SINGLE: colour}),
        (FeatureExtractor(Sift(max_points=9), SiftDescriptor(), Euclidean(), 300.0), percept),
        (FeatureExtractor(Orb(max_points=9), OrbDescriptor(), Hamming(), 40.0), large),
        (
            FeatureExtractor(Harris(), Invariants(), Mahalanobis(), 1.0),
            {**percept, "blank": picture(0)},
        ),
    ):
        percepts = _store(seen)
        extractor.find_symbols(percepts, ExtractionCache().extract(extractor, percepts))
        made.append(extractor)
    return made


def _store(percept: dict[str, Image]) -> Percepts:
    percepts = Percepts()
    percepts.add(percept[SINGLE] if list(percept) == [SINGLE] else percept)
    return percepts


def policies() -> list[Policy]:
    """Return policies of a tree, of diagrams and of features of all kinds."""
    first, second, third, fourth = extractors()
    tree = Tree().refine([Split(0, 0)]).refine([Split(0, 1), Split(1, 1)])
    four = Diagrams().refine([Split(0, 0)]).refine([Split(0, 1), Split(1, 1)])
    pair = Composite(first=0, second=1, mean=20.0, deviation=9.0, likelihood=0.4)
    turned = replace(pair, turn=5.0, turn_deviation=40.0, ratio=0.1, ratio_deviation=2.0)
    parts = (
        Primitive("front", 0), Primitive("front", 1), pair, turned,
        InCell(part=2, level=1, column=0, line=1), AtLeast(parts=(0, 1, 3), least=2),
        replace(pair, first=2, second=4),
    )  # fmt: skip
    high = Tree().refine([Split(0, 6)]).refine([Split(0, 5), Split(1, 4)])
    return [
        make_policy(first, (Primitive(SINGLE, 0), Primitive(SINGLE, 1)), tree),
        make_policy(
            second, (Primitive("front", 0), Primitive("rear", 0)), four.merge([[0, 3], [1], [2]])
        ),
        make_policy(third, (Primitive("front", 0),), Tree().refine([Split(0, 0)])),
        make_policy(fourth, parts, high),
    ]


def make_policy(
    extractor: FeatureExtractor, features: tuple[Any, ...], classifier: Tree | Diagrams
) -> Policy:
    """Return a policy with some values."""
    rng, n = np.random.default_rng(0), classifier.n_classes
    side = LARGE if isinstance(extractor.detector, Orb) else SIDE
    return Policy(
        extractor=extractor.snapshot(),
        graph=FeatureGraph(features),
        classifier=classifier,
        q=rng.normal(size=(n, 3)),
        count=rng.integers(0, 5, (n, 3)),
        usage=np.arange(len(features)),
        patches=rng.integers(0, 256, (len(features), 2, 2, 3), dtype=np.uint8),
        shapes={
            name: (side, side, 1 if name == "rear" else 3)
            for name in sorted(extractor.vocabularies)
        },
        gamma=0.9,
        action_start=1,
        action_names=("left", "on", "right"),
        about={"task": "none"},
    )


def forest() -> ForestPolicy:
    """Return a forest of a policy and of another one."""
    one = policies()[3]
    stump = Tree().refine([Split(0, 1)])
    other = make_policy(one.extractor, one.features[:2], stump)
    mixed = make_policy(one.extractor, one.features[:2], Diagrams().refine([Split(0, 1)]))
    return ForestPolicy.of([one, other, mixed], out_of_bag=0.5, uncertainty_penalty=0.3)


def examples() -> list[Examples]:
    """Return a few small percepts, of one camera and of two."""
    small = [picture(seed)[::8, ::8] for seed in range(1, 4)]
    one, two = Percepts(), Percepts()
    for image in small:
        one.add(image)
        two.add({"front": image, "rear": small[0][..., :1]})
    count = np.array([3, 1, 2])
    return [Examples(one, count, np.array([0, 1, 1])), Examples(two, count)]


def checkpoints() -> list[tuple[str, Any, Callable[[Path], Any], Callable[[Any], None]]]:
    """Return the records of checkpoints, how to resume from each, and how to use it."""
    parts = records.parts()
    return [
        ("run", parts["run"], records.load_run, lambda _: None),
        ("stage", parts["stage-0"], records.load_stage, records.split),
        ("tree", parts["tree-0"], records.load_tree, lambda grown: act(grown.policy)),
        ("keypoints", records.keypoints_record(), records.load_keypoints, records.see),
    ]


# Uses ------------------------------------------------------------------------------------


def act(policy: Policy | ForestPolicy) -> None:
    """Choose an action and explain it, on a blank percept and on another one."""
    for seed in (0, 7):
        percept = {
            name: picture(seed, shape[2], shape[0], shape[1])
            for name, shape in policy.shapes.items()
        }
        seen: Any = percept[SINGLE] if list(percept) == [SINGLE] else percept
        action = int(policy.predict(seen)[0]) - policy.action_start
        assert 0 <= action < policy.n_actions
        explanation = policy.explain(seen)
        assert explanation.action == action + policy.action_start
        assert str(explanation)


def see(extractor: FeatureExtractor) -> None:
    """Extract keypoints of every camera, and learn new symbols."""
    side = LARGE if isinstance(extractor.detector, Orb) else SIDE
    percept = {name: picture(7, 3, side, side) for name in [*extractor.vocabularies] or [SINGLE]}
    before = extractor.n_symbols
    # Before the first comparison, the descriptor and the metric may not fit.
    with contextlib.suppress(TypeError) if before == 0 else contextlib.nullcontext():
        percepts = _store(percept)
        extractor.find_symbols(percepts, ExtractionCache().extract(extractor, percepts))
        assert extractor.n_symbols >= before


def show(found: Examples) -> None:
    """Return all images."""
    assert len(list(found.percepts)) == len(found.count)
