"""Live snapshots of a run in its folder, so that it can be watched.

During a run, ``live.rlvc`` is its latest policy, and ``live.json`` holds the entries of
``result.json`` that are known so far. Both stay if the run is interrupted, as it may be resumed,
and are removed when it ends in any other way.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rlvc._core.atomic import atomic_write
from rlvc._core.params import as_json
from rlvc.errors import ImageError, StoppedError
from rlvc.learning.stage import Stage
from rlvc.runs.callbacks import Callback, PhaseTimer
from rlvc.runs.curves import describe_sizes, describe_stage
from rlvc.runs.examples import FILE, Examples
from rlvc.runs.run import versions

log = logging.getLogger(__name__)

POLICY, RESULT = "live.rlvc", "live.json"
PAUSE: Final = 1.0  # seconds between snapshots, at least
SHARE: Final = 0.05  # of the time that snapshots may take


class LiveSnapshots(Callback, AbstractContextManager["LiveSnapshots"]):
    """Write a snapshot after every stage, or less often if stages are fast.

    A pending snapshot is never lost: the next one replaces it, or the end of learning writes it.
    An error stops the snapshots, but not the run.

    Args:
        folder: The folder of the run.
        facts: Entries of the result that are known from the start: ``task``, ``seed`` and so on.
        about: Metadata of the policy file on its origin.
        examples: Whether to write some percepts as well, at the first stage of each round; for
            tasks whose percepts cannot be rendered again.
        now: The clock, in seconds.
    """

    def __init__(
        self,
        folder: Path,
        facts: Mapping[str, Any],
        *,
        about: Mapping[str, str] | None = None,
        examples: bool = False,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._folder, self._about = folder, dict(about or {})
        self._timer, self._phase = PhaseTimer(Callback()), ""
        self._history, self._rounds = list[dict[str, Any]](), list[dict[str, Any]]()
        self._result = {  # under the keys of ``result.json``
            **facts, "versions": versions(), "seconds": self._timer.seconds,
            "rounds": self._rounds, "history": self._history, "updated": 0,
        }  # fmt: skip
        self._has_examples, self._wants_examples = examples, False
        self._pending: Stage | None = None  # not written yet
        self._now, self._next, self._works = now, -math.inf, True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._history:  # any snapshot is that of an earlier run
            return
        if kind is not None and issubclass(kind, StoppedError):
            self._write()
            return
        examples = [FILE] * (kind is not None and self._has_examples)
        for name in (RESULT, POLICY, *examples):
            with suppress(OSError):
                (self._folder / name).unlink(missing_ok=True)

    def on_phase(self, phase: str, total: int | None) -> None:  # noqa: D102
        self._timer.begin(phase)
        self._phase = phase
        if self._history:
            self._write()

    def on_stage(self, stage: Stage) -> None:  # noqa: D102
        self._pending = stage
        self._wants_examples |= self._has_examples and stage.number == 0
        self._history.append({"phase": self._phase, **describe_stage(stage)})
        if self._now() >= self._next:
            self._write()

    def on_round(self, numbers: dict[str, Any]) -> None:  # noqa: D102
        self._rounds.append(numbers)

    def _write(self) -> None:
        """Write all that is new: first the policy, then its description."""
        if not self._works:
            self._pending = None
            return
        begin = self._now()
        try:
            if self._pending is not None:
                self._write_stage(self._pending)
            self._result |= {"phase": self._phase, "updated": self._result["updated"] + 1}
            text = json.dumps(self._result, indent=1, ensure_ascii=False)
            atomic_write(self._folder / RESULT, text.encode())
        except Exception as error:  # whatever it is, it must not end the run
            self._works = False
            log.warning(
                "The run continues, but cannot be watched any more: its snapshots cannot be "
                "written (%s).", error,
            )  # fmt: skip
        self._pending = None  # a stage may hold a database
        end = self._now()
        self._next = end + max(PAUSE, (end - begin) / SHARE)

    def _write_stage(self, stage: Stage) -> None:
        """Write the policy of a stage, and examples if they are due."""
        database, classifier = stage.database, stage.classifier
        if self._wants_examples:
            self._wants_examples = False
            classes = database.classes(classifier)
            with suppress(ImageError):  # the images of a dataset on disk may be gone
                chosen = Examples.choose(database.interactions, classes)
                # Their classes change with the next stage.
                replace(chosen, classes=None).save(self._folder / FILE)
        replace(stage.policy(), about=self._about).save(self._folder / POLICY)
        self._result |= {
            "interactions": len(database.interactions),
            "percepts": len(database.interactions.percepts),
            **describe_sizes(stage),
            "parameters": as_json(stage.learner),
        }
