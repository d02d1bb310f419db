"""The scene of the campus: some views of each state, learned from and new."""

from __future__ import annotations

import numpy as np

from rlvc.data.percepts import SINGLE, Percepts
from rlvc.envs.campus.graph_world import AHEAD, CAMPUS, HEADINGS
from rlvc.envs.photos.views import DIVISIONS, Views
from rlvc.report.web.encoding import encode_array, encode_images
from rlvc.report.web.scene import Scene


def draw_scene(views: Views, n_views: int) -> Scene:
    """Return up to ``n_views`` views of each state from either division."""
    percepts = Percepts()
    numbers, labels, states, kinds = [], list[str](), list[int](), list[int]()
    for state in range(views.n_states):
        for kind, name in enumerate(DIVISIONS):
            for i, view in enumerate(views.division(name)[state][:n_views]):
                numbers.append(percepts.add(views.image(state, view)))
                what = "new view" if name == "test" else "view learned from"
                labels.append(f"spot {CAMPUS.name(state)}, {what} {i + 1}")
                states.append(state)
                kinds.append(kind)
    images, camera = encode_images(SINGLE, list(percepts.images[0]), 0)
    good = CAMPUS.is_optimal(
        np.arange(CAMPUS.reward.shape[1])[None], np.arange(CAMPUS.n_states)[:, None]
    )
    about = {
        "kind": "spots", "n_actions": good.shape[1], "places": CAMPUS.places,
        "links": CAMPUS.links, "goal": CAMPUS.goal, "headings": HEADINGS, "ahead": AHEAD,
        "state": states, "is_new": kinds, "good": encode_array(good),
    }  # fmt: skip
    return Scene(percepts, percepts.table()[numbers], labels, images, [camera], about)
