"""What a run has learned so far, kept in its folder so that others can look on.

While a run goes on, ``live.rlvc`` is its latest policy and ``live.json`` says what ``result.json``
will say, as far as it is known. They stay when it is stopped on purpose, to be gone on with later;
else both go when it ends, whichever way.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from rlvc._core.atomic import atomic_write
from rlvc._core.params import as_json
from rlvc.errors import ImageError, StoppedError
from rlvc.learning.rlvc import Stage
from rlvc.runs.callbacks import Callbacks, PhaseTimer, versions
from rlvc.runs.curves import describe_stage
from rlvc.runs.examples import FILE, Examples

log = logging.getLogger(__name__)

POLICY, RESULT = "live.rlvc", "live.json"
PAUSE: Final = 1.0  # seconds between snapshots, at least
SHARE: Final = 0.05  # of the time that snapshots may take


class LiveSnapshots:
    """Write a snapshot after every stage, or less often if stages are fast.

    A snapshot that waits is never lost: the next one replaces it, or the end of learning brings it
    to disk. What goes wrong here stops the snapshots, and not the run.

    Args:
        folder: Of the run.
        facts: What is known of the run from the start: ``task``, ``seed`` and so on.
        about: What the policy says of itself.
        examples: Whether to write some percepts as well, at the beginning of each learning; for
            tasks whose percepts cannot be made again.
        now: Tell the time in seconds.
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
        self.callbacks = Callbacks(
            on_phase=self._on_phase, on_stage=self._on_stage, on_round=self._on_round
        )
        self._folder, self._about = folder, dict(about or {})
        self._facts = {**facts, "versions": versions()}
        self._clock, self._phase, self._updated = PhaseTimer(Callbacks()), "", 0
        self._history, self._rounds = list[dict[str, Any]](), list[dict[str, Any]]()
        self._has_examples, self._wants_examples = examples, False
        self._waiting: Stage | None = None  # which is not written yet
        self._now, self._next, self._works = now, -math.inf, True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._history:  # what lies there is of an earlier run
            return
        if kind is not None and issubclass(kind, StoppedError):
            self._write()
            return
        examples = [FILE] * (kind is not None and self._has_examples)
        for name in (RESULT, POLICY, *examples):
            with suppress(OSError):
                (self._folder / name).unlink(missing_ok=True)

    def _on_phase(self, phase: str, total: int | None) -> None:
        self._clock.begin(phase)
        self._phase = phase
        if self._history:
            self._write()

    def _on_stage(self, stage: Stage) -> None:
        self._waiting = stage
        self._wants_examples |= self._has_examples and stage.number == 0
        self._history.append({"phase": self._phase, **describe_stage(stage)})
        if self._now() >= self._next:
            self._write()

    def _on_round(self, numbers: dict[str, Any]) -> None:
        self._rounds.append(numbers)

    def _write(self) -> None:
        """Bring all that is new to disk: first the policy, then what is said of it."""
        if not self._works:
            self._waiting = None
            return
        begin = self._now()
        try:
            if self._waiting is not None:
                self._write_stage(self._waiting)
            self._updated += 1
            text = json.dumps(self._describe(), indent=1, ensure_ascii=False)
            atomic_write(self._folder / RESULT, text.encode())
        except Exception as error:  # whatever it is: it is not worth a run
            self._works = False
            log.warning(
                "The run goes on, but cannot be watched any more: its snapshots cannot be written "
                "(%s).", error,
            )  # fmt: skip
        self._waiting = None  # a stage holds all that was looked at
        end = self._now()
        self._next = end + max(PAUSE, (end - begin) / SHARE)

    def _write_stage(self, stage: Stage) -> None:
        """Write the policy of a stage, and examples where they are due."""
        database, classifier = stage.database, stage.classifier
        if self._wants_examples:
            self._wants_examples = False
            classes = database.classes(classifier)
            with suppress(ImageError):  # the images of a dataset on disk may be gone
                chosen = Examples.choose(database.interactions, classes)
                # Their classes will be others soon.
                replace(chosen, classes=None).save(self._folder / FILE)
        replace(stage.policy(), about=self._about).save(self._folder / POLICY)
        self._facts |= {
            "interactions": len(database.interactions),
            "percepts": len(database.interactions.percepts),
            "stages": stage.number,
            "classes": classifier.n_classes,
            "features": {
                "distinct": database.extractor.n_symbols,
                "selected": len(classifier.features),
            },
            "parameters": as_json(stage.learner),
        }

    def _describe(self) -> dict[str, Any]:
        """Return what there is to say, under the names that it has in ``result.json``."""
        return {
            **self._facts,
            "seconds": self._clock.seconds,
            "rounds": self._rounds,
            "history": self._history,
            "phase": self._phase,
            "updated": self._updated,
        }
