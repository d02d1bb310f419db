"""Count the functions and files that a reader passes on two walks through the code.

Run it with ``python benchmarks/walks.py [--list]``.

* *A decision*: the main chain from ``rlvc learn`` to the first decision of the learned policy. It
  consists of the call stacks at ``MILESTONES``, one after the other, each function once: what one
  must open to follow a percept from the command line to an action.
* *A stage*: every function of the package that runs during one stage of the learner that refines
  classes, with its default parts.

For both it prints the number of calls and of files, and how often a reader goes back: how often the
next call is in another file that was read before. Lambdas, comprehensions, properties and special
methods such as ``__len__`` do not count; compiled kernels do if Python calls them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium

import rlvc

ROOT = str(Path(rlvc.__file__).parent)
MILESTONES = (  # in the order of the walk; a name stands for the functions of a protocol
    "step",  # the environment: a percept is collected
    "add",  # it is stored, if it is new
    "detect",  # interest points
    "describe",  # descriptors
    "quantize",  # symbols
    "classify",  # visual classes
    "solve",  # the values of the mapped MDP
    "bellman_residuals",
    "detect",  # aliased classes
    "select",  # the best feature
    "refine",  # the classifier
    "policy",  # that of the last stage
    "predict",  # a decision
    "walk",  # from test to test
    "exhibits",  # whether the percept exhibits a feature
    "detect",
    "describe",
    "has_match",
)
Call = tuple[str, str]  # file, function


def main() -> None:
    """Print the counts of both walks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the calls as well")
    is_listed = parser.parse_args().list
    for name, calls in (("decision", walk_to_decision()), ("stage", walk_through_stage())):
        files = {file for file, _ in calls}
        print(f"{name}: {len(calls)} calls, {len(files)} files, back {count_back(calls)} times")
        if is_listed:
            print("".join(f"  {file}: {function}\n" for file, function in calls))


def count_back(calls: list[Call]) -> int:
    """Return how often the next call is in another file that was read before.

    >>> count_back([("a", "f"), ("b", "g"), ("a", "h"), ("a", "i"), ("b", "j"), ("c", "k")])
    2
    """
    seen, last, n = set[str](), "", 0
    for file, _ in calls:
        n += file != last and file in seen
        seen.add(file)
        last = file
    return n


@contextlib.contextmanager
def profiled(on_call: Callable[[FrameType, Call], None]) -> Iterator[None]:
    """Call a function with every new frame of the package, and its name."""

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (name := name_of(frame)) is not None:
            on_call(frame, name)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def name_of(frame: FrameType) -> Call | None:
    """Return the file and the function of a frame; None for one that does not count."""
    code = frame.f_code
    if not code.co_filename.startswith(ROOT) or code.co_name.startswith(("<", "__")):
        return None
    owner = frame.f_locals.get("self")
    if isinstance(getattr(type(owner), code.co_name, None), property):
        return None
    return code.co_filename[len(ROOT) + 1 :], code.co_qualname.replace("<locals>.", "")


def stack_of(frame: FrameType | None) -> list[FrameType]:
    """Return a frame and its callers, outermost first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def walk_to_decision() -> list[Call]:
    """Return the main chain from the command line to the first decision."""
    calls: dict[Call, None] = {}
    milestones = list(MILESTONES)

    def on_call(frame: FrameType, _: Call) -> None:
        if milestones and frame.f_code.co_name == milestones[0]:
            calls.update(dict.fromkeys(filter(None, map(name_of, stack_of(frame)))))
            milestones.pop(0)

    from rlvc.cli import app

    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        command = [
            "learn", "rlvc:rlvc/Maze-v0", "--interactions", "300", "--rounds", "2",
            "--episodes", "1", "--set", "threads=1", "--out", f"{place}/run",
        ]  # fmt: skip
        with profiled(on_call):
            app(command, standalone_mode=False)
    if milestones:
        sys.exit(f"The walk never reached {milestones[0]}.")
    return list(calls)


def walk_through_stage() -> list[Call]:
    """Return every function that the second stage of learning calls, in order."""
    data = rlvc.collect(gymnasium.make("rlvc/Maze-v0"), 1000, seed=0)
    learner = rlvc.RLVC(threads=1)
    stages = learner.stages(learner.extract(data))
    next(stages)
    calls: dict[Call, None] = {}
    with profiled(lambda _, name: calls.update({name: None})):
        next(stages)
    return list(calls)


if __name__ == "__main__":
    main()
