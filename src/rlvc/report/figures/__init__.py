"""Figures of policies, features and learning curves, for use in a paper."""

from rlvc.report.figures.arrangements import Arrangement, arrange, draw_arrangement, show_image
from rlvc.report.figures.explanation import draw_explanation
from rlvc.report.figures.patches import brief, picture_of, title_of
from rlvc.report.figures.style import house_style, new_figure, to_png

__all__ = [
    "Arrangement",
    "arrange",
    "brief",
    "draw_arrangement",
    "draw_explanation",
    "house_style",
    "new_figure",
    "picture_of",
    "show_image",
    "title_of",
    "to_png",
]
