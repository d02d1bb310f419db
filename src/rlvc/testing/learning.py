"""Checks of the parts that learn: classifiers, solvers, generators, selectors and the rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlvc._core.fixed_point import FixedPoint
from rlvc.classifiers.base import Classifier, Split
from rlvc.classifiers.tree import Tree
from rlvc.data.interactions import Interactions
from rlvc.features.graph import FeatureGraph
from rlvc.features.incidence import Incidence
from rlvc.features.kinds import Feature
from rlvc.learning.aliasing import AliasingDetector, Residuals
from rlvc.learning.compaction import PostProcess
from rlvc.learning.generation.base import Candidates, Generator
from rlvc.learning.generation.clustering import Clustering
from rlvc.learning.mdp import MappedMDP, MappedSequence, estimate
from rlvc.learning.rlvc import RLVC
from rlvc.learning.selection.selector import FeatureSelector, Samples, SplitChoice
from rlvc.learning.solvers.base import Solver
from rlvc.testing.require import Require
from rlvc.vision.detectors import Harris

Attempts = list[tuple[bool, list[Feature]]]  # of a stage: whether known features, and new ones


def check_classifier(classifier: Classifier, seed: int = 0) -> None:
    """Check that a classifier of one class refines, merges, classifies and walks consistently.

    The classes that are split and merged, and the features that are tested, are drawn by ``seed``.

    >>> check_classifier(Tree())
    """
    rng = np.random.default_rng(seed)
    dense = rng.random((60, 6)) < 0.5  # which percept exhibits which feature
    classes, n_classes = np.zeros(60, np.int64), 1
    with Require(classifier, "60 percepts and six features") as require:
        for stage in range(6):
            before, expected, n_before = classifier, classes, n_classes
            if stage == 3:
                labels = rng.permutation(np.arange(n_classes) % max(n_classes // 2, 1))
                groups = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
                classifier, n_classes = classifier.merge(groups), len(groups)
                ordered = sorted(groups, key=min)
                classes = np.select([np.isin(classes, g) for g in ordered], [*range(n_classes)])
            else:
                chosen = rng.permutation(n_classes)[:3].tolist()
                splits = [Split(number, int(rng.integers(6))) for number in chosen]
                classifier, n_classes = classifier.refine(splits), n_classes + len(splits)
                for new, split in enumerate(splits, start=n_before):
                    moves = (classes == split.visual_class) & dense[:, split.feature]
                    classes = np.where(moves, new, classes)
            _require_classes(require, before, dense, expected, n_before)  # must not have changed
            _require_classes(require, classifier, dense, classes, n_classes)
        numbers = rng.permutation(6)
        renumbered = classifier.renumber(dict(enumerate(numbers.tolist())))
        _require_classes(require, renumbered, dense[:, np.argsort(numbers)], classes, n_classes)
        same = classifier.merge([[number] for number in range(n_classes)])
        require(same is classifier, "merge must return the classifier itself if all classes stay")


def _require_classes(
    require: Require,
    classifier: Classifier,
    dense: NDArray[np.bool_],
    expected: NDArray[np.int64],
    n_classes: int,
) -> None:
    """Require that a classifier puts percepts into the expected classes, one by one and in bulk."""
    require(classifier.n_classes == n_classes, "n_classes must count the classes")
    incidence, tested = Incidence.from_dense(dense), classifier.features.tolist()
    require(tested == sorted(set(tested)), "features must be distinct and in ascending order")
    usage = dict.fromkeys(tested, 0)
    for row, visual_class in zip(dense.tolist(), expected.tolist(), strict=True):
        path, end = classifier.walk(row.__getitem__)
        require(end == visual_class, "walk must end in the class that refine and merge lead to")
        require(all(row[f] == outcome for f, outcome in path), "walk must return its tests")
        require({f for f, _ in path} <= usage.keys(), "features must be all that walk tests")
        usage.update({f: usage[f] + 1 for f, _ in path})
    for threads in (1, 2):
        classes = classifier.classify(incidence, threads)
        require.equal(classes, expected, "classify must return the class in which walk ends")
    counted = classifier.usage(incidence).tolist() == list(usage.values())
    require(counted, "usage must count the percepts on which walk tests each feature")


def check_solver(solver: Solver) -> None:
    """Check that ``solve`` returns a value for every pair, and solves some tiny problems."""

    def solve(sequence: MappedSequence, n_actions: int) -> tuple[MappedMDP, NDArray[np.float64]]:
        mdp = estimate(sequence, int(sequence.start.max()) + 1, n_actions)
        q = solver.solve(mdp, 0.8)
        require.array(q, mdp.count.shape, np.float64, "the values (n_classes, n_actions)")
        again = solver.solve(mdp, 0.8)
        require.equal(again, q, "solve must return the same values for the same MDP")
        return mdp, q

    number = np.tile([0, 1], 200)  # from the first class to the second one, again and again
    end, action, reward = 1 - number, np.zeros_like(number), np.where(number, 9.0, 1.0)
    always, is_second = np.ones(400, np.bool_), number == 1
    with Require(solver, "an MDP of a few classes") as require:
        mdp, q = solve(_corridor(), 3)  # the third action is never tried
        untried = (q[~mdp.is_tried] == mdp.floor(0.8)).all()
        require(untried, "a pair that was never tried must be worth mdp.floor(gamma)")
        is_ahead = (q[:, 1] > q[:, 0]).all()
        require(is_ahead, "the way to the reward must be worth more than the way back")
        _, q = solve(MappedSequence(number, action, reward, end, always, always), 1)
        require(np.allclose(q, [[1.0], [9.0]]), "nothing may follow a terminal transition")
        _, q = solve(MappedSequence(number, action, reward, end, is_second, is_second), 1)
        require(np.allclose(q, [[8.2], [9.0]], rtol=0.02), "rewards must be discounted by gamma")
        _, q = solve(MappedSequence(number, action, 0.0 * reward, end, ~always, always), 1)
        require(not q.any(), "rewards of zero must be worth nothing")


def check_aliasing_detector(detector: AliasingDetector) -> None:
    """Check that ``detect`` returns a mask of classes, and none whose residuals do not vary."""
    group = np.arange(60) % 12  # of three classes and four actions
    rng = np.random.default_rng(0)
    with Require(detector, "residuals of three classes") as require:
        for integers in (group * 7, rng.integers(-99, 99, 60), rng.integers(-(10**9), 10**9, 60)):
            residuals = Residuals(integers, FixedPoint(2), group, np.zeros((3, 4))).sums
            mask = detector.detect(residuals, 10.0)
            require.array(mask, (3,), np.bool_, "the mask (n_classes,)")
            again = detector.detect(residuals, 10.0)
            require.equal(again, mask, "detect must return the same mask for the same residuals")
            if not residuals.variances().any():
                require(not mask.any(), "no class may be aliased where no residuals vary")
        require(mask.any(), "classes must be aliased where residuals vary by millions")


def check_selector(selector: FeatureSelector) -> None:
    """Check that a selector finds the one feature that explains residuals, on one shard or two."""
    rng = np.random.default_rng(0)
    dense = rng.random((40, 5)) < 0.5
    percepts, action = rng.integers(0, 40, 600), rng.integers(0, 2, 600)
    classes = percepts % 3  # feature 2 explains the residuals of the classes 0 and 1
    integers = rng.integers(-9, 9, 600) + np.where(dense[percepts, 2] & (classes < 2), 300, 0)
    q, is_aliased = np.zeros((3, 2)), np.array([True, False, True])

    def samples(part: slice, threads: int) -> Samples:
        group = (classes * 2 + action)[part]
        residuals = Residuals(integers[part], FixedPoint(4), group, q)
        incidence, is_all = Incidence.from_dense(dense), part == slice(None)
        return Samples(residuals, percepts[part], incidence, is_aliased, threads, is_all)

    total = samples(slice(None), 1).residuals.sums
    with Require(selector, "residuals of three classes") as require:
        require(selector.min_samples >= 1, "min_samples must be at least 1")
        choice = selector.choose([selector.measure(samples(slice(None), 1))], total)
        _require_choice(require, choice)
        again = selector.choose([selector.measure(samples(slice(None), 2))], total)
        require.equal(again.feature, choice.feature, "the choice must not depend on the threads")
        try:
            shards = [selector.measure(samples(part, 1)) for part in (slice(250), slice(250, None))]
        except ValueError:
            return  # it needs all interactions at once, and says so
        parts = selector.choose(shards, total)
        require.equal(parts.feature, choice.feature, "the choice must not depend on the shards")


def _require_choice(require: Require, choice: SplitChoice) -> None:
    """Require a valid choice for three classes, of which the second is not aliased."""
    require.instance(choice, SplitChoice, "the choice")
    for name, column in choice._asdict().items():
        dtype = np.float64 if name == "p_value" else np.int64
        require.array(column, (3,), dtype, f"{name} (n_classes,) of the choice")
    feature, action, p_value, _ = choice
    require(feature[0] == 2, "the feature that explains the residuals must be selected")
    require(feature[1] == -1, "classes that are not aliased must get -1")
    require(-1 <= feature[2] < 5, "only candidates may be selected")
    is_valid = np.where(feature >= 0, (action >= 0) & (action < 2), action == -1)
    require(is_valid.all(), "action must be that of the residuals, or -1 where feature is -1")
    require(((p_value >= 0) & (p_value <= 1)).all(), "p-values must be in [0, 1]")


def check_generator(generator: Generator) -> None:
    """Check that a generator proposes valid features, the same ones in every run, and ends.

    It is run for two stages, on images of two marks that are near or far from each other.
    """
    images, number = np.full((24, 64, 96, 3), 128, np.uint8), np.arange(24)
    for n, (x, y) in enumerate(np.random.default_rng(0).integers(24, 34, (24, 2))):
        images[n, y : y + 7, x : x + 7] = 255, 0, 0
        images[n, y : y + 7, x + 15 + n % 2 * 15 :][:, :7] = 0, 0, 255
    data = Interactions.from_arrays(
        images, number % 2, number % 4 < 2, number >= 0, next_observations=images
    )
    database = RLVC(detector=Harris()).extract(data)

    def propose(threads: int) -> list[Attempts]:
        state, stages = generator.start(), list[Attempts]()
        for classifier in (Tree(), Tree().refine([Split(0, 0)])):
            view, found = database.view(classifier, threads=threads), Attempts()
            is_aliased = np.arange(classifier.n_classes) == 0
            while (one := state.generate(view, is_aliased, len(found))) is not None:
                require.instance(one, Candidates, "what generate returns")
                found.append((one.known, list(one.new)))
                what = "generate must return None when it has no more candidates"
                require(len(found) < 100, what)
            stages.append(found)
        return stages

    known = database.graph.features
    with Require(generator, "images of two marks") as require:
        stages = propose(1)
        require(stages[0], "generate must return candidates at the first attempt")
        for attempts in stages:
            is_single = sum(bool(new) for _, new in attempts) <= 1
            require(is_single, "new features must all be in one attempt")
            new = [feature for _, features in attempts for feature in features]
            require(len(set(new)) == len(new), "a new feature must be named once")
            require(set(known).isdisjoint(new), "known features must not be proposed as new")
            height = FeatureGraph((*known, *new)).height  # of parts that exist
            require(all(height[len(known) :]), "new features must be made of known ones")
        what = "generate must return the same candidates in every run, whatever the threads"
        require(propose(2) == stages, what)


def check_clustering(clustering: Clustering, seed: int = 0) -> None:
    """Check that ``cluster`` labels every number, each segment by itself.

    The segments are drawn by ``seed``; some are empty, and some numbers are equal.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.choice([0, 1, 2, 3, 5, 9, 20, 40], rng.integers(1, 9)).tolist()
    parts = [np.sort(rng.uniform(0, 200, n).round(rng.integers(-1, 9))) for n in lengths]
    parts.append(np.repeat([10.0, 100.0], 20))  # two obvious clusters
    begin, values = np.cumsum([0, *map(len, parts)]), np.concatenate(parts)
    values.flags.writeable = False
    with Require(clustering, f"segments of lengths {np.diff(begin).tolist()}") as require:
        labels = clustering.cluster(begin, values)
        shape = len(values), *np.shape(labels)[-1:]
        require.array(labels, shape, np.int64, "the labels (n, n_ways)")
        for first, last, part in zip(begin, begin[1:], parts, strict=False):
            alone = clustering.cluster(np.array([0, len(part)]), part)
            what = "the labels of a segment must not depend on other segments"
            require.equal(labels[first:last], alone, what)
            for column in alone.T:
                found = np.setdiff1d(column, -1).tolist()
                what = "labels must count from 0; -1 is for no cluster"
                require(found == [*range(len(found))], what)
        require((alone >= 0).any(), "twenty times 10 and twenty times 100 must give a cluster")


