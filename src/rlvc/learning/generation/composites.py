"""New features for classes that no known feature splits: pairs of features at typical distances.

The paper's Algorithm 6: count which features occur together in the percepts of a class, take the
pairs that often do, cluster their distances, and make a composite feature of each cluster. All
classes of a stage are processed together, as arrays: ``class_images.py`` has the images of classes,
``pairs.py`` the pairs and their distances, ``clustering.py`` the clusters of these.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rlvc._core.arrays import Bools, Ints
from rlvc._core.jit import n_threads, share_threads, spans_of
from rlvc._core.params import check, check_methods, param
from rlvc.features.graph import FeatureGraph
from rlvc.features.kinds import MAX_HEIGHT, AtLeast, Feature
from rlvc.learning.generation.base import Candidates, GeneratorState, generators
from rlvc.learning.generation.cells import choose_cells
from rlvc.learning.generation.class_images import ClassFeatures
from rlvc.learning.generation.clustering import Clustering, Tails
from rlvc.learning.generation.pairs import compose_pairs
from rlvc.learning.generation.sampling import ImageQuery

if TYPE_CHECKING:
    from rlvc.learning.view import View

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Composites:
    """Pairs of features at typical distances.

    Work is bounded: of large classes, only a random sample of the images, the most frequent
    features and pairs, and the first candidates are used. Limits that are exceeded are logged,
    except that on images if workers hold these.
    """

    clustering: Clustering = field(default_factory=Tails)
    together: bool = param(
        True, "propose new features together with the known ones; else only where these fail"
    )
    likelihood: float = param(
        0.2, "minimum likelihood of a distance, relative to the mode (ν)", above=0.0, below=1.0
    )
    deviation: float = param(1.0, "minimum standard deviation of a distance, pixels", above=0.0)
    support: float = param(
        0.2, "share of the class's images that must show both features", low=0.0, high=1.0
    )
    height: int = param(1, "maximum height of a composite", low=1, high=MAX_HEIGHT)
    use_angle: bool = param(False, "also require a typical angle between orientations")
    use_scale: bool = param(False, "also require a typical ratio of scales")
    grid: int = param(
        0, "levels of the pyramid of grids in which features are located; 0 for none", low=0, high=5
    )
    images: int = param(32, "maximum images of a class that are searched for pairs", low=2)
    features: int = param(32, "maximum features of a class to pair, the most frequent", low=2)
    pairs: int = param(8, "maximum pairs of a class, the most frequent; 0 for none", low=0)
    distances: int = param(32, "maximum distances of a pair", low=2)
    candidates: int = param(1000, "maximum new candidates per kind, class and camera", low=1)
    seed: int = param(0, "seed of the samples of large classes", low=0)

    def __post_init__(self) -> None:
        check(self)
        check_methods(self, "clustering", "cluster")

    def start(self) -> GeneratorState:
        """Return the state of one run."""
        return Composer(self)


@dataclass(frozen=True, slots=True)
class CameraFeatures:
    """New features of one kind and one camera for some classes.

    Attributes:
        camera: The number of the camera.
        features: Those of each class: all are pairs, or all are in cells.
        ids: A unique number for the features of each class.
        kept_ids: The ids of all features that may be proposed again.
    """

    camera: int
    features: list[ClassFeatures]
    ids: list[int]
    kept_ids: list[int]


class NewFeatures(Sequence[Feature]):
    """New features for some classes, in the order of their numbers.

    They are stored as arrays; a feature object is made when it is accessed.

    Attributes:
        height: The maximum height of composites.
        kinds: The features of each camera and kind.
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


_IDS = itertools.count()
IdentifiedFeatures = tuple[int, ClassFeatures]  # the new features of a class, after their id


