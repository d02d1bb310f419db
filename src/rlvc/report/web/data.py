"""The data of the page about a run, from the folder of the run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

from rlvc._core.validate import explain_invalid
from rlvc.classifiers.tree import Tree
from rlvc.errors import FileFormatError
from rlvc.policies.forest import AnyPolicy, ForestPolicy, load_policy
from rlvc.report.web.curves import describe_learning
from rlvc.report.web.encoding import Json, encode_array
from rlvc.report.web.overview import describe_overview
from rlvc.report.web.policy import describe_policy
from rlvc.report.web.scene import Scene
from rlvc.runs.callbacks import Callback
from rlvc.runs.examples import FILE as EXAMPLES
from rlvc.runs.examples import Examples
from rlvc.runs.folder import RESULT
from rlvc.runs.live import POLICY as DRAFT_POLICY
from rlvc.runs.live import RESULT as DRAFT
from rlvc.runs.task import Task, task_of
from rlvc.vision.cache import ExtractionCache

FORMAT, VERSION = "rlvc-report", 1
SO_FAR: Final = "the policy so far"  # one name for all stages, so that the page keeps its state
POLICIES: Final = ("policy.rlvc", "one.rlvc", "compact.rlvc", "basic.rlvc")  # the first one acts


class PageBuilder:
    """Build the data of the pages of runs.

    Scenes and keypoints are cached, so that the page of an unfinished run is quickly updated.
    """

    def __init__(self, callback: Callback | None = None) -> None:
        self._callback = callback or Callback()
        self._scene: tuple[Any, Scene, ExtractionCache] | None = None

    def describe(self, folder: Path) -> Json:
        """Return the data of the page of a run.

        Raises:
            FileFormatError: There is no run in the folder, or it is damaged.
        """
        result, is_draft = read_result(folder)
        policies = read_policies(folder, is_draft=is_draft)
        title = str(result.get("task") or folder.name)
        found: Json = {"format": FORMAT, "version": VERSION, "title": title, "live": None}
        with explain_invalid(folder / (DRAFT if is_draft else RESULT), "run that this rlvc knows"):
            if is_draft:
                history = result.get("history") or []
                stage = int(history[-1]["stage"]) if history else None
                found["live"] = {"phase": str(result.get("phase")), "stage": stage}
            task = task_of(result)
            found["overview"] = describe_overview(result, task)
            found["learning"] = describe_learning(result)
            scene, cache = self._scene_of(folder, result, task, is_draft=is_draft)
        images, shown = list(scene.images), list[Json]()
        for name, policy in policies.items():
            check_task(policy, scene, folder)
            self._callback.on_phase("extract", cache.n_new(policy.extractor, scene.percepts))
            one, more = describe_policy(
                name, policy, scene.percepts, cache, len(images), self._callback.on_step
            )
            shown.append(one)
            images += more
        shapes = next(iter(policies.values())).shapes
        cameras = scene.cameras or [  # without percepts to show
            {"name": name, "width": shape[1], "height": shape[0], "file": 0, "zoom": 1.0}
            for name, shape in sorted(shapes.items())
        ]
        percepts = {"table": encode_array(scene.table), "label": scene.labels}
        return found | {
            "images": images, "cameras": cameras, "policies": shown, "percepts": percepts,
            "task": scene.task,
        }  # fmt: skip

    def _scene_of(
        self, folder: Path, result: dict[str, Any], task: Task[Any], *, is_draft: bool
    ) -> tuple[Scene, ExtractionCache]:
        """Return the scene of a run, and the cache of its keypoints."""
        file = folder / EXAMPLES
        stamp = stamp_of(file)
        key = (*(result.get(name) for name in ("task", "pictures", "seed")), is_draft, stamp)
        if self._scene is None or self._scene[0] != key:
            self._callback.on_phase("draw", None)
            examples = Examples.load(file) if stamp else None
            scene = task.scene(result, examples, is_draft=is_draft)
            self._scene = key, scene, ExtractionCache()
        return self._scene[1], self._scene[2]


def check_task(policy: AnyPolicy, scene: Scene, folder: Path) -> None:
    """Raise a FileFormatError unless a policy was learned on the task of the scene."""
    known = {images.camera: images.shape for images in scene.percepts.images}
    n_actions = scene.task.get("n_actions", policy.n_actions)
    if (known and known != dict(policy.shapes)) or n_actions != policy.n_actions:
        raise FileFormatError(
            f"The policy in {folder} was not learned on the task of {RESULT}: it has other images "
            "or actions. Put both files of one run into a folder, or learn again."
        )


def stamp_of(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is replaced; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def read_result(folder: Path) -> tuple[dict[str, Any], bool]:
    """Return the result of a run, and whether the run is in progress."""
    is_draft = not (folder / RESULT).is_file()
    file = folder / (DRAFT if is_draft else RESULT)
    if not file.is_file():
        raise FileFormatError(
            f"There is no run in {folder}; name the folder that `rlvc run` or `rlvc learn` wrote "
            "to."
        )
    try:
        text = file.read_text(encoding="utf-8")
        result = json.loads(text, parse_constant=lambda name: None, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{file} is damaged ({error}).") from error
    if not isinstance(result, dict):
        raise FileFormatError(f"{file} does not hold the result of a run.")
    return result, is_draft


def read_policies(folder: Path, *, is_draft: bool) -> dict[str, AnyPolicy]:
    """Return the policies of a run by their names; the first one acts."""
    if is_draft:
        return {SO_FAR: load_policy(folder / DRAFT_POLICY)}
    files = [folder / name for name in POLICIES if (folder / name).is_file()]
    if not files:
        raise FileFormatError(f"There is no policy in {folder}; was {RESULT} moved there alone?")
    return {describe_kind(policy): policy for policy in map(load_policy, files)}


def describe_kind(policy: AnyPolicy) -> str:
    """Return the kind and the size of a policy in words."""
    if isinstance(policy, ForestPolicy):
        return f"forest of {len(policy.trees)} trees"
    what = "tree" if isinstance(policy.classifier, Tree) else "compacted"
    return f"{what}, {policy.n_classes} classes"
