"""Reports of a run and its policy: a page, figures and videos.

``figures`` draws patches, features and explanations; ``video`` records a policy in an environment;
``web`` computes the data of the page of a run, which ``page`` renders and ``server`` serves.
Modules here import from ``runs`` and the layers below it.
"""

from rlvc.report.page import render, to_json
from rlvc.report.server import Content, Server

__all__ = ["Content", "Server", "render", "to_json"]
