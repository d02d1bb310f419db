"""What is learned: a policy that acts, explains itself, and fits in one file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvc.classifier.tree import Tree
from rlvc.compiled import run_threads
from rlvc.errors import PolicyFileError
from rlvc.features import Primitive
from rlvc.mdp import greedy
from rlvc.percepts import SINGLE
from rlvc.registry import arrays_of
from rlvc.storage import read_archive, write_archive
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import detectors
from rlvc.vision.eye import Eye, Glance
from rlvc.vision.images import Image, as_image
from rlvc.vision.metrics import metrics
from rlvc.vision.vocabulary import Vocabulary

FORMAT, VERSION = "rlvc-policy", 1


@dataclass(frozen=True, slots=True)
class Test:
    """One test on the path of a percept.

    Attributes:
        number: The feature's number in the policy.
        feature: The feature that is looked for.
        exhibited: Whether it was found.
        places: (n, 2) where it was found, in pixels.
    """

    number: int
    feature: Primitive
    exhibited: bool
    places: NDArray[np.float32]

    def __str__(self) -> str:
        if not self.exhibited:
            return f"{self.feature}: not seen"
        places = ", ".join(f"({x:.0f}, {y:.0f})" for x, y in self.places[:3])
        more = f" and {len(self.places) - 3} more" if len(self.places) > 3 else ""
        return f"{self.feature}: seen at {places}{more}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a policy acts as it does on one percept.

    Attributes:
        tests: The tests on the path through the classifier, in order.
        visual_class: The class at its end.
        q: (n_actions,) the values of the actions there.
        is_tried: (n_actions,) whether the database holds that action in that class.
        action: The action, as the environment numbers it.
    """

    tests: tuple[Test, ...]
    visual_class: int
    q: NDArray[np.float64]
    is_tried: NDArray[np.bool_]
    action: int
    action_names: tuple[str, ...] = ()

    def name(self, index: int) -> str:
        """Return how to call the action that stands at an index of ``q``."""
        return self.action_names[index] if self.action_names else str(index)

    def __str__(self) -> str:
        lines = [f"{i}. {test}" for i, test in enumerate(self.tests, 1)]
        values = ", ".join(
            f"{self.name(a)} {value:.2f}" if tried else f"{self.name(a)} never tried"
            for a, (value, tried) in enumerate(zip(self.q, self.is_tried, strict=True))
        )
        best = int(greedy(self.q[None], self.is_tried[None])[0])
        lines.append(f"so this is class {self.visual_class}, where the values are {values}")
        lines.append(f"so the action is {self.name(best)}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A vocabulary, a classifier on a few of its features, and the values of the classes.

    Attributes:
        eye: The detector, the descriptor and the vocabularies.
        features: The features that the classifier tests; their numbers are its own.
        classifier: From features to visual classes.
        q: (n_classes, n_actions) state–action values.
        count: (n_classes, n_actions) how often the database tried each pair.
        usage: (n_features,) on how many percepts of the database each feature is tested.
        patches: (n_features, side, side, 3) what each feature looks like.
        shapes: The shape of each camera's images.
        gamma: The discount factor.
        action_start: The first action as the environment numbers them.
        action_names: How to call the actions, if they have names.
    """

    eye: Eye
    features: tuple[Primitive, ...]
    classifier: Tree
    q: NDArray[np.float64]
    count: NDArray[np.int64]
    usage: NDArray[np.int64]
    patches: NDArray[np.uint8]
    shapes: Mapping[str, tuple[int, ...]]
    gamma: float
    action_start: int = 0
    action_names: tuple[str, ...] = ()

    @property
    def n_classes(self) -> int:
        """How many visual classes there are."""
        return self.classifier.n_classes

    @property
    def actions(self) -> NDArray[np.int64]:
        """(n_classes,) the best action of each class, counted from 0."""
        return greedy(self.q, self.count > 0)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[np.int64], Any]:
        """Return the action for one percept, or the actions for a batch, and the state unchanged.

        The signature is Stable-Baselines3's. One percept gives an array without dimensions, a batch
        of n an array of n. The policy is deterministic whatever is asked.
        """
        percepts, is_batch = self._split(observation)
        classes = list(run_threads(self._classify, percepts, 0 if len(percepts) > 8 else 1))
        actions = self.actions[np.asarray(classes, np.int64)] + self.action_start
        return (actions if is_batch else np.asarray(actions[0])), state

    def classify(self, observation: Any) -> NDArray[np.int64]:
        """Return the visual class of one percept, or the classes of a batch."""
        percepts, is_batch = self._split(observation)
        classes = np.asarray([self._classify(percept) for percept in percepts], np.int64)
        return classes if is_batch else np.asarray(classes[0])

    def explain(self, percept: Any) -> Explanation:
        """Return the tests on the path of one percept, its class, its values and the action."""
        percepts, is_batch = self._split(percept)
        if is_batch:
            raise ValueError("explain takes one percept; got a batch. Call it for each percept.")
        glance = Glance(self.eye, percepts[0])
        found: dict[int, NDArray[np.float32]] = {}

        def exhibits(number: int) -> bool:
            found[number] = self.features[number].occurrences(glance)
            return len(found[number]) > 0

        path, visual_class = self.classifier.walk(exhibits)
        tests = tuple(Test(n, self.features[n], there, found[n]) for n, there in path)
        return Explanation(
            tests,
            visual_class,
            self.q[visual_class],
            self.count[visual_class] > 0,
            int(self.actions[visual_class]) + self.action_start,
            self.action_names,
        )

    def _classify(self, percept: dict[str, Image]) -> int:
        glance = Glance(self.eye, percept)
        return self.classifier.walk(lambda n: len(self.features[n].occurrences(glance)) > 0)[1]

    def _split(self, observation: Any) -> tuple[list[dict[str, Image]], bool]:
        """Return the percepts of an observation and whether it is a batch of them."""
        if isinstance(observation, tuple):
            raise TypeError(
                "observation of predict must be an image or a dict of images; got a tuple. "
                "env.reset() returns (observation, info): unpack it first."
            )
        cameras = sorted(self.shapes)
        if cameras == [SINGLE]:
            parts = {SINGLE: observation}
        elif isinstance(observation, Mapping) and sorted(observation) == cameras:
            parts = dict(observation)
        else:
            got = sorted(observation) if isinstance(observation, Mapping) else type(observation)
            raise ValueError(f"The cameras of this policy are {cameras}; got {got}.")
        split = {name: self._images(name, part) for name, part in parts.items()}
        batches = {is_batch for _, is_batch in split.values()}
        lengths = {len(images) for images, _ in split.values()}
        if len(batches) != 1 or len(lengths) != 1:
            raise ValueError("The cameras of an observation must have as many images each.")
        n = lengths.pop()
        return [{name: split[name][0][i] for name in split} for i in range(n)], batches.pop()

    def _images(self, camera: str, part: Any) -> tuple[list[Image], bool]:
        whose = f"camera {camera!r}" if camera else "the observation"
        channels = self.shapes[camera][2]
        single = (3,) if channels == 3 else (2, 3)
        is_batch = isinstance(part, np.ndarray) and (
            part.ndim == 4 or (part.ndim == 3 and channels == 1 and part.shape[2] != 1)
        )
        rows = list(part) if is_batch else [part]
        images = [as_image(row, whose) for row in rows]
        for image, row in zip(images, rows, strict=True):
            if image.shape[2] != channels or row.ndim not in single:
                raise ValueError(
                    f"{whose.capitalize()} must have {channels} channel(s), as in learning; "
                    f"got shape {row.shape}."
                )
        return images, is_batch

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to one file, whole or not at all."""
        cameras = sorted(self.shapes)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "detector": detectors.describe(self.eye.detector),
            "descriptor": descriptors.describe(self.eye.descriptor),
            "metric": metrics.describe(self.eye.metric),
            "threshold": self.eye.threshold,
            "cameras": [{"name": name, "shape": list(self.shapes[name])} for name in cameras],
            "features": [{"camera": f.camera, "symbol": f.symbol} for f in self.features],
            "gamma": self.gamma,
            "action_start": self.action_start,
            "action_names": list(self.action_names),
        }
        arrays: dict[str, NDArray[Any]] = {
            "tree/feature": self.classifier.feature,
            "tree/present": self.classifier.present,
            "tree/absent": self.classifier.absent,
            "q": self.q,
            "count": self.count,
            "usage": self.usage,
            "patches": self.patches,
        }
        for i, name in enumerate(cameras):
            words = self.eye.vocabularies[name]
            if words.centres is not None:
                arrays[f"vocabulary/{i}/centres"] = words.centres
            for key, value in arrays_of(words.metric).items():
                arrays[f"vocabulary/{i}/metric/{key}"] = value
        write_archive(path, manifest, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read a policy; raise PolicyFileError if the file is not one, and run no code from it."""
        manifest, arrays = read_archive(path, FORMAT, VERSION)
        try:
            policy = cls._from_parts(manifest, arrays)
            policy._check()
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise PolicyFileError(f"{os.fspath(path)} is damaged: {error}") from error
        return policy

    @classmethod
    def _from_parts(cls, manifest: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Policy:
        eye = Eye(
            detectors.restore(manifest["detector"]),
            descriptors.restore(manifest["descriptor"]),
            metrics.restore(manifest["metric"]),
            float(manifest["threshold"]),
        )
        shapes: dict[str, tuple[int, ...]] = {}
        for i, camera in enumerate(manifest["cameras"]):
            prefix = f"vocabulary/{i}/"
            state = {
                name.removeprefix(prefix + "metric/"): array
                for name, array in arrays.items()
                if name.startswith(prefix + "metric/")
            }
            metric = dataclasses.replace(eye.metric, **state) if state else eye.metric  # type: ignore[type-var]
            words = Vocabulary(
                metric, eye.threshold, arrays.get(prefix + "centres"), is_fitted=True
            )
            eye.vocabularies[camera["name"]] = words
            shapes[camera["name"]] = tuple(int(n) for n in camera["shape"])
        return cls(
            eye,
            tuple(Primitive(str(f["camera"]), int(f["symbol"])) for f in manifest["features"]),
            Tree(arrays["tree/feature"], arrays["tree/present"], arrays["tree/absent"]),
            arrays["q"],
            arrays["count"],
            arrays["usage"],
            arrays["patches"],
            shapes,
            float(manifest["gamma"]),
            int(manifest["action_start"]),
            tuple(str(name) for name in manifest["action_names"]),
        )

    def _check(self) -> None:
        """Raise a ValueError if the parts do not fit together, so that acting cannot go astray."""
        self.classifier.check(len(self.features))
        if self.q.ndim != 2 or self.q.shape != self.count.shape or self.q.dtype != np.float64:
            raise ValueError("the values do not fit the counts")
        if len(self.q) != self.n_classes or self.q.shape[1] == 0:
            raise ValueError("the values do not fit the classes")
        if not np.isfinite(self.q).all():
            raise ValueError("a value is not finite")
        if self.usage.shape != (len(self.features),) or len(self.patches) != len(self.features):
            raise ValueError("the features do not fit their patches")
        if self.action_names and len(self.action_names) != self.q.shape[1]:
            raise ValueError("the names do not fit the actions")
        if not self.shapes or any(len(shape) != 3 for shape in self.shapes.values()):
            raise ValueError("a camera has no image shape")
        for feature in self.features:
            words = self.eye.vocabularies[feature.camera]
            if not 0 <= feature.symbol < words.n_symbols:
                raise ValueError(f"{feature} is not in the vocabulary")
