"""A slow and literal transcription of the paper's pseudo-code (Algorithms 1 to 4, Section 4).

Lists, sets, loops and fractions only, so that it can be read beside the paper. The misprints are
corrected: ``r* <- r`` in the selector, and the mapped MDP's rewards are r_{t+1}. Three things go
beyond the paper, and are off unless the rules say otherwise: actions that lead nowhere repeat
forever, features have surrogates, and irrelevant splits are not made.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from scipy import stats

Pair = tuple[int, int]
Q = dict[Pair, float]


class TooCloseError(Exception):
    """Two numbers are so near that rounding may decide: the example proves nothing."""


@dataclass(frozen=True)
class Interaction:
    s: int
    a: int
    r: Fraction
    s_next: int
    terminated: bool


@dataclass(frozen=True)
class Rules:
    """The free choices of the method."""

    ranking: str = "reduction"
    test: str = "student"
    alpha: float = 0.05
    correction: str = "none"
    min_samples: int = 5
    tau: float = 0.0
    gamma: float = 0.5
    max_splits: int = 5
    max_stages: int = 1000
    close: float = 1e-9
    absorbing_self_loops: bool = False
    relevant: bool = False
    most_parts: int = 1
    agreement: float = 0.7
    enough: float = 0.95


# The classifier: nested objects ------------------------------------------------------------------


@dataclass
class Leaf:
    visual_class: int


@dataclass
class Inner:
    feature: int
    present: Leaf | Inner
    absent: Leaf | Inner


Node = Leaf | Inner


def classify(tree: Node, exhibited: set[int]) -> int:
    while isinstance(tree, Inner):
        tree = tree.present if tree.feature in exhibited else tree.absent
    return tree.visual_class


def refine(tree: Node, visual_class: int, feature: int, new_class: int) -> Node:
    if isinstance(tree, Inner):
        return Inner(
            tree.feature,
            refine(tree.present, visual_class, feature, new_class),
            refine(tree.absent, visual_class, feature, new_class),
        )
    if tree.visual_class == visual_class:
        return Inner(feature, Leaf(new_class), Leaf(visual_class))
    return tree


# What leads nowhere ------------------------------------------------------------------------------


def is_stuck(i: Interaction, sequence: list[Interaction]) -> bool:
    """Tell whether all tries of that action in that percept led back to it."""
    for other in sequence:
        is_same = other.s == i.s and other.a == i.a
        if is_same and (other.terminated or other.s_next != other.s):
            return False
    return True


def absorbing(sequence: list[Interaction], gamma: float) -> list[Interaction]:
    """The interactions in which an agent that is stuck stays so: r + γ r + γ² r …, and no more."""
    return [
        replace(i, r=i.r / (1 - Fraction(gamma)), terminated=True) if is_stuck(i, sequence) else i
        for i in sequence
    ]


# The mapped MDP ----------------------------------------------------------------------------------


@dataclass
class MDP:
    eta: dict[Pair, int] = field(default_factory=dict)
    R: dict[Pair, Fraction] = field(default_factory=dict)
    T: dict[tuple[int, int, int], Fraction] = field(default_factory=dict)


def mapped_mdp(sequence: list[Interaction], C: list[int], n_classes: int, n_actions: int) -> MDP:
    """Relative frequencies; what terminates leads nowhere."""
    mdp = MDP()
    for V in range(n_classes):
        for a in range(n_actions):
            here = [i for i in sequence if C[i.s] == V and i.a == a]
            mdp.eta[V, a] = len(here)
            if not here:
                continue
            mdp.R[V, a] = sum((i.r for i in here), Fraction(0)) / len(here)
            for W in range(n_classes):
                to = [i for i in here if not i.terminated and C[i.s_next] == W]
                mdp.T[V, a, W] = Fraction(len(to), len(here))
    return mdp


def floor(sequence: list[Interaction], gamma: float) -> float:
    """What a pair that was never tried is worth: the lowest return that the rewards allow."""
    return float(min(Fraction(0), *(i.r for i in sequence), Fraction(0))) / (1 - gamma)


def value_iteration(mdp: MDP, n_classes: int, n_actions: int, gamma: float, untried: float) -> Q:
    q: Q = {(V, a): 0.0 for V in range(n_classes) for a in range(n_actions)}
    for _ in range(100_000):
        better: Q = {}
        for V, a in q:
            if (V, a) not in mdp.R:
                better[V, a] = untried
                continue
            total = float(mdp.R[V, a])
            for W in range(n_classes):
                ahead = max(q[W, b] for b in range(n_actions))
                total += gamma * float(mdp.T[V, a, W]) * ahead
            better[V, a] = total
        change = max(abs(better[pair] - q[pair]) for pair in q)
        q = better
        if change <= 1e-14:
            return q
    raise AssertionError("value iteration did not settle")


def residuals(
    sequence: list[Interaction], C: list[int], q: Q, n_actions: int, gamma: float
) -> list[Fraction]:
    delta = []
    for i in sequence:
        ahead = 0.0
        if not i.terminated:
            ahead = max(q[C[i.s_next], b] for b in range(n_actions))
        delta.append(i.r + Fraction(gamma * ahead) - Fraction(q[C[i.s], i.a]))
    return delta


# Algorithms 2, 3 and 4 ---------------------------------------------------------------------------


def variance(samples: list[Fraction]) -> Fraction:
    if not samples:
        return Fraction(0)
    mean = sum(samples, Fraction(0)) / len(samples)
    return sum(((x - mean) ** 2 for x in samples), Fraction(0)) / len(samples)


def aliased(
    V: int, sequence: list[Interaction], C: list[int], delta: list[Fraction], n_actions: int,
    tau: float, close: float = 0.0,
) -> bool:  # fmt: skip
    for a in range(n_actions):
        samples = [d for i, d in zip(sequence, delta, strict=True) if C[i.s] == V and i.a == a]
        if is_less(Fraction(tau), variance(samples), close, Fraction(tau)):
            return True
    return False


def generator(percepts: list[set[int]]) -> set[int]:
    F: set[int] = set()
    for symbols in percepts:
        for symbol in symbols:
            F = F | {symbol}
    return F


@dataclass(frozen=True)
class Found:
    feature: int | None = None
    action: int | None = None
    p_value: float = 1.0
    n_tests: int = 0


def selector(
    V: int, F: set[int], sequence: list[Interaction], C: list[int], delta: list[Fraction],
    shows: list[set[int]], n_actions: int, rules: Rules, q: Q | None = None,
) -> Found:  # fmt: skip
    def candidates() -> Iterator[tuple[int, int, list[Fraction], list[Fraction]]]:
        for a in range(n_actions):
            T = [t for t, i in enumerate(sequence) if C[i.s] == V and i.a == a]
            for f in sorted(F):
                plus = [delta[t] for t in T if f in shows[sequence[t].s]]
                minus = [delta[t] for t in T if f not in shows[sequence[t].s]]
                if len(plus) < rules.min_samples or len(minus) < rules.min_samples:
                    continue
                if rules.relevant and is_idle(V, a, plus, minus, n_actions, rules, q):
                    continue
                yield a, f, plus, minus

    n_tests = len(list(candidates()))
    level = rules.alpha / n_tests if rules.correction == "bonferroni" and n_tests else rules.alpha
    found = Found(n_tests=n_tests)
    r_best: Fraction | None = None  # +infinity
    for a, f, plus, minus in candidates():
        r, scale = remaining(plus, minus, rules)
        if r_best is None or is_less(r, r_best, rules.close, scale):
            p = p_value(plus, minus, rules.test)
            if abs(p - level) <= max(1e-9, rules.close):
                raise TooCloseError
            if p < level:
                found = Found(f, a, p, n_tests)
                r_best = r
    return found


def remaining(
    plus: list[Fraction], minus: list[Fraction], rules: Rules
) -> tuple[Fraction, Fraction]:
    """What is to be least, and the variance of both sides together."""
    n = len(plus) + len(minus)
    r = Fraction(len(plus), n) * variance(plus) + Fraction(len(minus), n) * variance(minus)
    scale = variance(plus + minus)
    return (n * (r - scale) if rules.ranking == "reduction" else r), scale


def is_idle(
    V: int, a: int, plus: list[Fraction], minus: list[Fraction], n_actions: int, rules: Rules,
    q: Q | None,
) -> bool:  # fmt: skip
    """Whether on both sides of a split another action is at least as good."""
    assert q is not None
    higher = Fraction(q[V, a]) + max(sum(side, Fraction(0)) / len(side) for side in (plus, minus))
    others = [Fraction(q[V, b]) for b in range(n_actions) if b != a]
    return bool(others) and not is_less(max(others), higher, rules.close, Fraction(1))


def is_less(x: Fraction, y: Fraction, close: float, scale: Fraction) -> bool:
    if x != y and abs(x - y) <= Fraction(close) * max(abs(x), abs(y), scale):
        raise TooCloseError
    return x < y


def p_value(plus: list[Fraction], minus: list[Fraction], test: str) -> float:
    """What scipy says; 1 where it says that there is nothing to say."""
    one, other = [float(x) for x in plus], [float(x) for x in minus]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # constant samples
        if test == "ks":
            gap = float(stats.ks_2samp(one, other, method="asymp").statistic)
            size = len(one) * len(other) / (len(one) + len(other))
            return float(stats.kstwobign.sf(math.sqrt(size) * gap))
        if len(one) + len(other) < 3 or (test == "welch" and min(len(one), len(other)) < 2):
            return 1.0
        p = float(stats.ttest_ind(one, other, equal_var=test == "student").pvalue)
    return 1.0 if math.isnan(p) else p


# Algorithm 1 -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    classes: list[int]
    q: Q
    n_aliased: int
    n_refinable: int
    splits: list[tuple[int, int]]
    actions: list[int]
    delta: list[Fraction]


def stage(
    sequence: list[Interaction], shows: list[set[int]], C: list[int], m: int, n_actions: int,
    rules: Rules,
) -> Stage:  # fmt: skip
    """What one stage of RLVC finds out about m classes, of which C has that of every percept."""
    _, q = solved(sequence, C, m, n_actions, rules)
    transitions = absorbing(sequence, rules.gamma) if rules.absorbing_self_loops else sequence
    delta = residuals(transitions, C, q, n_actions, rules.gamma)
    n_aliased = 0
    wanted: list[tuple[int, int, int, int]] = []
    for V in range(m):
        if aliased(V, sequence, C, delta, n_actions, rules.tau, rules.close):
            n_aliased += 1
            F = generator([shows[i.s] for i in sequence if C[i.s] == V])
            found = selector(V, F, sequence, C, delta, shows, n_actions, rules, q)
            if found.feature is not None and found.action is not None:
                size = sum(C[i.s] == V for i in sequence)
                wanted.append((-size, V, found.feature, found.action))
    wanted.sort()
    chosen = wanted[: rules.max_splits] if rules.max_splits else wanted
    splits, actions = [(V, f) for _, V, f, _ in chosen], [a for _, _, _, a in chosen]
    return Stage(C, q, n_aliased, len(wanted), splits, actions, delta)


def solved(
    sequence: list[Interaction], C: list[int], m: int, n_actions: int, rules: Rules
) -> tuple[MDP, Q]:
    gamma = rules.gamma
    transitions = absorbing(sequence, gamma) if rules.absorbing_self_loops else sequence
    mdp = mapped_mdp(transitions, C, m, n_actions)
    return mdp, value_iteration(mdp, m, n_actions, gamma, floor(sequence, gamma))


def rlvc(
    sequence: list[Interaction], shows: list[set[int]], n_actions: int, rules: Rules
) -> tuple[Node, list[Stage]]:
    """The general structure of RLVC, on a static database; ``shows[s]`` is what s exhibits.

    At most ``max_splits`` classes are refined in a stage: those with the most samples, ties to the
    lowest number; new classes are numbered in that order.
    """
    k, m = 0, 1
    tree: Node = Leaf(0)
    stages: list[Stage] = []
    known = Known([set(symbols) for symbols in shows])
    while True:
        C = [classify(tree, symbols) for symbols in known.shows]
        found = stage(sequence, known.shows, C, m, n_actions, rules)
        splits = with_surrogates(found, sequence, known, rules)
        stages.append(replace(found, splits=splits))
        if not splits or k == rules.max_stages:
            return tree, stages
        for V, f in splits:
            tree = refine(tree, V, f, m)
            m = m + 1
        k = k + 1


# Surrogates --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AtLeast:
    """At least ``least`` of these features."""

    parts: tuple[int, ...]
    least: int


@dataclass
class Known:
    """What each percept exhibits, including at-least features, which have numbers too."""

    shows: list[set[int]]
    tests: dict[AtLeast, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.n_symbols = max(max(symbols, default=-1) for symbols in self.shows) + 1

    def number(self, test: AtLeast) -> int:
        if test not in self.tests:
            self.tests[test] = self.n_symbols + len(self.tests)
            for exhibited in self.shows:
                if sum(f in exhibited for f in test.parts) >= test.least:
                    exhibited.add(self.tests[test])
        return self.tests[test]


def with_surrogates(
    found: Stage, sequence: list[Interaction], known: Known, rules: Rules
) -> list[tuple[int, int]]:
    """The splits of a stage, in which surrogates extend the features that it found."""
    splits = []
    tests = [
        several(V, f, a, sequence, found, known, rules)
        for (V, f), a in zip(found.splits, found.actions, strict=True)
    ]
    for (V, f), test in zip(found.splits, tests, strict=True):
        splits.append((V, f if test is None else known.number(test)))
    return splits


def several(
    V: int, f: int, a: int, sequence: list[Interaction], found: Stage, known: Known, rules: Rules
) -> AtLeast | None:
    """What to test instead of a feature; None if nothing."""
    if f >= known.n_symbols:
        return None
    members = [s for s, W in enumerate(found.classes) if W == V]
    parts = agreeing(f, [known.shows[s] for s in members], known.n_symbols, rules)
    if len(parts) == 1:
        return None
    T = [t for t, i in enumerate(sequence) if found.classes[i.s] == V and i.a == a]
    delta = [found.delta[t] for t in T]
    count = [sum(part in known.shows[sequence[t].s] for part in parts) for t in T]
    alone = [int(f in known.shows[sequence[t].s]) for t in T]
    _, reduction_alone = best_count(alone, delta, 1, rules)
    least, reduction = best_count(count, delta, len(parts), rules)
    enough = Fraction(rules.enough) * reduction_alone
    if reduction != enough and abs(reduction - enough) <= Fraction(rules.close) * abs(enough):
        raise TooCloseError
    return AtLeast(tuple(parts), least) if reduction >= enough else None


def agreeing(f: int, percepts: list[set[int]], n_symbols: int, rules: Rules) -> list[int]:
    """A feature, and those whose presence correlates with its own: the strongest, then lowest."""
    ranked: list[tuple[Fraction, int]] = []
    for g in range(n_symbols):
        both = sum(f in shown and g in shown for shown in percepts)
        n_f = sum(f in shown for shown in percepts)
        n_g = sum(g in shown for shown in percepts)
        n = len(percepts)
        spread = n_f * (n - n_f) * n_g * (n - n_g)
        gap = n * both - n_f * n_g
        if g == f or spread == 0 or gap < 0:
            continue
        square = Fraction(gap * gap, spread)  # of the φ coefficient
        if not is_less(square, Fraction(rules.agreement) ** 2, 1e-12, Fraction(1)):
            ranked.append((-square, g))
    ranked.sort()
    return [f, *(g for _, g in ranked[: rules.most_parts - 1])]


def best_count(
    count: list[int], delta: list[Fraction], most: int, rules: Rules
) -> tuple[int, Fraction]:
    """From how many on the variance is reduced most, the lowest among equals, and by how much."""
    best, r_best = 1, Fraction(-1)
    for least in range(1, most + 1):
        plus = [d for d, n in zip(delta, count, strict=True) if n >= least]
        minus = [d for d, n in zip(delta, count, strict=True) if n < least]
        if len(plus) >= rules.min_samples and len(minus) >= rules.min_samples:
            r = len(delta) * variance(delta)
            r -= len(plus) * variance(plus) + len(minus) * variance(minus)
            if is_less(r_best, r, rules.close, r):
                best, r_best = least, r
    return best, r_best


# Section 4 ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Merging:
    """When and which classes are merged."""

    every: int
    epsilon: float
    relations: tuple[str, ...] = ("value", "policy")
    on_the_way: tuple[str, ...] = ("action-value",)


def known_actions(V: int, tried: set[Pair], n_actions: int) -> list[int]:
    """The actions whose values are known in a class."""
    return [a for a in range(n_actions) if (V, a) in tried]


def optimal_value(V: int, q: Q, actions: list[int]) -> float:
    return max(q[V, a] for a in actions)


def optimal_action(V: int, q: Q, actions: list[int], close: float = 0.0) -> int:
    """The best of some actions, ties to the lowest."""
    best = actions[0]
    for a in actions[1:]:
        if close > 0.0 and abs(q[V, a] - q[V, best]) <= close:
            raise TooCloseError
        if q[V, a] > q[V, best]:
            best = a
    return best


def left_sides(
    relation: str, V: int, W: int, q: Q, actions: list[int], close: float = 0.0
) -> list[float]:
    """What must be at most ε for V and W to be equivalent (Section 4.1), by these actions."""
    if not actions:
        return []
    if relation == "value":
        return [abs(optimal_value(V, q, actions) - optimal_value(W, q, actions))]
    if relation == "policy":
        for_V = optimal_action(V, q, actions, close)
        for_W = optimal_action(W, q, actions, close)
        return [
            abs(optimal_value(V, q, actions) - q[W, for_V]),
            abs(optimal_value(W, q, actions) - q[V, for_W]),
        ]
    assert relation == "action-value"
    return [abs(q[V, a] - q[W, a]) for a in actions]


def is_equivalent(
    relations: tuple[str, ...], V: int, W: int, q: Q, actions: list[int], epsilon: float
) -> bool:
    for relation in relations:
        for left_side in left_sides(relation, V, W, q, actions):
            if not left_side <= epsilon:
                return False
    return True


def epsilon_of(fraction: float, q: Q, tried: set[Pair], n_classes: int, n_actions: int) -> float:
    """ε as a fraction of the range of the optimal values of all classes that have samples."""
    known = [known_actions(V, tried, n_actions) for V in range(n_classes)]
    values = [optimal_value(V, q, actions) for V, actions in enumerate(known) if actions]
    return fraction * (max(values) - min(values)) if values else 0.0


def equivalent_groups(
    q: Q, tried: set[Pair], n_classes: int, n_actions: int, relations: tuple[str, ...],
    fraction: float, close: float,
) -> list[list[int]]:  # fmt: skip
    """The groups of ε-equivalent classes.

    Beginning with the classes in which most actions were tried: each first looks for a place in a
    group of classes that know more; those that are left make groups among themselves.
    """
    epsilon = epsilon_of(fraction, q, tried, n_classes, n_actions)
    known = [known_actions(V, tried, n_actions) for V in range(n_classes)]
    kinds = {tuple(actions) for actions in known}
    groups: list[list[int]] = []
    for kind in sorted(kinds, key=lambda k: (-len(k), [a in k for a in range(n_actions)])):
        alike = [V for V in range(n_classes) if known[V] == list(kind)]
        alike.sort(key=lambda V: [q[V, a] for a in kind])
        richer = [group for group in groups if kind and set(kind) <= set(known[group[0]])]
        alone = join(alike, richer, q, known, epsilon, close)
        groups += linked(alone, q, list(kind), relations, epsilon, close)
    return sorted(sorted(group) for group in groups)


def join(
    classes: list[int], groups: list[list[int]], q: Q, known: list[list[int]], epsilon: float,
    close: float,
) -> list[int]:  # fmt: skip
    """Put classes into the groups whose farthest members are nearest; return the others."""

    def gap(V: int, group: list[int]) -> float:
        return max(abs(q[V, a] - q[W, a]) for W in group for a in known[V] if a in known[W])

    if not groups:
        return classes
    first = {V: min(gap(V, group) for group in groups) for V in classes}
    order = sorted(classes, key=lambda V: first[V])
    for V, W in itertools.pairwise(order):
        is_tie = close < first[W] <= min(first[V], epsilon) + close
        if close > 0.0 and is_tie and any(q[V, a] != q[W, a] for a in known[V]):
            raise TooCloseError
    alone = []
    for V in order:
        gaps = [gap(V, group) for group in groups]
        nearest = min(gaps)
        if close > 0.0 and abs(nearest - epsilon) <= close:
            raise TooCloseError
        if nearest > epsilon:
            alone.append(V)
            continue
        if close > 0.0 and sum(one <= nearest + close for one in gaps) > 1:
            raise TooCloseError
        groups[gaps.index(nearest)].append(V)
    return [V for V in classes if V in alone]


def linked(
    classes: list[int], q: Q, actions: list[int], relations: tuple[str, ...], epsilon: float,
    close: float,
) -> list[list[int]]:  # fmt: skip
    """Unite the two groups whose farthest members are nearest, as long as these are ε-near."""

    def gap(one: list[int], other: list[int]) -> float:
        return max(
            (
                left_side
                for V in one
                for W in other
                for relation in relations
                for left_side in left_sides(relation, V, W, q, actions, close)
            ),
            default=0.0,
        )

    groups = [[V] for V in classes]
    while len(groups) > 1:
        pairs = [(i, j) for j in range(len(groups)) for i in range(j)]
        (nearest, i, j), *others = sorted((gap(groups[i], groups[j]), i, j) for i, j in pairs)
        if actions and abs(nearest - epsilon) <= close:
            raise TooCloseError
        if nearest > epsilon:
            break
        if others and nearest > close and others[0][0] - nearest <= close:
            raise TooCloseError
        groups[i] = groups[i] + groups[j]
        del groups[j]
    return groups


def rlvc_with_merging(
    sequence: list[Interaction], shows: list[set[int]], n_actions: int, rules: Rules,
    merging: Merging,
) -> list[Stage]:  # fmt: skip
    """RLVC with the post-processing of Section 4.3; a visual class is a set of percepts.

    Classes are merged every few stages, as long as each time more of them are left than the time
    before, and when no class is refined any more. Then comes one last stage, without refining.
    """
    k = 0
    classes: list[set[int]] = [set(range(len(shows)))]
    stages: list[Stage] = []
    n_left, goes_on, is_over = 0, True, False
    known = Known([set(symbols) for symbols in shows])
    while True:
        found = stage(sequence, known.shows, numbers(classes), len(classes), n_actions, rules)
        if is_over:
            return [*stages, replace(found, splits=[])]
        found = replace(found, splits=with_surrogates(found, sequence, known, rules))
        stages.append(found)
        if k == rules.max_stages:
            return stages
        for V, f in found.splits:
            classes.append({s for s in classes[V] if f in known.shows[s]})
            classes[V] = {s for s in classes[V] if f not in known.shows[s]}
        k = k + 1
        is_over = not found.splits
        is_due = goes_on and merging.every > 0 and k % merging.every == 0
        if is_due or is_over or k == rules.max_stages:
            mdp, q = solved(sequence, numbers(classes), len(classes), n_actions, rules)
            tried = {pair for pair, n in mdp.eta.items() if n}
            is_last = is_over or k == rules.max_stages
            groups = equivalent_groups(
                q, tried, len(classes), n_actions,
                merging.relations if is_last else merging.on_the_way, merging.epsilon, rules.close,
            )  # fmt: skip
            if is_over and len(groups) == len(classes):
                return stages
            classes = [set().union(*(classes[V] for V in group)) for group in groups]
            goes_on = len(classes) > n_left
            n_left = len(classes)


def numbers(classes: list[set[int]]) -> list[int]:
    """The class of every percept."""
    n_percepts = sum(len(percepts) for percepts in classes)
    return [next(V for V, members in enumerate(classes) if s in members) for s in range(n_percepts)]
