"""New features for classes that no known feature splits: pairs of features at typical distances.

The paper's Algorithm 6: count which features occur together in the percepts of a class, take the
pairs that often do, cluster their distances, and make of each cluster a composite feature. All
classes of a stage are done together, on arrays: ``class_images.py`` has the classes as cameras see
them, ``pairs.py`` the pairs and their distances, ``clustering.py`` what is typical of these.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rlvc._core.arrays import Bools, Ints
from rlvc._core.jit import share_threads
from rlvc._core.params import check, param
from rlvc.features.graph import FeatureGraph
from rlvc.features.kinds import HIGHEST, AtLeast, Feature
from rlvc.learning.generation.base import Candidates, GeneratorState, generators
from rlvc.learning.generation.cells import choose_cells
from rlvc.learning.generation.class_images import ClassFeatures, spans_of
from rlvc.learning.generation.clustering import Clustering, Tails
from rlvc.learning.generation.pairs import compose

if TYPE_CHECKING:
    from rlvc.learning.view import View

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Composites:
    """Pairs of features at typical distances.

    Work is bounded: of a class that has more than the caps allow, a sample of the images drawn by
    the seed is looked at, for the most frequent features and pairs; of too many candidates the
    first are kept. The log says when a cap bit; where workers have the images, not that on them.
    """

    clustering: Clustering = field(default_factory=Tails)
    together: bool = param(
        True, "offer new features together with the known ones, or else where none of these helps"
    )
    likelihood: float = param(
        0.2, "least likelihood of a distance, of the most likely one's (ν)", above=0.0, below=1.0
    )
    deviation: float = param(1.0, "least standard deviation of a distance, pixels", above=0.0)
    support: float = param(
        0.2, "share of the class's images that must show both features", low=0.0, high=1.0
    )
    height: int = param(1, "greatest height of a composite", low=1, high=HIGHEST)
    use_angle: bool = param(False, "ask for a typical angle between orientations as well")
    use_scale: bool = param(False, "ask for a typical ratio of scales as well")
    grid: int = param(
        0, "levels of the pyramid of grids in which features are located; 0 for none", low=0, high=5
    )
    images: int = param(32, "most images of a class that are searched for pairs", low=2)
    features: int = param(32, "most features of a class that are paired, the most frequent", low=2)
    pairs: int = param(8, "most pairs of a class, the most frequent; 0 for none", low=0)
    distances: int = param(32, "most distances of a pair", low=2)
    candidates: int = param(1000, "most new candidates of a kind, class and camera", low=1)
    seed: int = param(0, "of what is looked at where there is more than allowed", low=0)

    def __post_init__(self) -> None:
        check(self)
        if isinstance(self.clustering, type) or not hasattr(self.clustering, "cluster"):
            given: Any = self.clustering
            cure = f" Write {given.__name__}()." if isinstance(given, type) else ""
            raise TypeError(
                "clustering of Composites must be an object with a method cluster; got "
                f"{given!r}.{cure}"
            )

    def start(self) -> GeneratorState:
        """Return the state of one run."""
        return Composer(self)


@dataclass(frozen=True, slots=True)
class CameraFeatures:
    """New features of one kind for some classes, as one camera sees them.

    Attributes:
        camera: The number of the camera.
        features: Those of each class: all are pairs, or all are in cells.
        numbers: What tells the features of each class from any others that were ever made.
        kept: The numbers of all that may be offered again.
    """

    camera: int
    features: list[ClassFeatures]
    numbers: list[int]
    kept: list[int]


class NewFeatures(Sequence[Feature]):
    """New features for some classes, in the order of their numbers.

    They are arrays; a feature is made of them when it is asked for.

    Attributes:
        height: The greatest height that composites may have.
        kinds: What there is of each kind, for each camera.
    """

    def __init__(self, height: int, kinds: list[CameraFeatures]) -> None:
        self.height, self.kinds = height, kinds
        self._arrays = [one for kind in kinds for one in kind.features]
        self._begin = list(itertools.accumulate(map(len, self._arrays), initial=0))

    def __len__(self) -> int:
        return self._begin[-1]

    def __getitem__(self, number: int) -> Feature:  # type: ignore[override]
        number = range(len(self))[number]
        which = bisect.bisect_right(self._begin, number) - 1
        return self._arrays[which].feature(number - self._begin[which])


_NUMBERS = itertools.count()
Made = tuple[int, ClassFeatures]  # its number, and the new features of a class


class Composer:
    """Compose features for the classes of one run.

    What is composed for a class depends on its percepts and on the features that may be parts, and
    on nothing else. So it is kept for as long as these stay: a stage changes few classes.
    """

    def __init__(self, rules: Composites) -> None:
        self._rules = rules
        self._basis: tuple[object, int] = (None, 0)
        self._kept: dict[tuple[int, str], dict[tuple[int, ...], Made]] = {}

    def generate(self, view: View, is_aliased: Bools, attempt: int) -> Candidates | None:
        """Return the features of the graph, then new ones for what these do not split."""
        together = self._rules.together
        if attempt > (0 if together else 1):
            return None
        if attempt == 0 and not together:
            return Candidates()
        return Candidates(known=together, new=self._compose(view, is_aliased))

    def _compose(self, view: View, is_aliased: Bools) -> NewFeatures:
        """Return the new features of each aliased class."""
        rules = self._rules
        is_part = may_be_part(view.graph, rules.height)
        basis = view.source, int(is_part.sum())
        if basis != self._basis:  # there are other percepts now, or more parts
            self._basis, self._kept = basis, {}
        keys = [tuple(key) for key in view.class_keys().tolist()]
        wanted = np.flatnonzero(is_aliased).tolist()
        kinds, n_cut = list[CameraFeatures](), np.zeros(len(_CAPS), np.int64)
        makers = [self._pair_up] * (rules.pairs > 0) + [self._locate] * (rules.grid > 0)
        for camera, make in itertools.product(range(view.n_cameras), makers):
            kept = self._kept.setdefault((camera, make.__name__), {})
            missing = [c for c in wanted if keys[c] not in kept]
            if missing:
                for key in kept.keys() - set(keys):
                    del kept[key]
                made, cut = make(view, camera, missing, is_part)
                n_cut += cut
                kept |= {
                    keys[c]: (next(_NUMBERS), one) for c, one in zip(missing, made, strict=True)
                }
            ours = [kept[keys[c]] for c in wanted]
            features, numbers = [one for _, one in ours], [number for number, _ in ours]
            every = [number for number, _ in kept.values()]
            kinds.append(CameraFeatures(camera, features, numbers, every))
        for number, what in zip(n_cut.tolist(), _CAPS, strict=True):
            if number:
                log.info("%d %s", number, what)
        return NewFeatures(rules.height, kinds)

    def _pair_up(
        self, view: View, camera: int, wanted: list[int], is_part: Bools
    ) -> tuple[Sequence[ClassFeatures], Ints]:
        """Return the composites of some classes, and how often each of the caps bit."""
        rules = self._rules
        sample = view.sample(wanted, camera, rules.seed, rules.images, rules.height)
        if rules.use_angle and np.isnan(sample.places.marks[:, 3]).any():
            raise ValueError(
                "use_angle of Composites needs a detector that gives orientations, such as "
                "sift or orb."
            )
        work = functools.partial(compose, rules, sample, is_part)
        found = share_threads(work, spans_of(sample.begin, view.threads), view.threads)
        made = [one for pairs, _ in found for one in pairs]
        return made, np.sum([cut for _, cut in found], axis=0)

    def _locate(
        self, view: View, camera: int, wanted: list[int], is_part: Bools
    ) -> tuple[Sequence[ClassFeatures], Ints]:
        """Return the located features of some classes, and how often each of the caps bit."""
        counts = view.count_cells(wanted, camera, self._rules.grid, self._rules.height)
        made, n_cut = choose_cells(counts, self._rules.candidates)
        return made, np.array([0, 0, 0, 0, n_cut])


def may_be_part(graph: FeatureGraph, height: int) -> Bools:
    """Tell which features may be part of a composite: all that are low enough, in one place."""
    low = np.asarray(graph.height, np.int64) < height
    if height > 1:  # else only symbols are
        low &= [not isinstance(feature, AtLeast) for feature in graph.features]
    return low


_CAPS = (
    "classes have more images than are searched; images says how many may be.",
    "classes have more features than are paired; features says how many may be.",
    "classes have more pairs of features than are compared; pairs says how many may be.",
    "pairs of features have more distances than are clustered; distances says how many may be.",
    "classes have more new candidates than are tried; candidates says how many may be.",
)


generators.register("composites", Composites)
