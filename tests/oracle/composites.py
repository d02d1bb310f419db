"""Slow and literal transcriptions of the paper's Algorithms 5 and 6, on composite features.

Lists, loops and plain numbers only, so that it can be read beside the paper. Two things are more
than the paper has: the constraints on angles and scales of which it speaks, and features that are
looked for in one cell of the frame. The likelihood is in proportion to that of the mean.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from rlvc.features import AtLeast, Composite, Feature, InCell, Primitive
from rlvc.learning.generation.composites import Composites
from tests.oracle.rlvc import TooCloseError

CLOSE = 1e-9
LEAST_TURN = 5.0  # degrees
LEAST_RATIO = 0.1  # octaves


class TooManyError(Exception):
    """There are more occurrences than loops as slow as these should look at."""


@dataclass(frozen=True)
class Point:
    """An interest point of an image, or an occurrence."""

    x: float
    y: float
    scale: float
    angle: float  # NaN where there is none

    @property
    def at(self) -> tuple[float, float]:
        return self.x, self.y


@dataclass(frozen=True)
class View:
    """The image of one camera: its size and its interest points, each with its symbol."""

    width: int
    height: int
    points: list[tuple[int, Point]] = field(default_factory=list)


Percept = dict[str, View]


def occurrences(V: Sequence[Feature], v: int, s: Percept, most: int = 300) -> list[Point]:
    """Where feature number v of the graph occurs, in the order in which it is found."""
    feature = V[v]
    if isinstance(feature, Primitive):
        view = s[feature.camera]
        return [point for symbol, point in view.points if symbol == feature.symbol]
    if isinstance(feature, InCell):
        view = s[camera(V, v)]
        return [o for o in occurrences(V, feature.part, s, most) if is_inside(o, feature, view)]
    if isinstance(feature, AtLeast):
        found = [occurrences(V, part, s, most) for part in feature.parts]
        is_there = sum(len(one) > 0 for one in found) >= feature.least
        return [o for one in found for o in one] if is_there else []
    O: dict[tuple[float, float], Point] = {}  # noqa: E741 - as the paper calls it
    O_1 = occurrences(V, feature.first, s, most)
    O_2 = occurrences(V, feature.second, s, most)
    for one in O_1:
        for other in O_2:
            if is_likely(one, other, feature):
                middle = between(one, other)
                O.setdefault(middle.at, middle)
        if len(O) > most:
            raise TooManyError
    return list(O.values())


def camera(V: Sequence[Feature], v: int) -> str:
    feature = V[v]
    return feature.camera if isinstance(feature, Primitive) else camera(V, feature.parts[0])


def is_inside(point: Point, feature: InCell, view: View) -> bool:
    """Tell whether a point is in a cell; what lies outside the frame is in the nearest one."""
    n = 2**feature.level
    column = math.floor(Fraction(point.x) * n / view.width)
    line = math.floor(Fraction(point.y) * n / view.height)
    column, line = min(max(column, 0), n - 1), min(max(line, 0), n - 1)
    return (column, line) == (feature.column, feature.line)


def is_likely(one: Point, other: Point, v: Composite) -> bool:
    """Compare a product of Gaussians, each of which is 1 at its mean, with ν."""
    likelihood = gaussian(apart(one, other) - v.mean, v.deviation)
    if v.turn is not None and v.turn_deviation is not None:
        likelihood *= gaussian(smallest(other.angle - one.angle - v.turn), v.turn_deviation)
    if v.ratio is not None and v.ratio_deviation is not None:
        likelihood *= gaussian(octaves(one.scale, other.scale) - v.ratio, v.ratio_deviation)
    if abs(likelihood - v.likelihood) <= CLOSE:
        raise TooCloseError
    return likelihood >= v.likelihood  # not so where an angle is missing


def apart(one: Point, other: Point) -> float:
    dx, dy = other.x - one.x, other.y - one.y
    return math.sqrt(dx * dx + dy * dy)


def gaussian(difference: float, sigma: float) -> float:
    return math.exp(-((difference / sigma) ** 2) / 2)


def octaves(one: float, other: float) -> float:
    """How often one scale must be doubled to give the other; 0 where there is none."""
    return math.log2(other) - math.log2(one) if one > 0.0 and other > 0.0 else 0.0


def smallest(angle: float) -> float:
    """The angle of the smallest size among those that are whole turns apart, degrees."""
    if math.isnan(angle):
        return angle
    found = min((angle % 360.0, angle % 360.0 - 360.0), key=abs)
    if abs(abs(found) - 180.0) <= CLOSE:
        raise TooCloseError  # as far on one side as on the other
    return found


def between(one: Point, other: Point) -> Point:
    """The midpoint, with the mean angle and, in octaves, the mean scale."""
    angle = one.angle + smallest(other.angle - one.angle) / 2
    scale = math.sqrt(one.scale * other.scale)
    return Point((one.x + other.x) / 2, (one.y + other.y) / 2, scale, angle)


# Algorithm 6 -------------------------------------------------------------------------------------

Cluster = Callable[[list[float]], list[list[int]]]  # the places of ascending numbers, by cluster
Relation = tuple[float, float, float]  # distance, angle, octaves


def generator(
    V: Sequence[Feature], S: Sequence[Percept], rules: Composites, cluster: Cluster
) -> list[Composite]:
    """Return what is composed for a class, given the images that one camera shows of it.

    Pairs that are about as far apart on every image would not split the class: they are left out.
    """
    F_new: list[Composite] = []
    for (v_1, v_2), relations in pairs(V, S, rules).items():
        relations = sorted(relations, key=lambda relation: relation[0])
        distances = [relation[0] for relation in relations]
        if rules.use_angle or rules.use_scale:
            for one, other in itertools.pairwise(distances):
                if other - one <= CLOSE:
                    raise TooCloseError  # either may come first
        made: list[Composite] = []
        for places in cluster(distances):
            if len(places) >= 2:
                v_C = fit(v_1, v_2, [relations[i] for i in places], rules)
                if not any(is_same(v_C, other) for other in made):
                    made.append(v_C)
        F_new += made
    return F_new


def features(V: Sequence[Feature], S: Sequence[Percept], rules: Composites) -> list[int]:
    """Return the features that may be parts and that enough images show, most frequent first."""
    F = [v for v in range(len(V)) if is_part(V, v, rules) and camera(V, v) in S[0]]
    shown = {v: sum(len(occurrences(V, v, s)) > 0 for s in S) for v in F}
    return sorted((v for v in F if is_enough(shown[v], S, rules)), key=lambda v: -shown[v])


def pairs(
    V: Sequence[Feature], S: Sequence[Percept], rules: Composites
) -> dict[tuple[int, int], list[Relation]]:
    """Return the relations of all pairs of features with enough co-occurrences."""
    F = sorted(features(V, S, rules))
    O = {v: [occurrences(V, v, s) for s in S] for v in F}  # noqa: E741 - as the paper calls it
    found = {}
    for v_1, v_2 in itertools.combinations_with_replacement(F, 2):
        if is_enough(together(O[v_1], O[v_2], v_1 == v_2), S, rules):
            relations: list[Relation] = []
            for O_1, O_2 in zip(O[v_1], O[v_2], strict=True):
                for i, one in enumerate(O_1):
                    for j, other in enumerate(O_2):
                        if v_1 != v_2 or i < j:
                            turn, ratio = other.angle - one.angle, octaves(one.scale, other.scale)
                            relations.append((apart(one, other), turn, ratio))
            distances = [relation[0] for relation in relations]
            if max(distances) - min(distances) >= 4 * rules.deviation:
                found[v_1, v_2] = relations
    return found


def together(O_1: list[list[Point]], O_2: list[list[Point]], is_one: bool) -> int:
    """Return how many images show both features, or one feature twice."""
    counts = zip(map(len, O_1), map(len, O_2), strict=True)
    return sum(n > 1 if is_one else n > 0 and m > 0 for n, m in counts)


def is_enough(n: int, S: Sequence[Percept], rules: Composites) -> bool:
    return n >= 2 and n / len(S) >= rules.support


def is_part(V: Sequence[Feature], v: int, rules: Composites) -> bool:
    return height(V, v) < rules.height


def height(V: Sequence[Feature], v: int) -> int:
    return 1 + max((height(V, part) for part in V[v].parts), default=-1)


def fit(v_1: int, v_2: int, C: list[Relation], rules: Composites) -> Composite:
    """Return the composite of a cluster: means and deviations."""
    turn = turn_deviation = ratio = ratio_deviation = None
    if rules.use_angle:
        turn, turn_deviation = mean_angle([angle for _, angle, _ in C])
        turn_deviation = max(turn_deviation, LEAST_TURN)
    if rules.use_scale:
        ratio, ratio_deviation = mean_and_deviation([octaves for _, _, octaves in C])
        ratio_deviation = max(ratio_deviation, LEAST_RATIO)
    mean, deviation = mean_and_deviation([distance for distance, _, _ in C])
    return Composite(
        first=v_1, second=v_2, mean=mean, deviation=max(deviation, rules.deviation),
        likelihood=rules.likelihood, turn=turn, turn_deviation=turn_deviation, ratio=ratio,
        ratio_deviation=ratio_deviation,
    )  # fmt: skip


def mean_and_deviation(numbers: list[float]) -> tuple[float, float]:
    mean = math.fsum(numbers) / len(numbers)
    return mean, math.sqrt(math.fsum((x - mean) ** 2 for x in numbers) / len(numbers))


def mean_angle(angles: list[float]) -> tuple[float, float]:
    """Return the direction of the mean of vectors of length 1, and their circular deviation."""
    x = math.fsum(math.cos(math.radians(angle)) for angle in angles) / len(angles)
    y = math.fsum(math.sin(math.radians(angle)) for angle in angles) / len(angles)
    R = math.hypot(x, y)
    if R <= 1e-4:
        raise TooCloseError  # in no direction
    return math.degrees(math.atan2(y, x)), math.degrees(math.sqrt(-2 * math.log(min(R, 1.0))))


def is_same(one: Composite, other: Composite) -> bool:
    """Tell whether two composites differ by nothing but rounding."""
    if one.parts != other.parts:
        return False
    for name in ("mean", "deviation", "likelihood", "turn_deviation", "ratio", "ratio_deviation"):
        if not is_close(getattr(one, name), getattr(other, name)):
            return False
    if one.turn is None or other.turn is None:
        return one.turn is other.turn
    return abs((one.turn - other.turn + 180.0) % 360.0 - 180.0) <= 1e-7


def is_close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)


# Features in cells -------------------------------------------------------------------------------


def located(V: Sequence[Feature], S: Sequence[Percept], rules: Composites) -> list[InCell]:
    """Return every feature in every cell that some images of a class show, and others do not."""
    found = []
    for v in range(len(V)):
        if is_part(V, v, rules) and camera(V, v) in S[0]:
            O = [occurrences(V, v, s) for s in S]  # noqa: E741
            for level in range(1, rules.grid + 1):
                for line, column in itertools.product(range(2**level), repeat=2):
                    one = InCell(part=v, level=level, column=column, line=line)
                    view = [s[camera(V, v)] for s in S]
                    shows = [
                        any(is_inside(o, one, w) for o in here)
                        for here, w in zip(O, view, strict=True)
                    ]
                    if any(shows) and not all(shows):
                        found.append(one)
    return found
