"""Render the page of a run: one HTML file with its styles, scripts and data."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources
from typing import Any, Final

STYLES: Final = (
    "base.css", "overview.css", "learning.css", "classifier.css", "features.css", "task.css",
)  # fmt: skip
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
    script = "\n".join(["(() => {", '"use strict";', *map(_asset, SCRIPTS), "})();\n"])
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = [
        "default-src 'none'", "img-src blob: data:", "base-uri 'none'", "form-action 'none'",
        f"script-src 'sha256-{digest}'", "style-src 'unsafe-inline'",
        "connect-src 'self'" if data is None else "connect-src 'none'",
    ]  # fmt: skip
    title = "rlvc" if data is None else f"{data['title']} · rlvc"
    parts = {
        "rules": html.escape("; ".join(rules)), "title": html.escape(title),
        "style": "\n".join(map(_asset, STYLES)), "script": script,
        "data": "null" if data is None else to_json(data),
    }  # fmt: skip
    page = re.sub(r"{{(\w+)}}", lambda found: parts[found[1]], _asset("page.html"))
    return _replace_surrogates(page)


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
