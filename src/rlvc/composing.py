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
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc.clustering import Clustering, Tails, fit
from rlvc.cooccurrence import exhibited, find_pairs
from rlvc.features import HIGHEST, Composite, Graph, Several
from rlvc.generation import Candidates, Offering, generators
from rlvc.incidence import Incidence
from rlvc.jobs import Block, Jobs, Offer, Share, assemble, class_keys
from rlvc.locating import Cells, locate
from rlvc.parameters import check, param
from rlvc.sightings import Found, Places, Sightings

log = logging.getLogger(__name__)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Composites:
    """Pairs of features at typical distances.

    Work is bounded: of a class that has more than the caps allow, a sample of the images drawn by
    the seed is looked at, for the most frequent features and pairs; of too many candidates the
    first are kept. The log says when a cap bit.
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

    def start(self) -> Offering:
        """Return who offers composites during one run."""
        return Composer(self)


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
        self._places: list[Places] = []
        self._orders: list[Ints] = []
        self._kept: dict[tuple[int, str], dict[tuple[int, ...], Block]] = {}

    def generate(
        self,
        sightings: Sightings,
        classes: Ints,
        is_aliased: NDArray[np.bool_],
        attempt: int,
        threads: int = 1,
    ) -> Candidates | None:
        """Return the features of the graph, then new ones for what these do not split."""
        together = self._rules.together
        if attempt > (0 if together else 1):
            return None
        if attempt == 0 and not together:
            return Candidates(sightings.incidence)
        new = self._compose(sightings, classes, is_aliased, threads)
        if attempt == 0:
            return Candidates(sightings.incidence.append(new.incidence), new.new)
        return new

    def _compose(
        self, sightings: Sightings, classes: Ints, is_aliased: NDArray[np.bool_], threads: int
    ) -> Candidates:
        """Return the new features of each aliased class."""
        for places in sightings.places:
            if self._rules.use_angle and self._rules.pairs and np.isnan(places.marks[:, 3]).any():
                raise ValueError(
                    "use_angle of Composites needs a detector that gives orientations, such as "
                    "sift or orb."
                )
        is_part = _may_be_part(sightings.graph, self._rules.height)
        self._forget(sightings, is_part)
        keys = [tuple(key) for key in class_keys(classes, len(is_aliased)).tolist()]
        wanted = np.flatnonzero(is_aliased).tolist()
        n = len(is_part)
        found: list[Incidence] = []
        blocks: list[Block] = []
        n_cut = np.zeros(len(_CAPS), np.int64)
        makers = [self._pair_up] * (self._rules.pairs > 0) + [self._locate] * (self._rules.grid > 0)
        for (camera, places), maker in itertools.product(enumerate(self._places), makers):
            kept = self._kept.setdefault((camera, maker.__name__), {})
            missing = [c for c in wanted if keys[c] not in kept]
            if missing:
                for key in kept.keys() - set(keys):
                    del kept[key]
                image, order = sightings.table[:, camera], self._orders[camera]
                jobs = Jobs.of(classes, len(keys), missing, image, order)
                made, cut = jobs.share(functools.partial(maker, jobs, places, is_part), threads)
                n_cut += cut
                kept |= {keys[c]: block for c, block in zip(missing, made, strict=True)}
            ours = [kept[keys[c]] for c in wanted]
            found.append(assemble(ours, classes, is_aliased, n))
            n = found[-1].n_features
            blocks += ours
        for number, what in zip(n_cut.tolist(), _CAPS, strict=True):
            if number:
                log.info("%d %s", number, what)
        if not found:
            found = [Incidence(np.zeros(len(classes) + 1, np.int64), np.empty(0, np.int32), n)]
        return Candidates(functools.reduce(Incidence.append, found), Offer(blocks))

    def _forget(self, sightings: Sightings, is_part: NDArray[np.bool_]) -> None:
        """Forget what was kept if there are other percepts now, or more parts."""
        n_parts = int(is_part.sum())
        if sightings.table is self._table and n_parts == self._n_parts:
            return
        if sightings.table is not self._table:
            self._found = {}
        self._table, self._n_parts, self._kept = sightings.table, n_parts, {}
        graph = sightings.graph
        higher = [n for n in np.flatnonzero(is_part).tolist() if graph.height[n] > 0]
        found = {number: sightings.find(number, self._found) for number in higher}
        self._places = [
            places.join({n: where for n, where in found.items() if graph.camera[n] == camera})
            for camera, places in zip(sightings.cameras, sightings.places, strict=True)
        ]
        # Images are taken in an order of their own, so that the first few are a fair sample.
        rng = np.random.default_rng(self._rules.seed)
        self._orders = [rng.permutation(places.n_images) for places in sightings.places]

    def _pair_up(
        self, jobs: Jobs, places: Places, is_part: NDArray[np.bool_], span: slice
    ) -> Share:
        """Make composites for some of the classes."""
        rules = self._rules
        where = jobs.begin, jobs.image, places.begin, places.feature, places.marks
        job, parts, count, relation, cut = find_pairs(
            span.start, span.stop, *where, is_part, float(rules.support), rules.images,
            rules.features, rules.pairs, rules.distances, 4.0 * rules.deviation,
            rules.seed % 2**62,
        )  # fmt: skip
        made, n_cut = self._fit(job, parts, count, relation)
        first = np.searchsorted(made.job, np.arange(len(jobs.begin)))
        length, columns = exhibited(
            span.start, span.stop, *where, made.parts, made.pair, made.rows, first, len(is_part)
        )
        ours = [made.take(slice(first[i], first[i + 1])) for i in range(span.start, span.stop)]
        return Share(ours, length, columns, np.append(cut, n_cut))

    def _locate(self, jobs: Jobs, places: Places, is_part: NDArray[np.bool_], span: slice) -> Share:
        """Make located features for some of the classes."""
        n_made, rows, length, columns, n_cut = locate(
            span.start, span.stop, jobs.begin, jobs.image, places.begin, places.feature,
            places.marks, is_part, places.size, self._rules.grid,
            self._rules.candidates,
        )  # fmt: skip
        edges = [0, *np.cumsum(n_made).tolist()]
        ours = [Cells(rows[a:b]) for a, b in itertools.pairwise(edges)]
        return Share(ours, length, columns, np.array([0, 0, 0, 0, n_cut]))

    def _fit(self, job: Ints, parts: Ints, count: Ints, relation: Floats) -> tuple[Pairs, int]:
        """Return a composite for each cluster of each pair, and how many classes had too many."""
        rules = self._rules
        begin = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        labels = rules.clustering.cluster(begin, np.ascontiguousarray(relation[:, 0]))
        _check_labels(rules.clustering, labels, len(relation))
        limit = -2.0 * math.log(rules.likelihood)
        pair, rows = fit(
            begin, relation, labels, limit, float(rules.deviation), rules.use_angle,
            rules.use_scale,
        )  # fmt: skip
        made = Pairs(job[pair], parts[pair], pair, rows, rules.likelihood)
        number = np.arange(len(pair)) - np.searchsorted(made.job, made.job)  # within the class
        keep = number < rules.candidates
        if keep.all():
            return made, 0
        return made.take(keep), len(np.unique(made.job[~keep]))


def _may_be_part(graph: Graph, height: int) -> NDArray[np.bool_]:
    """Tell which features may be part of a composite: all that are low enough, in one place."""
    low = np.asarray(graph.height, np.int64) < height
    if height > 1:  # else only symbols are
        low &= [not isinstance(feature, Several) for feature in graph.features]
    return low


def _check_labels(clustering: Clustering, labels: Ints, n: int) -> None:
    """Raise a ValueError unless labels are such as compiled code can trust."""
    is_table = isinstance(labels, np.ndarray) and labels.ndim == 2 and len(labels) == n
    is_right = is_table and labels.dtype == np.int64
    if not is_right or (n and not -1 <= labels.min() <= labels.max() < n):
        raise ValueError(
            f"{type(clustering).__name__}.cluster must return an array of int64 of shape ({n}, "
            f"n_ways) with labels from 0, or -1; got {np.shape(labels)} of "
            f"{getattr(labels, 'dtype', type(labels).__name__)}."
        )


_CAPS = (
    "classes have more images than are searched; images says how many may be.",
    "classes have more features than are paired; features says how many may be.",
    "classes have more pairs of features than are compared; pairs says how many may be.",
    "pairs of features have more distances than are clustered; distances says how many may be.",
    "classes have more new candidates than are tried; candidates says how many may be.",
)


@dataclass(frozen=True, slots=True)
class Pairs:
    """New composites, as arrays.

    Attributes:
        job: (n,) the number of the class, in ascending order.
        parts: (n, 2) the features that each is made of.
        pair: (n,) which have their parts in common; they stand together.
        rows: (n, 7) their relations; see :meth:`rlvc.features.Composite.row`.
        likelihood: ν.
    """

    job: Ints
    parts: Ints
    pair: Ints
    rows: Floats
    likelihood: float

    def __len__(self) -> int:
        return len(self.parts)

    def take(self, some: slice | NDArray[np.bool_]) -> Pairs:
        """Return some of them."""
        return Pairs(
            self.job[some], self.parts[some], self.pair[some], self.rows[some], self.likelihood
        )

    def feature(self, number: int) -> Composite:
        """Return one of them as a feature."""
        first, second = self.parts[number].tolist()
        _, mean, inverse, turn, turn_inverse, ratio, ratio_inverse = self.rows[number].tolist()
        more: dict[str, Any] = {}
        if turn_inverse > 0.0:
            more |= {"turn": turn, "turn_deviation": 1.0 / turn_inverse}
        if ratio_inverse > 0.0:
            more |= {"ratio": ratio, "ratio_deviation": 1.0 / ratio_inverse}
        return Composite(
            first=first, second=second, mean=mean, deviation=1.0 / inverse,
            likelihood=self.likelihood, **more,
        )  # fmt: skip


generators.register("composites", Composites)
