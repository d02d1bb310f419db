"""Make learners from strings, as given on the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from rlvc._core.params import parse, rules
from rlvc._core.registry import Registry
from rlvc.errors import unknown_name
from rlvc.features.kinds import MAX_HEIGHT
from rlvc.learning.aliasing import aliasing_detectors
from rlvc.learning.compaction import post_processes
from rlvc.learning.engine import engines
from rlvc.learning.generation.base import Canonical, generators
from rlvc.learning.generation.clustering import Hierarchical, clusterings
from rlvc.learning.generation.composites import Composites
from rlvc.learning.rlvc import CHOSEN, RLVC
from rlvc.learning.selection.selector import Selector
from rlvc.learning.solvers.base import solvers
from rlvc.learning.surrogates import Surrogates
from rlvc.vision.descriptors import descriptors
from rlvc.vision.detectors import detectors
from rlvc.vision.metrics import metrics

PARTS: dict[str, Registry[Any] | None] = {
    "detector": detectors,
    "descriptor": descriptors,
    "metric": metrics,
    "solver": solvers,
    "aliasing": aliasing_detectors,
    "generator": generators,
    "generator.clustering": clusterings,  # of some generators
    "selector": None,  # there is one kind; only its parameters can be set
    "surrogates": None,
    "post_process": post_processes,
    "engine": engines,
}
Row = tuple[str, str, str, str]  # the name, default, range and meaning of a parameter

PRESETS = ("default", "paper")
AUTO = "auto"  # the name of a part that is chosen from the percepts
PAPER: Final[dict[str, Any]] = {  # the paper's literal choices: symbols, tested one at a time
    "selector": Selector(
        ranking="remaining", test="student", alpha=0.05, correction="none", min_samples=3,
        relevant=False,
    ),
    "surrogates": Surrogates(features=1), "generator": Canonical(),
    "absorbing_self_loops": False, "shrinkage": 0.0,
}  # fmt: skip
PAPER_COMPOSITES: Final[dict[str, Any]] = {  # of any height, and where nothing else helps
    "clustering": Hierarchical(), "together": False, "height": MAX_HEIGHT,
}  # fmt: skip


def make_learner(preset: str, settings: list[str], base: RLVC) -> RLVC:
    """Return a learner from a preset and settings such as ``selector.alpha=0.01``.

    Args:
        preset: ``default`` or ``paper``.
        settings: Strings ``NAME=VALUE``: parameters, parts by name, and parameters of parts.
        base: The learner to change, such as that of a task.

    >>> make_learner("paper", ["selector.alpha=0.01"], RLVC(gamma=0.8)).selector.alpha
    0.01
    """
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    learner = replace(base, **PAPER) if preset == "paper" else base
    plain, choices, inner = _sort_settings(settings)
    changes: dict[str, Any] = parse(RLVC, plain)
    for part in PARTS:  # an owner comes before its parts
        if part not in choices and part not in inner:
            continue
        owner_name, dot, name = part.rpartition(".")
        owner = changes.get(owner_name, getattr(learner, owner_name)) if dot else learner
        if dot and not hasattr(owner, name):
            hint = _hint(owner_name, owner, name)
            raise ValueError(f"{type(owner).__name__} has no {name}.{hint}")
        changed = current = getattr(owner, name)
        if type(choices.get(part, current)) is not type(current):
            changed = choices[part]  # else the current part stays, which a task may have set
        if preset == "paper" and isinstance(changed, Composites):
            changed = replace(changed, **PAPER_COMPOSITES)
        changed = _set_parameters(part, changed, inner.get(part, {}))
        changes[owner_name or name] = replace(owner, **{name: changed}) if dot else changed
    return replace(learner, **changes)


def _sort_settings(
    settings: list[str],
) -> tuple[dict[str, str], dict[str, Any], dict[str, dict[str, str]]]:
    """Return the learner's parameters, the parts that are chosen, and the parts' parameters."""
    plain: dict[str, str] = {}
    choices: dict[str, Any] = {}
    inner: dict[str, dict[str, str]] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"A setting must read NAME=VALUE; got {setting!r}.")
        part, parameter = _split(name)
        if part not in PARTS:
            plain[name] = value
        elif parameter:
            inner.setdefault(part, {})[parameter] = value
        else:
            choices[part] = _make(part, value)
    known = [*(field.name for field, _ in rules(RLVC)), *(p for p in PARTS if "." not in p)]
    for name in plain:
        if name not in known:
            raise unknown_name("parameter", name, known)
    return plain, choices, inner


def _split(name: str) -> tuple[str, str]:
    """Return the part that a name refers to, and the name of its parameter, if any."""
    for part in sorted(PARTS, key=len, reverse=True):  # the parts of parts before their owners
        if name == part or name.startswith(f"{part}."):
            return part, name[len(part) + 1 :]
    return name, ""


def _make(part: str, name: str) -> Any:
    """Return a new part; None if it is to be chosen from the percepts."""
    registry = PARTS[part]
    if registry is None:
        raise ValueError(f"{part} has parameters only; write {part}.NAME=VALUE.")
    if part in CHOSEN and name == AUTO:
        return None
    if part in CHOSEN and name not in registry:
        raise unknown_name(part, name, [AUTO, *registry])
    return registry.make(name)


def _set_parameters(part: str, value: Any, parameters: dict[str, str]) -> Any:
    """Return a part with other parameters."""
    if value is None and parameters:
        first = next(iter(parameters))
        raise ValueError(f"{part}={AUTO} has no {first}.{_hint(part, value, first)}")
    parsed: dict[str, Any] = {}
    for name, text in parameters.items():
        try:
            parsed |= parse(type(value), {name: text})
        except ValueError as error:
            raise ValueError(f"{error}{_hint(part, value, name)}") from None
    return replace(value, **parsed) if parsed else value


def describe_parameters() -> Iterator[Row]:
    """Yield the name, default, range and meaning of every parameter.

    For a part that can be chosen, the meaning of a parameter says which choices have it; those of
    the default choice come first. Choices share the row of a parameter that is the same in all.
    """
    default = RLVC()
    yield from _rows("", default)
    for part, registry in PARTS.items():
        if registry is None:
            yield from _rows(f"{part}.", getattr(default, part))
        else:
            yield from _describe_part(part, registry, default)


def _describe_part(part: str, registry: Registry[Any], default: RLVC) -> Iterator[Row]:
    """Yield the rows of a part that can be chosen, and of the parameters of all choices."""
    owner, dot, name = part.rpartition(".")
    owners: dict[str, Any] = {"": default}
    if dot:
        choices = PARTS[owner]
        assert choices is not None
        owners = {one: made for one in choices if name in _names(made := choices.make(one))}
    current = getattr(next(iter(owners.values())), name)
    usual = AUTO if current is None else registry.name_of(current)
    names = [AUTO] * (part in CHOSEN) + [*registry]
    note = f" (with {owner}={_either([*owners])})" if dot else ""
    note = f"; {AUTO}: chosen from the percepts" if part in CHOSEN else note
    yield part, usual, f"one of {', '.join(names)}", f"which {name}{note}"
    rows: dict[Row, list[str]] = {}
    for choice in sorted(registry, key=lambda choice: choice != usual):
        for row in _rows(f"{part}.", registry.make(choice)):
            rows.setdefault(row, []).append(choice)
    for (name, initial, must, meaning), having in rows.items():
        yield name, initial, must, f"{meaning} (with {part}={_either(having)})"


def _rows(prefix: str, value: Any) -> Iterator[Row]:
    if dataclasses.is_dataclass(value):
        for field, rule in rules(value):
            default = str(getattr(value, field.name))
            yield prefix + field.name, default, rule.describe(), rule.meaning


def _hint(part: str, value: Any, parameter: str) -> str:
    """Return a hint at the choices that have a parameter which this one lacks."""
    registry = PARTS[part]
    if registry is None or parameter in _names(value):
        return ""
    owners = [choice for choice in registry if parameter in _names(registry.make(choice))]
    return f" Add {part}={_either(owners)} to set it." if owners else ""


def _names(value: Any) -> list[str]:
    """Return the names of the parameters and parts of a part."""
    return [f.name for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []


def _either(names: list[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
