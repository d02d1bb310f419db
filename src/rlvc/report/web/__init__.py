"""The page of a run: its data, in JSON, and its scripts and styles, in ``assets``.

``PageBuilder`` computes the data from the folder of a run, and ``RunPage`` keeps them up to date
while the run is in progress.
"""

from rlvc.report.web.data import PageBuilder
from rlvc.report.web.encoding import encode_array, encode_image, encode_images
from rlvc.report.web.scene import Scene
from rlvc.report.web.watch import RunPage

__all__ = ["PageBuilder", "RunPage", "Scene", "encode_array", "encode_image", "encode_images"]
