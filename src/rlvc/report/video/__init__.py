"""Videos of a policy that acts in an environment: frames and files."""

from rlvc.report.video.canvas import Box, Canvas
from rlvc.report.video.frames import EpisodeStep, draw_frame
from rlvc.report.video.play import play
from rlvc.report.video.write import check_video, write_video

__all__ = ["Box", "Canvas", "EpisodeStep", "check_video", "draw_frame", "play", "write_video"]
