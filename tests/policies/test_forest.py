from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvc import RLVC, Forest, ForestExplanation, ForestPolicy, Policy, load_policy
from rlvc.classifiers import Tree
from rlvc.errors import FileFormatError
from rlvc.features import LazyFeatures
from rlvc.learning import Compaction
from rlvc.policies import combine_values
from tests.support.builders import COLOUR, GREY, N_PLACES, RIGHT, database, pictures
from tests.support.mutations import forge, loader
from tests.support.policies import bytes_of, check_saving

UNSEEN = pictures(30, 3)


@pytest.fixture(scope="module")
def forest() -> ForestPolicy:
    names = ("left", "à droite", "on")
    data = database(COLOUR, action_start=2, action_names=names)
    return Forest(learner=RLVC(threads=1), trees=4, symbols=0.3, uncertainty_penalty=0.5).learn(
        data
    )


@pytest.fixture(scope="module")
def saved(forest: ForestPolicy) -> bytes:
    return bytes_of(forest)


def literal_vote(
    forest: ForestPolicy, image: NDArray[np.uint8], flipped: int = -1
) -> tuple[list[float | None], list[int]]:
    """Look for every feature anew, and count; perhaps with the outcome of one feature reversed."""

    def exhibits(number: int) -> bool:
        seen = len(LazyFeatures(forest.graph, forest.extractor, {"": image}).find(number)) > 0
        return seen != (number == flipped)

    values: list[list[float]] = [[] for _ in range(forest.n_actions)]
    ballots = [0] * forest.n_actions
    for one in forest.trees:
        visual_class = one.classifier.walk(exhibits)[1]
        tried = [a for a in range(forest.n_actions) if one.count[visual_class, a] > 0]
        for a in tried:
            values[a].append(float(one.q[visual_class, a]))
        ballots[max(tried, key=lambda a: (one.q[visual_class, a], -a))] += 1
    return [
        statistics.fmean(known) - forest.uncertainty_penalty * statistics.pstdev(known)
        if known
        else None
        for known in values
    ], ballots


def winner(values: list[float | None]) -> int:
    tried = [a for a, value in enumerate(values) if value is not None]
    return max(tried, key=lambda a: (values[a], -a))


def literal_lead(forest: ForestPolicy, values: list[float | None], action: int) -> float:
    lowest = min(float(one.q[one.count > 0].min()) for one in forest.trees)
    lowest = min(lowest, 0.0)
    filled = [lowest if value is None else value for value in values]
    return filled[action] - max(value for a, value in enumerate(filled) if a != action)


# How it acts -------------------------------------------------------------------------------------


def test_the_vote_follows_its_definition(forest: ForestPolicy) -> None:
    for image in [*COLOUR, *UNSEEN[:6]]:
        values, ballots = literal_vote(forest, image)
        vote = forest.explain(image)
        assert vote.is_tried.tolist() == [value is not None for value in values]
        assert vote.q.tolist() == pytest.approx([value or 0.0 for value in values])
        assert vote.ballots.tolist() == ballots
        assert vote.best == winner(values)
        assert forest.predict(image)[0] == vote.action == vote.best + 2


def test_one_percept_or_a_batch(forest: ForestPolicy) -> None:
    action, state = forest.predict(COLOUR[1], state="kept")
    assert (action.shape, state) == ((), "kept")
    assert action.dtype == np.int64
    actions = forest.predict(COLOUR, None, np.ones(N_PLACES, bool), deterministic=False)[0]
    assert actions.tolist() == [a + 2 for a in RIGHT]
    assert actions.dtype == np.int64
    assert forest.predict(COLOUR[:0])[0].shape == (0,)
    many = forest.predict(UNSEEN)[0]
    assert many.tolist() == [int(forest.predict(image)[0]) for image in UNSEEN]


def test_untried_actions_never_win_and_ties_go_to_the_lowest() -> None:
    trees = [
        (np.array([5.0, 1.0, 9.0]), np.array([True, True, False])),
        (np.array([-3.0, 1.0, 8.0]), np.array([True, True, False])),
        (np.array([99.0, 99.0, 7.0]), np.array([False, False, False])),
    ]
    q, is_tried = combine_values(trees)
    assert q.tolist() == [1.0, 1.0, 0.0]
    assert is_tried.tolist() == [True, True, False]