class Composer:
    """Compose features for the classes of one run.

    The new features of a class depend only on its percepts and on the features that may be parts.
    As a stage changes few classes, they are cached for as long as these stay the same.
    """

    def __init__(self, config: Composites) -> None:
        self._config = config
        self._basis: tuple[object, int] = (None, 0)
        self._cached: dict[tuple[int, str], dict[tuple[int, ...], IdentifiedFeatures]] = {}

    def generate(self, view: View, is_aliased: Bools, attempt: int) -> Candidates | None:
        """Return the features of the graph, and new ones together with them or afterwards."""
        together = self._config.together
        if attempt > (0 if together else 1):
            return None
        if attempt == 0 and not together:
            return Candidates()
        return Candidates(known=together, new=self._compose(view, is_aliased))

    def _compose(self, view: View, is_aliased: Bools) -> NewFeatures:
        """Return the new features of each aliased class."""
        config = self._config
        is_part = may_be_part(view.graph, config.height)
        basis = view.client, int(is_part.sum())
        if basis != self._basis:  # there are other percepts now, or more parts
            self._basis, self._cached = basis, {}
        keys = [tuple(key) for key in view.class_keys().tolist()]
        wanted = np.flatnonzero(is_aliased).tolist()
        kinds, n_cut = list[CameraFeatures](), np.zeros(len(_LIMITS), np.int64)
        makers = [self._pair_up] if config.pairs else []
        makers += [self._locate] if config.grid else []
        for camera, make in itertools.product(range(view.n_cameras), makers):
            cached = self._cached.setdefault((camera, make.__name__), {})
            missing = [c for c in wanted if keys[c] not in cached]
            if missing:
                for key in cached.keys() - set(keys):
                    del cached[key]
                made, cut = make(view, camera, missing, is_part)
                n_cut += cut
                cached |= {keys[c]: (next(_IDS), one) for c, one in zip(missing, made, strict=True)}
            ours = [cached[keys[c]] for c in wanted]
            ids, features = [number for number, _ in ours], [one for _, one in ours]
            kept_ids = [number for number, _ in cached.values()]
            kinds.append(CameraFeatures(camera, features, ids, kept_ids))
        for number, what in zip(n_cut.tolist(), _LIMITS, strict=True):
            if number:
                log.info("%d %s", number, what)
        return NewFeatures(config.height, kinds)

    def _pair_up(
        self, view: View, camera: int, wanted: list[int], is_part: Bools
    ) -> tuple[Sequence[ClassFeatures], Ints]:
        """Return the composites of some classes, and how often each limit was exceeded."""
        config = self._config
        query = ImageQuery(wanted, camera, config.height, config.seed)
        sample = view.sample(query, config.images)
        if config.use_angle and np.isnan(sample.places.marks[:, 3]).any():
            raise ValueError(
                "use_angle of Composites needs a detector that gives orientations, such as "
                "sift or orb."
            )
        work = functools.partial(compose_pairs, config, sample, is_part)
        found = share_threads(work, spans_of(sample.begin, n_threads(view.threads)), view.threads)
        made = [one for pairs, _ in found for one in pairs]
        return made, np.sum([cut for _, cut in found], axis=0)

    def _locate(
        self, view: View, camera: int, wanted: list[int], is_part: Bools
    ) -> tuple[Sequence[ClassFeatures], Ints]:
        """Return the located features of some classes, and how often each limit was exceeded."""
        query = ImageQuery(wanted, camera, self._config.height)
        counts = view.count_cells(query, self._config.grid)
        chosen, n_cut = choose_cells(counts, self._config.candidates)
        return chosen, np.array([0, 0, 0, 0, n_cut])


def may_be_part(graph: FeatureGraph, height: int) -> Bools:
    """Return which features may be parts of composites: low ones, except at-least features."""
    low = np.asarray(graph.height, np.int64) < height
    if height > 1:  # else only symbols are low enough
        low &= [not isinstance(feature, AtLeast) for feature in graph.features]
    return low


_LIMITS = (
    "classes have more images than are searched; see the option images.",
    "classes have more features than are paired; see the option features.",
    "classes have more pairs of features than are compared; see the option pairs.",
    "pairs of features have more distances than are clustered; see the option distances.",
    "classes have more new candidates than are tried; see the option candidates.",
)


generators.register("composites", Composites)
