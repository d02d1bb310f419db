"""A learner from names and texts: what the command line speaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from rlvc._core.params import parse, rules
from rlvc._core.registry import Registry
from rlvc.errors import unknown_name
from rlvc.features.kinds import HIGHEST
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
    "generator.clustering": clusterings,  # a part of a part: some generators have one
    "selector": None,  # there is one kind; its parameters choose
    "surrogates": None,
    "post_process": post_processes,
    "engine": engines,
}
PRESETS = ("default", "paper")
AUTO = "auto"  # the name of a part that is left to the percepts


def make_learner(preset: str, settings: list[str], base: RLVC) -> RLVC:
    """Return a learner from a preset and texts such as ``selector.alpha=0.01`` or ``solver=sarsa``.

    ``base`` is what they change: the learner that a task is learned with unless told otherwise.

    >>> make_learner("paper", ["selector.alpha=0.01"], RLVC(gamma=0.8)).selector.alpha
    0.01
    """
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    learner = paper_learner(base) if preset == "paper" else base
    chosen: dict[str, Any] = {}
    plain: dict[str, str] = {}
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
            registry = PARTS[part]
            if registry is None:
                raise ValueError(f"{part} has parameters only; write {part}.NAME=VALUE.")
            chosen[part] = _make(part, registry, value)
    known = [*(field.name for field, _ in rules(RLVC)), *(p for p in PARTS if "." not in p)]
    for name in plain:
        if name not in known:
            raise unknown_name("parameter", name, known)
    made = parse(RLVC, plain)
    for part in PARTS:
        if part not in chosen and part not in inner:
            continue
        owner_name, dot, name = part.rpartition(".")
        owner = made.get(owner_name, getattr(learner, owner_name)) if dot else learner
        if dot and not hasattr(owner, name):
            raise ValueError(
                f"{type(owner).__name__} has no {name}.{_hint(owner_name, owner, name)}"
            )
        own = getattr(owner, name)
        one = chosen.get(part, own)
        if type(one) is type(own):
            one = own  # as it is, perhaps with settings of the task
        if preset == "paper" and isinstance(one, Composites):
            one = paper_generator(one)
        if one is None and part in inner:
            first = next(iter(inner[part]))
            raise ValueError(f"{part}={AUTO} has no {first}.{_hint(part, one, first)}")
        values: dict[str, Any] = {}
        for parameter, text in inner.get(part, {}).items():
            try:
                values |= parse(type(one), {parameter: text})
            except ValueError as error:
                raise ValueError(f"{error}{_hint(part, one, parameter)}") from None
        one = dataclasses.replace(one, **values) if values else one
        made[owner_name or name] = dataclasses.replace(owner, **{name: one}) if dot else one
    return dataclasses.replace(learner, **made)


def _split(name: str) -> tuple[str, str]:
    """Return the part that a name speaks of and the parameter, if it has one."""
    for part in sorted(PARTS, key=len, reverse=True):  # the parts of parts before their owners
        if name == part or name.startswith(f"{part}."):
            return part, name[len(part) + 1 :]
    return name, ""


def _make(part: str, registry: Registry[Any], name: str) -> Any:
    """Return a new part; None for one that is chosen from the percepts."""
    if part in CHOSEN and name == AUTO:
        return None
    if part in CHOSEN and name not in registry:
        raise unknown_name(part, name, [AUTO, *registry])
    return registry.make(name)


def paper_learner(base: RLVC) -> RLVC:
    """Return a learner with the paper's literal choices: symbols, tested one at a time."""
    return dataclasses.replace(
        base, selector=paper_selector(), surrogates=Surrogates(features=1), generator=Canonical(),
        absorbing_self_loops=False, shrinkage=0.0,
    )  # fmt: skip


def paper_selector() -> Selector:
    """Return the paper's literal selection: least remaining variance, a plain t-test at 5%."""
    return Selector(
        ranking="remaining", test="student", alpha=0.05, correction="none", min_samples=3,
        relevant=False,
    )  # fmt: skip


def paper_generator(composites: Composites) -> Composites:
    """Return the paper's composites: hierarchical clustering, any height, where nothing helps."""
    return dataclasses.replace(
        composites, clustering=Hierarchical(), together=False, height=HIGHEST
    )


def describe_parameters() -> Iterator[tuple[str, str, str, str]]:
    """Yield the name, default, range and meaning of every parameter.

    A parameter of a part that can be chosen says which choice has it; that of the default choice
    comes first. Choices that have a parameter in common, with all that belongs to it, share a row.
    """
    default = RLVC()
    for field, rule in rules(default):
        yield field.name, str(getattr(default, field.name)), rule.describe(), rule.meaning
    for part, registry in PARTS.items():
        if registry is None:
            yield from _rows(part, getattr(default, part))
            continue
        owner, dot, name = part.rpartition(".")
        whose: dict[str, Any] = {"": default}
        if dot:
            choices = PARTS[owner] or ()
            made = {choice: PARTS[owner].make(choice) for choice in choices}  # type: ignore[union-attr]
            whose = {choice: one for choice, one in made.items() if name in _names(one)}
        own = getattr(next(iter(whose.values())), name)
        usual = AUTO if own is None else registry.name_of(own)
        names = [AUTO] * (part in CHOSEN) + [*registry]
        note = f" (with {owner}={_either([*whose])})" if dot else ""
        note = f"; {AUTO}: the percepts tell" if part in CHOSEN else note
        yield part, usual, f"one of {', '.join(names)}", f"which {name}{note}"
        owners: dict[tuple[str, str, str, str], list[str]] = {}
        for name in sorted(registry, key=lambda name: name != usual):
            for row in _rows(part, registry.make(name)):
                owners.setdefault(row, []).append(name)
        for (name, initial, must, meaning), names in owners.items():
            yield name, initial, must, f"{meaning} (with {part}={_either(names)})"


def _rows(part: str, value: Any) -> Iterator[tuple[str, str, str, str]]:
    if dataclasses.is_dataclass(value):
        for field, rule in rules(value):
            default = str(getattr(value, field.name))
            yield f"{part}.{field.name}", default, rule.describe(), rule.meaning


def _hint(part: str, value: Any, parameter: str) -> str:
    """Return which other choices have a parameter that this one has not."""
    registry = PARTS[part]
    if registry is None or parameter in _names(value):
        return ""
    owners = [choice for choice in registry if parameter in _names(registry.make(choice))]
    return f" Add {part}={_either(owners)} to set it." if owners else ""


def _names(value: Any) -> list[str]:
    """Return the names of all that can be set on a part: parameters and parts of its own."""
    return [f.name for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []


def _either(names: list[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