@given(st.integers(0, 10_000), st.floats(0.0, 3.0))
def test_the_penalty_subtracts_standard_deviations_from_the_mean(
    seed: int, uncertainty_penalty: float
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.choice([-3.0, 0.1, 0.1, 1e6], (5, 4, 2))
    counts = rng.random(values.shape) < 0.7
    q, is_tried = combine_values(zip(values, counts, strict=True), uncertainty_penalty)
    for at in np.ndindex(q.shape):
        known = values[(slice(None), *at)][counts[(slice(None), *at)]]
        assert is_tried[at] == (len(known) > 0)
        expected = known.mean() - uncertainty_penalty * known.std() if len(known) else 0.0
        assert q[at] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_values_on_which_trees_agree_are_not_penalized() -> None:
    known = np.ones(2, np.bool_)
    for value in (0.1, 1 / 3, 1e300):
        trees = [(np.full(2, value), known)] * 7
        assert combine_values(trees, 3.0)[0].tolist() == [value, value]


def test_the_penalty_favours_the_certain_action(forest: ForestPolicy) -> None:
    sure, risky = 1.0, (0.0, 0.0, 3.0, 3.0)
    trees = tuple(
        replace(one, q=np.tile([sure, value, -1.0], (len(one.q), 1)))
        for one, value in zip(forest.trees, risky, strict=True)
    )
    votes = [
        replace(forest, trees=trees, uncertainty_penalty=uncertainty_penalty).explain(COLOUR[0])
        for uncertainty_penalty in (0.0, 0.5)
    ]
    assert [vote.best for vote in votes] == [1, 0]
    assert votes[1].q.tolist() == [1.0, 0.75, -1.0]


def test_a_tree_is_a_policy(forest: ForestPolicy) -> None:
    for number, one in enumerate(forest.trees):
        tree = forest.tree(number)
        explanation = tree.explain(COLOUR[0])
        assert explanation.q.tolist() == one.q[explanation.visual_class].tolist()
        assert explanation.action_names == forest.action_names


def test_trees_test_features_of_several_cameras() -> None:
    views = [{"front": COLOUR[i // 2], "rear": GREY[i % 2]} for i in range(N_PLACES)]
    policy = Forest(trees=3).learn(database(views))
    assert [int(policy.predict(view)[0]) for view in views] == RIGHT
    assert {policy.graph.camera[n] for n in policy.tested} == {"front", "rear"}
    with pytest.raises(ValueError, match=r"^The cameras of this policy are \['front', 'rear'\]"):
        policy.predict({"front": COLOUR[0]})


def test_features_shared_by_trees_are_stored_once(forest: ForestPolicy) -> None:
    assert len(set(forest.features)) == len(forest.features) == len(forest.patches)
    assert set(np.flatnonzero(forest.usage)) == set(forest.tested.tolist())
    trees = [forest.tree(n) for n in range(len(forest.trees))]
    again = ForestPolicy.of(trees, forest.out_of_bag)
    assert again.features == forest.features


# How it explains itself --------------------------------------------------------------------------


def test_decisive_tests_follow_their_definition(forest: ForestPolicy) -> None:
    n_decisive = 0
    for image in [*COLOUR[:3], *UNSEEN[:3]]:
        vote = forest.explain(image)
        values, _ = literal_vote(forest, image)
        lead = literal_lead(forest, values, vote.best)
        assert vote.lead == pytest.approx(lead)
        paths = [forest.tree(n).explain(image).tests for n in range(len(forest.trees))]
        tested = [test.number for path in paths for test in path]
        assert {one.test.number for one in vote.decisive} == set(tested)
        gains = [one.gain for one in vote.decisive]
        assert gains == sorted(gains, reverse=True)
        for one in vote.decisive:
            other, _ = literal_vote(forest, image, flipped=one.test.number)
            assert one.n_trees == tested.count(one.test.number)
            assert one.gain == pytest.approx(lead - literal_lead(forest, other, vote.best))
            assert one.otherwise == winner(other)
            n_decisive += one.otherwise != vote.best
    assert n_decisive > 0


def test_a_vote_reads_as_sentences(forest: ForestPolicy) -> None:
    text = str(forest.explain(COLOUR[1])).splitlines()
    assert text[0].startswith("4 trees vote: à droite ")
    assert text[1].startswith("the mean values, less 0.5 standard deviations, are left ")
    plain = replace(forest, uncertainty_penalty=0.0)
    assert str(plain.explain(COLOUR[1])).splitlines()[1].startswith("the mean values are left ")
    assert text[2].startswith("so the action is à droite, ahead by ")
    assert text[3] == "the most decisive tests, with their gain:"
    assert text[4].startswith("1. +")
    bare = replace(forest, action_names=())
    assert "so the action is 3, ahead by" in str(bare.explain(COLOUR[1]))
    blank = Forest(trees=2).learn(database(np.zeros((N_PLACES, 64, 64, 3), np.uint8)))
    assert len(str(blank.explain(COLOUR[0])).splitlines()) == 3
    with pytest.raises(ValueError, match=r"^explain takes one percept; got a batch\."):
        forest.explain(COLOUR)


def test_a_long_vote_says_how_many_tests_it_leaves_out(forest: ForestPolicy) -> None:
    vote = forest.explain(COLOUR[1])
    long = replace(vote, decisive=vote.decisive[:1] * 14)
    assert isinstance(long, ForestExplanation)
    assert str(long).splitlines()[-1] == "and 2 more"


# How it is saved ---------------------------------------------------------------------------------


def test_saving_and_loading_changes_nothing(forest: ForestPolicy, tmp_path: Path) -> None:
    assert forest.uncertainty_penalty == 0.5
    images = np.concatenate([COLOUR, UNSEEN])
    check_saving(forest, images, tmp_path / "one" / "policy.rlvc")


def test_mixed_classifiers_without_an_error_can_be_saved(tmp_path: Path) -> None:
    learner = RLVC(threads=1, post_process=Compaction(every=0))
    made = Forest(learner=learner, trees=2, episodes=1.0).learn(database(COLOUR))
    mixed = replace(made, trees=(*made.trees, replace(made.trees[0], classifier=Tree())))
    one = replace(mixed.trees[2], q=made.trees[0].q[:1], count=made.trees[0].count[:1])
    mixed = replace(mixed, trees=(*made.trees, one), about={"task": "none"})
    assert mixed.out_of_bag is None
    check_saving(mixed, UNSEEN, tmp_path / "p")


def test_the_error_says_how_to_load_the_other_kind(
    policy: Policy, forest: ForestPolicy, tmp_path: Path
) -> None:
    policy.save(tmp_path / "one")
    forest.save(tmp_path / "many")
    assert isinstance(load_policy(tmp_path / "one"), Policy)
    with pytest.raises(
        FileFormatError,
        match=r"is 'rlvc-forest'\. Load it with ForestPolicy\.load, or with rlvc\.load_policy",
    ):
        Policy.load(tmp_path / "many")
    with pytest.raises(
        FileFormatError,
        match=r"its format is 'rlvc-policy'\. Load it with Policy\.load, or with rlvc\.load_policy",
    ):
        ForestPolicy.load(tmp_path / "one")
    with pytest.raises(FileFormatError, match=r"^There is no file"):
        load_policy(tmp_path / "nowhere")
    (tmp_path / "soup").write_bytes(b"soup")
    with pytest.raises(FileFormatError, match=r"is not a rlvc-policy file: rlvc did not write it"):
        load_policy(tmp_path / "soup")


loads = loader(ForestPolicy.load)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"}, {"version": 99}, {"classifiers": []}, {"classifiers": None},
        {"classifiers": ["tree"] * 5}, {"classifiers": ["forest"] * 4}, {"classifiers": 3},
        {"out_of_bag": -1.0}, {"out_of_bag": float("nan")}, {"out_of_bag": "x"}, {"gamma": 1.0},
        {"classifiers": ["tree", "tree", "diagrams", "tree"]},
        {"features": [{"parts": [0], "least": 1}]},
        *({"uncertainty_penalty": value} for value in (-1.0, float("inf"), None, "x")),
    ],
    ids=str,
)  # fmt: skip
def test_a_forged_manifest_is_refused(saved: bytes, change: dict[str, Any], tmp_path: Path) -> None:
    assert loads(forge(saved, {}, {}), tmp_path / "same") is not None
    assert loads(forge(saved, change, {}), tmp_path / "forged") is None


def test_forged_arrays_of_any_tree_are_refused(
    forest: ForestPolicy, saved: bytes, tmp_path: Path
) -> None:
    one, tree = forest.trees[-1], f"tree/{len(forest.trees) - 1}"
    nodes: Any = one.classifier
    forgeries: list[dict[str, Any]] = [
        {f"{tree}/q": one.q[:, :1]}, {f"{tree}/q": np.float64(1.0)},
        {f"{tree}/count": one.count[:, :-1]},
        {f"{tree}/classifier/present": np.zeros_like(nodes.present)},
        {f"{tree}/classifier/absent": nodes.absent[:-1]},
    ]  # fmt: skip
    for arrays in forgeries:
        assert loads(forge(saved, {}, arrays), tmp_path / "forged") is None, list(arrays)
