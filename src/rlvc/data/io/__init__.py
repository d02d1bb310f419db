"""Files of interactions: folders of images with a table, Minari datasets, NumPy archives."""

from rlvc.data.io.folder import read_folder, write_folder
from rlvc.data.io.image_files import FileImages
from rlvc.data.io.minari import read_minari, write_minari
from rlvc.data.io.npz import read_arrays

__all__ = [
    "FileImages",
    "read_arrays",
    "read_folder",
    "read_minari",
    "write_folder",
    "write_minari",
]
