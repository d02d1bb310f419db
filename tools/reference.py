"""Adapt docstrings to the reference pages: an extension of Griffe, which reads the sources.

Fields that are declared with ``param`` become documented arguments, with their meaning and range;
doctests become code blocks; names in the text become links.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Iterator

import griffe

from rlvc._core.params import Rule, rules

DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.M | re.S)
ROLE = re.compile(r":(?:func|meth|class|attr):`~?([\w.]+)`")


class Reference(griffe.Extension):
    """Rewrite the docstrings of a package once it is loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Rewrite all docstrings; Griffe determines the arguments of dataclasses afterwards."""
        _prefer_functions(pkg)
        for one in list(_objects(pkg)):
            if isinstance(one, griffe.Class):
                _add_parameters(one)
            if one.docstring:
                one.docstring.value = _as_markdown(one, one.docstring.value)


def _prefer_functions(pkg: griffe.Module) -> None:
    """Let a public name mean the function of a module of the same name, as it does in Python."""
    for name, one in pkg.members.items():
        if isinstance(one, griffe.Alias) and one.target_path.startswith(f"{pkg.path}."):
            target = one.target
            if isinstance(target, griffe.Module) and name in target.members:
                one.target = target.members[name]


def _objects(owner: griffe.Module | griffe.Class) -> Iterator[griffe.Object]:
    yield owner
    for member in owner.members.values():
        if isinstance(member, griffe.Module | griffe.Class):
            yield from _objects(member)
        elif isinstance(member, griffe.Object):
            yield member


def _add_parameters(owner: griffe.Class) -> None:
    """Add the parameters of a part to its docstring, and replace their defaults by plain values."""
    real = getattr(importlib.import_module(owner.module.path), owner.name, None)
    if not dataclasses.is_dataclass(real):
        return
    declared = {field.name: (field.default, rule) for field, rule in rules(real)}
    if not declared:
        return
    lines = []
    for kind in (*reversed(owner.mro()), owner):
        for name, one in kind.members.items():
            if not isinstance(one, griffe.Attribute):
                continue
            if name in declared:
                default, rule = declared[name]
                one.value = repr(default)
                lines.append(f"    {name}: {_in_words(rule)}")
            elif one.annotation and "property" not in one.labels:
                lines.append(f"    {name}: {_first_line(one)}")
    assert owner.docstring is not None
    owner.docstring.value += "\n\nArgs:\n" + "\n".join(lines)


def _in_words(rule: Rule) -> str:
    """Return the meaning and the range of a parameter."""
    meaning = rule.meaning[0].upper() + rule.meaning[1:]
    must = rule.describe().replace("inf", "∞").replace("in [", "In [").replace("in (", "In (")
    if rule.choices:
        must = "One of " + ", ".join(f"`{choice}`" for choice in rule.choices)
    return f"{meaning}. {must}." if must else f"{meaning}."


def _first_line(field: griffe.Attribute) -> str:
    """Return the docstring of a field, or the first sentence of that of its type."""
    if field.docstring:
        return field.docstring.value
    assert isinstance(field.annotation, griffe.Expr)
    names = [
        name for name in field.annotation.iterate(flat=True) if isinstance(name, griffe.ExprName)
    ]
    kind = field.modules_collection[names[0].canonical_path]
    sentence = kind.docstring.value.split("\n\n")[0].replace("\n", " ") if kind.docstring else ""
    return sentence.partition(". ")[0].rstrip(".") + "."


def _as_markdown(owner: griffe.Object, text: str) -> str:
    """Return a docstring with doctests as code blocks and names as links, if they have a target."""
    text = DOCTEST.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```", text)
    return ROLE.sub(lambda match: _link(owner, match[1]), text)


def _link(owner: griffe.Object, name: str) -> str:
    path = name
    if not name.startswith("rlvc."):
        try:
            path = owner.resolve(name)
        except griffe.NameResolutionError:
            path = f"{owner.module.path}.{name}"
    return f'<autoref identifier="{path}" optional><code>{name}</code></autoref>'
