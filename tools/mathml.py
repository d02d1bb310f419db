"""Render equations as MathML when the site is built, so that pages need no script.

A hook of MkDocs. Pages write ``$$ … $$`` on lines of their own and ``$…$`` within a line, as GitHub
does. Markdown must not change equations, so a mark replaces each of them until the page is HTML.
"""

from __future__ import annotations

import itertools
import re
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

SPACE = "http://www.w3.org/1998/Math/MathML"
CODE = r"(?P<fence>^ *(?P<ticks>```+|~~~+).*?^ *(?P=ticks))|(?P<span>(?P<tick>`+)(?!`).+?(?P=tick))"
BLOCK = r"^ *\$\$(?P<block>[^$]+)\$\$ *$"
INLINE = r"(?<![\w$\\])\$(?P<inline>[^\s$`](?:[^$`\n]*[^\s$`\\])?)\$(?![\w$])"
WANTED = re.compile(f"{CODE}|{BLOCK}|{INLINE}", re.M | re.S)
MARK = "rlvcequation{}end"
MARKS = re.compile(r"<p>rlvcequation(\d+)end</p>|rlvcequation(\d+)end")
BELOW = {"max", "min", "∑"}  # operators that carry their range below, in a block
NAMED = {"argmax", "dist"}  # functions that pages write as text
REFUSED = re.compile(r"\\(operatorname|mbox|phantom)\b")  # what GitHub does not show
SIGNS = {"⟨": "prefix", "⟩": "postfix", "¬": "prefix"}  # not letters
CLOSING = {")", "]", "}", "|", "⟩", "′"}  # a minus after any other operator is a sign

_equations: dict[str, list[str]] = {}  # of each page

ElementTree.register_namespace("", SPACE)


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Replace each equation by a mark."""
    found = _equations[page.file.src_uri] = list[str]()

    def replace(match: re.Match[str]) -> str:
        latex = match["block"] or match["inline"]
        if latex is None:
            return match[0]
        try:
            found.append(to_mathml(latex.strip(), block=match["inline"] is None))
        except ValueError as error:
            raise PluginError(f"{page.file.src_uri}: {error}") from None
        mark = MARK.format(len(found) - 1)
        return mark if match["inline"] else f"\n{mark}\n"

    return WANTED.sub(replace, markdown)


def on_page_content(html: str, *, page: Any, **_: object) -> str:
    """Replace the marks by the equations."""
    found = _equations.pop(page.file.src_uri, [])

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return f'<div class="equation">{found[int(match[1])]}</div>'
        return found[int(match[2])]

    return MARKS.sub(replace, html)


def to_mathml(latex: str, *, block: bool) -> str:
    """Return the MathML of an equation; raise a ValueError for an unknown command."""
    if refused := REFUSED.search(latex):
        raise ValueError(f"the command {refused[0]} in the equation {latex} is not shown by GitHub")
    root = ElementTree.fromstring(convert(latex, display="block" if block else "inline"))
    for element in list(root.iter()):
        _mend(element, latex, block=block)
    for element in root.iter():
        for left, right in itertools.pairwise(element):
            _space(left, right)
    return ElementTree.tostring(root, encoding="unicode")


def _mend(element: ElementTree.Element, latex: str, *, block: bool) -> None:
    """Mark signs and functions as operators, and put ranges below their operators."""
    text = element.text or ""
    if "\\" in text:
        raise ValueError(f"the command {text} in the equation {latex} is not known")
    if text in SIGNS:
        element.tag = f"{{{SPACE}}}mo"
        element.attrib.update(form=SIGNS[text], stretchy="false")
    if (_is(element, "mi") and len(text) > 1) or text in NAMED:  # a function
        element.tag = f"{{{SPACE}}}mo"
    if _is(element, "msup") and element[1].text == "′":  # small and raised already
        element.tag = f"{{{SPACE}}}mrow"
        element[1].tag = f"{{{SPACE}}}mo"
        element[1].attrib.update(lspace="0", rspace="0")
    if _is(element, "msub") and block and element[0].text in BELOW:
        element.tag = f"{{{SPACE}}}munder"


def _space(left: ElementTree.Element, right: ElementTree.Element) -> None:
    """Remove gaps that print would not have."""
    if _is(left, "mo") and left.text not in CLOSING and right.text == "−":
        right.set("form", "prefix")
    if _is(left, "mo") and (left.text or "").isalpha():
        is_open = (right[0] if _is(right, "mrow") else right).text == "("
        left.attrib.update(lspace="0.17em", rspace="0" if is_open else "0.17em")


def _is(element: ElementTree.Element, tag: str) -> bool:
    return element.tag == f"{{{SPACE}}}{tag}"
