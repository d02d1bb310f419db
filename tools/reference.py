"""Docstrings as the reference pages want them: an extension of Griffe, which reads the sources.

Parameters that are declared with ``param`` become arguments that are told apart in a table, with
their meaning and range; doctests become code; names in the text become links.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

import griffe

from rlvc._core.params import Rule, rules

DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.M | re.S)
ROLE = re.compile(r":(?:func|meth|class|attr):`~?([\w.]+)`")


class Reference(griffe.Extension):
    """Rework the docstrings of a package once it is read."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Rework all docstrings; what dataclasses take as arguments is found out after this."""
        for one in list(_objects(pkg)):
            if isinstance(one, griffe.Class):
                _tell_parameters(one)
            if one.docstring:
                one.docstring.value = _as_markdown(one, one.docstring.value)


def _objects(owner: griffe.Module | griffe.Class) -> Iterator[griffe.Object]:
    yield owner
    for member in owner.members.values():
        if isinstance(member, griffe.Module | griffe.Class):
            yield from _objects(member)
        elif isinstance(member, griffe.Object):
            yield member


def _tell_parameters(owner: griffe.Class) -> None:
    """Add the parameters of a part to its docstring, and let their defaults be plain values."""
    fields = [one for one in owner.members.values() if isinstance(one, griffe.Attribute)]
    if not any(str(one.value).startswith("param(") for one in fields):
        return
    real = getattr(importlib.import_module(owner.module.path), owner.name)
    declared = {field.name: (field.default, rule) for field, rule in rules(real)}
    lines = []
    for one in fields:
        if one.name in declared:
            default, rule = declared[one.name]
            one.value = repr(default)
            lines.append(f"    {one.name}: {_in_words(rule)}")
        elif one.annotation and "property" not in one.labels:
            lines.append(f"    {one.name}: {_first_line(one)}")
    assert owner.docstring is not None
    owner.docstring.value += "\n\nArgs:\n" + "\n".join(lines)


def _in_words(rule: Rule) -> str:
    """Return what a parameter means, and what it may be."""
    meaning = rule.meaning[0].upper() + rule.meaning[1:]
    must = rule.describe().replace("inf", "∞").replace("in [", "In [").replace("in (", "In (")
    if rule.choices:
        must = "One of " + ", ".join(f"`{choice}`" for choice in rule.choices)
    return f"{meaning}. {must}." if must else f"{meaning}."


def _first_line(field: griffe.Attribute) -> str:
    """Return what a field is for: its docstring, or the first sentence of that of its class."""
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
    """Return a docstring with doctests as code and with names as links where there is a target."""
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