def check_post_process(post_process: PostProcess) -> None:
    """Check that a step returns the classifier itself or one in which classes are merged."""
    tree = Tree().refine([Split(0, 0)]).refine([Split(0, 1), Split(1, 1)])
    incidence = Incidence.from_dense(np.array([[0, 0], [1, 0], [0, 1], [1, 1]], np.bool_))

    def solve(classifier: Classifier) -> tuple[MappedMDP, NDArray[np.float64]]:
        classes, flag = classifier.classify(incidence), np.ones(4, np.bool_)
        reward = np.array([0.0, 0.0, 8.0, 9.0])  # the first two classes are equivalent
        sequence = MappedSequence(classes, np.zeros(4, np.int64), reward, classes, flag, flag)
        mdp = estimate(sequence, classifier.n_classes, 1)
        return mdp, mdp.reward

    with Require(post_process, "a tree of four classes") as require:
        first, second = post_process.start(), post_process.start()
        if first is None or second is None:
            return  # classifiers stay as they are
        for number in (0, 1, 10, 20):
            after = first(number, tree, solve, is_last=number == 20)
            classes = after.classify(incidence)
            merged = np.unique(classes).tolist() == [*range(after.n_classes)]
            require(merged, "a step must only merge classes, and number them from 0 without gaps")
            again = second(number, tree, solve, is_last=number == 20).classify(incidence)
            require.equal(again, classes, "steps of two runs must not share state")


def _corridor(n: int = 2000) -> MappedSequence:
    """Return a random walk over five cells; leaving them on the right is rewarded and terminal."""
    action = np.random.default_rng(0).integers(0, 2, n)
    cells = [0]
    for step in action.tolist():
        cells.append((cells[-1] + 1) % 5 if step else max(cells[-1] - 1, 0))
    start, end = np.array(cells[:-1]), np.array(cells[1:])
    terminated = (start == 4) & (action == 1)
    is_last = terminated | (np.arange(n) == n - 1)
    reward = np.where(terminated, 10.0, -1.0)
    return MappedSequence(start, action, reward, end, terminated, is_last)
