"""The style of all figures: quiet, readable in print, safe for colour-blind readers."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

BLUE: Final = "#0072B2"  # Okabe and Ito's palette
ORANGE: Final = "#D55E00"
GREEN: Final = "#009E73"
GREY: Final = "#6B7280"
INK: Final = "#1F2937"
LIGHT: Final = "#D1D5DB"
PALE: Final = "#9CCBE8"  # of bars that are not highlighted
VALUES: Final = "viridis"

_RC: Final[dict[Any, Any]] = {
    "font.size": 9.0,
    "font.family": "sans-serif",
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": "#9CA3AF",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E5E7EB",
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
}


def house_style() -> AbstractContextManager[None]:
    """Draw in the style of the figures; the user's settings of matplotlib stay unchanged."""
    return mpl.rc_context(_RC)


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """Return an empty figure of a size in inches, without a window."""
    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=10)
    return figure


def to_png(figure: Figure, dpi: int = 150) -> bytes:
    """Return a figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()
