"""New features for classes that no known feature splits: pairs of features at typical distances.

The paper's Algorithm 6: count which features occur together in the percepts of a class, take the
pairs that often do, cluster their distances, and make of each cluster a composite feature. All
classes of a stage are done together, on arrays: ``jobs.py`` has the classes as cameras see them,
``cooccurrence.py`` the pairs and their distances, ``clustering.py`` what is typical of these.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rlvc._core.arrays import Bools, Ints
from rlvc._core.params import check, param
from rlvc.features.graph import FeatureGraph
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import HIGHEST, AtLeast
from rlvc.features.occurrences import Found, OccurrenceTable
from rlvc.learning.generation.base import Candidates, GeneratorState, generators
from rlvc.learning.generation.cells import Cells, choose_cells, count_cells, show_cells
from rlvc.learning.generation.class_images import (
    Block,
    ClassImages,
    Made,
    Offer,
    Share,
    assemble,
    class_keys,
)
from rlvc.learning.generation.clustering import Clustering, Tails
from rlvc.learning.generation.pairs import N_CAPS, compose, show
from rlvc.learning.generation.sampling import Sample

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
        """Return who offers composites during one run."""
        return Composer(self)


@dataclass(frozen=True, slots=True)
class Offered:
    """New features of one kind for some classes, as one camera sees them.

    Attributes:
        camera: Which camera.
        keys: What tells these features, and the percepts of each class, from any others.
        made: The features of each class: all are pairs, or all are in cells.
    """

    camera: int
    keys: list[tuple[int, ...]]
    made: list[Made]


@dataclass(frozen=True, slots=True)
class News:
    """New features for some classes, without who exhibits them.

    Attributes:
        height: The greatest height that composites may have.
        kinds: What there is of each kind, for each camera; in the order of their numbers.
    """

    height: int
    kinds: list[Offered]

    def features(self) -> Offer:
        """Return the features in the order of their numbers."""
        nobody, nothing = np.empty(0, np.int64), np.empty(0, np.int32)
        return Offer([Block(nobody, nothing, made) for one in self.kinds for made in one.made])


class Crowd(Protocol):
    """Who has the percepts, if they are elsewhere."""

    @property
    def n_cameras(self) -> int:
        """How many cameras there are."""
        ...

    def keys(self) -> Ints:
        """Return what tells the percepts of classes apart; see ``class_keys``."""
        ...

    def sample(self, wanted: list[int], camera: int, seed: int, most: int, height: int) -> Sample:
        """Return the first images of some classes, in an order of all that a seed draws."""
        ...

    def cells(
        self, wanted: list[int], camera: int, levels: int, height: int
    ) -> tuple[Ints, tuple[Ints, Ints, Ints, Ints]]:
        """Return how many images classes have, and how many show what in which cell of a grid."""
        ...


class Composer:
    """Composes features for the classes of one run.

    What is composed for a class depends on its percepts and on the features that may be parts, and
    on nothing else. So it is kept for as long as these stay: a stage changes few classes.
    """

    def __init__(self, rules: Composites) -> None:
        self._rules = rules
        self._table: Ints | None = None
        self._n_parts = 0
        self._found: dict[int, Found] = {}
        self._places: tuple[OccurrenceTable, ...] = ()
        self._orders: list[Ints] = []
        self._kept: dict[tuple[int, str], dict[tuple[int, ...], Block]] = {}
        self._made: dict[tuple[int, str], dict[tuple[int, ...], Made]] = {}

    def generate(
        self,
        index: FeatureIndex,
        classes: Ints,
        is_aliased: Bools,
        attempt: int,
        threads: int = 1,
    ) -> Candidates | None:
        """Return the features of the graph, then new ones for what these do not split."""
        together = self._rules.together
        if attempt > (0 if together else 1):
            return None
        if attempt == 0 and not together:
            return Candidates(index.incidence)
        new = self._compose(index, classes, is_aliased, threads)
        if attempt == 0:
            return Candidates(index.incidence.append(new.incidence), new.new)
        return new

    def offer(
        self, crowd: Crowd, graph: FeatureGraph, is_aliased: Bools, attempt: int
    ) -> tuple[bool, News | None] | None:
        """Return what :meth:`generate` does where others have the percepts.

        Args:
            crowd: Who has them.
            graph: The features known so far.
            is_aliased: (n_classes,) the classes for which candidates are wanted.
            attempt: How often it was asked before at this stage.

        Returns:
            Whether the features known so far are candidates, and the new ones; None if there are
            no others than at earlier attempts.
        """
        together = self._rules.together
        if attempt > (0 if together else 1):
            return None
        if attempt == 0 and not together:
            return True, None
        return together, self._compose_elsewhere(crowd, graph, is_aliased)

    def _compose_elsewhere(self, crowd: Crowd, graph: FeatureGraph, is_aliased: Bools) -> News:
        """Return the new features of each aliased class, from what others show of it."""
        rules = self._rules
        is_part = may_be_part(graph, rules.height)
        if (n_parts := int(is_part.sum())) != self._n_parts:
            self._n_parts, self._made = n_parts, {}
        every_key = [tuple(key) for key in crowd.keys().tolist()]
        wanted = np.flatnonzero(is_aliased).tolist()
        keys, kinds = [every_key[c] for c in wanted], list[Offered]()
        n_cut = np.zeros(N_CAPS, np.int64)
        makers = [self._pairs_of] * (rules.pairs > 0) + [self._cells_of] * (rules.grid > 0)
        for camera, maker in itertools.product(range(crowd.n_cameras), makers):
            made = self._made.get((camera, maker.__name__), {})
            missing = [c for c, key in zip(wanted, keys, strict=True) if key not in made]
            if missing:
                new, cut = maker(crowd, camera, missing, is_part)
                n_cut += cut
                made = made | dict(zip((every_key[c] for c in missing), new, strict=True))
            self._made[camera, maker.__name__] = {
                key: made[key] for key in every_key if key in made
            }
            ours = [made[key] for key in keys]
            names = [(*key, *one.stamp()) for key, one in zip(keys, ours, strict=True)]
            kinds.append(Offered(camera, names, ours))
        _tell(n_cut)
        return News(rules.height, kinds)

    def _pairs_of(
        self, crowd: Crowd, camera: int, wanted: list[int], is_part: Bools
    ) -> tuple[list[Made], Ints]:
        """Return the composites of some classes, and how often each of the caps bit."""
        rules = self._rules
        sample = crowd.sample(wanted, camera, rules.seed, rules.images, rules.height)
        self._check_angles(sample.places)
        image = np.arange(len(sample.rank))
        span = slice(0, len(wanted))
        made, n_cut = compose(rules, sample.begin, image, sample.places, is_part, span)
        edges = np.searchsorted(made.job, np.arange(len(wanted) + 1)).tolist()
        return [made.take(slice(a, b)) for a, b in itertools.pairwise(edges)], n_cut

    def _cells_of(
        self, crowd: Crowd, camera: int, wanted: list[int], is_part: Bools
    ) -> tuple[list[Made], Ints]:
        """Return the located features of some classes, and how often each of the caps bit."""
        rules = self._rules
        n_images, counted = crowd.cells(wanted, camera, rules.grid, rules.height)
        made, n_cut = choose_cells(*counted, n_images, rules.candidates)
        return [*made], np.array([0, 0, 0, 0, n_cut])

    def _check_angles(self, places: OccurrenceTable) -> None:
        if self._rules.use_angle and self._rules.pairs and np.isnan(places.marks[:, 3]).any():
            raise ValueError(
                "use_angle of Composites needs a detector that gives orientations, such as "
                "sift or orb."
            )

    def _compose(
        self, index: FeatureIndex, classes: Ints, is_aliased: Bools, threads: int
    ) -> Candidates:
        """Return the new features of each aliased class."""
        for places in index.places:
            self._check_angles(places)
        is_part = may_be_part(index.graph, self._rules.height)
        self._forget(index, is_part)
        keys = [tuple(key) for key in class_keys(classes, len(is_aliased)).tolist()]
        wanted = np.flatnonzero(is_aliased).tolist()
        n = len(is_part)
        found: list[Incidence] = []
        blocks: list[Block] = []
        n_cut = np.zeros(N_CAPS, np.int64)
        makers = [self._pair_up] * (self._rules.pairs > 0) + [self._locate] * (self._rules.grid > 0)
        for (camera, places), maker in itertools.product(enumerate(self._places), makers):
            kept = self._kept.setdefault((camera, maker.__name__), {})
            missing = [c for c in wanted if keys[c] not in kept]
            if missing:
                for key in kept.keys() - set(keys):
                    del kept[key]
                image, order = index.table[:, camera], self._orders[camera]
                jobs = ClassImages.of(classes, len(keys), missing, image, order)
                made, cut = jobs.share(functools.partial(maker, jobs, places, is_part), threads)
                n_cut += cut
                kept |= {keys[c]: block for c, block in zip(missing, made, strict=True)}
            ours = [kept[keys[c]] for c in wanted]
            found.append(assemble(ours, classes, is_aliased, n))
            n = found[-1].n_features
            blocks += ours
        _tell(n_cut)
        if not found:
            found = [Incidence(np.zeros(len(classes) + 1, np.int64), np.empty(0, np.int32), n)]
        return Candidates(functools.reduce(Incidence.append, found), Offer(blocks))

    def _forget(self, index: FeatureIndex, is_part: Bools) -> None:
        """Forget what was kept if there are other percepts now, or more parts."""
        n_parts = int(is_part.sum())
        if index.table is self._table and n_parts == self._n_parts:
            return
        if index.table is not self._table:
            self._found = {}
        self._table, self._n_parts, self._kept = index.table, n_parts, {}
        self._places = index.places_of(np.flatnonzero(is_part).tolist(), self._found)
        # Images are taken in an order of their own, so that the first few are a fair sample.
        rng = np.random.default_rng(self._rules.seed)
        self._orders = [rng.permutation(places.n_images) for places in index.places]

    def _pair_up(
        self, jobs: ClassImages, places: OccurrenceTable, is_part: Bools, span: slice
    ) -> Share:
        """Make composites for some of the classes."""
        made, n_cut = compose(self._rules, jobs.begin, jobs.image, places, is_part, span)
        return show(made, jobs, places, len(is_part), span)._replace(n_cut=n_cut)

    def _locate(
        self, jobs: ClassImages, places: OccurrenceTable, is_part: Bools, span: slice
    ) -> Share:
        """Make located features for some of the classes."""
        counted = locate(self._rules.grid, jobs, places, is_part, span)
        made, n_cut = choose_cells(*counted, np.diff(jobs.begin), self._rules.candidates)
        shown = show_located(made, jobs, places, len(is_part), span)
        return shown._replace(n_cut=np.array([0, 0, 0, 0, n_cut]))


def _tell(n_cut: Ints) -> None:
    """Log how often each of the caps bit."""
    for number, what in zip(n_cut.tolist(), _CAPS, strict=True):
        if number:
            log.info("%d %s", number, what)


def locate(
    levels: int, jobs: ClassImages, places: OccurrenceTable, is_part: Bools, span: slice
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return how many images of some classes show each feature in each cell of a grid."""
    return count_cells(
        span.start, span.stop, jobs.begin, jobs.image, places.begin, places.feature, places.marks,
        is_part, places.size, levels,
    )  # fmt: skip


def show_located(
    made: Sequence[Cells], jobs: ClassImages, places: OccurrenceTable, n_features: int, span: slice
) -> Share:
    """Return which images of some classes exhibit the located features of their class."""
    begin = np.cumsum([0, *(len(one) for one in made)])
    rows = np.concatenate([np.empty((0, 4), np.int64), *(one.rows for one in made)])
    length, columns = show_cells(
        span.start, span.stop, jobs.begin, jobs.image, places.begin, places.feature, places.marks,
        places.size, rows, begin, n_features,
    )  # fmt: skip
    return Share(made[span], length, columns, np.zeros(N_CAPS, np.int64))


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
