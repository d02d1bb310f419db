"""Render the page of a run: one HTML file with its styles, scripts and data."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources
from typing import Any, Final

STYLES: Final = (
    "base.css",
    "overview.css",
    "learning.css",
    "classifier.css",
    "features.css",
    "task.css",
)
SCRIPTS: Final = (
    "dom.js", "model.js", "percept.js", "overview.js", "chart.js", "learning.js", "layout.js",
    "graph.js", "drawing.js", "facts.js", "node.js", "controls.js", "search.js", "classifier.js",
    "features.js", "feature.js", "world.js", "spots.js", "plane.js", "task.js", "main.js",
)  # fmt: skip


def render(data: dict[str, Any] | None) -> str:
    """Return the page with its data; without data, a page that fetches them from its server.

    The content security policy allows the script by its hash, and nothing else may run or be
    fetched, so that text from a file can never run as code.
    """
    style = "\n".join(_asset(name) for name in STYLES)
    inner = "\n".join(_asset(name) for name in SCRIPTS)
    script = f'(() => {{\n"use strict";\n{inner}\n}})();\n'
    rules = [
        "default-src 'none'", "img-src blob: data:", "base-uri 'none'", "form-action 'none'",
        f"script-src {_hash(script)}", "style-src 'unsafe-inline'",
        f"connect-src {chr(39)}{'none' if data is not None else 'self'}{chr(39)}",
    ]  # fmt: skip
    title = "rlvc" if data is None else f"{data['title']} · rlvc"
    parts = {
        "rules": html.escape("; ".join(rules)), "title": html.escape(title), "style": style,
        "data": "null" if data is None else to_json(data), "script": script,
    }  # fmt: skip
    page = _asset("page.html")
    head, *pieces = page.split("{{")
    filled = [head]
    for piece in pieces:
        name, _, rest = piece.partition("}}")
        filled += [parts[name], rest]
    return _replace_surrogates("".join(filled))


def to_json(data: dict[str, Any]) -> str:
    r"""Return data as JSON that is safe inside a script element.

    >>> print(to_json({"task": "</script>"}))
    {"task":"\u003c/script\u003e"}
    """
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text = _replace_surrogates(text)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can express but UTF-8 cannot."""
    return text.encode(errors="replace").decode()


def _asset(name: str) -> str:
    return (resources.files("rlvc.report.web") / "assets" / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
