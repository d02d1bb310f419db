"""A picture of how a forest votes on one percept, and of what decided."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from rlvc.data.percepts import Percept
from rlvc.policies.forest import ForestPolicy
from rlvc.policies.votes import Vote
from rlvc.report.figures.explanation import draw_images, draw_patches, draw_values
from rlvc.report.figures.style import house_style, new_figure


def draw_vote(policy: ForestPolicy, percept: Percept, vote: Vote) -> Figure:
    """Draw the percept with the most decisive features, what they are worth, and the vote."""
    shown = vote.shown()
    with house_style():
        figure = new_figure(10.5, 6.4)
        layout = GridSpec(1, 2, figure, width_ratios=(1.0, 1.05))
        draw_images(figure, layout, policy, percept, [(rank, one.test) for rank, one in shown])
        right = layout[1].subgridspec(2, 1, height_ratios=(4.2, 1.2))
        axes = figure.add_subplot(right[0])
        axes.set_title(f"What the lead of {vote.lead:.1f} is due to: the most decisive features")
        cells = [
            (rank, one.test, f"\n{one.gain:+.1f}, {_trees(one.n_trees)}") for rank, one in shown
        ]
        draw_patches(axes, policy, cells)
        notes = [f"{n} of {vote.ballots.sum()} trees" for n in vote.ballots]
        draw_values(figure, right, vote, "Mean values of the actions, and the vote", notes)
        return figure


def _trees(n: int) -> str:
    return f"{n} tree{'s' if n > 1 else ''}"
