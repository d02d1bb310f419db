"""Open a dataset of shards: as a database, or one shard at a time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlvc._core.arrays import Ints
from rlvc._core.atomic import Pathlike
from rlvc._core.validate import explain_invalid, require
from rlvc.data.interactions import Interactions
from rlvc.data.io.image_files import FileImages
from rlvc.data.percepts import Percepts
from rlvc.distributed.disk.format import FILE, VOCABULARY, DatasetInfo, file_of, read_info
from rlvc.distributed.disk.read import read_index, read_interactions, read_percepts
from rlvc.distributed.disk.tables import IMAGES, read_bytes, read_table
from rlvc.features.io import symbols_of
from rlvc.learning.database import Database
from rlvc.vision.extractor import FeatureExtractor
from rlvc.vision.io import load_vocabulary


@dataclass(frozen=True, slots=True)
class Dataset:
    """Interactions and the symbols of their images, on disk.

    Attributes:
        folder: The folder of the dataset.
        info: The content of its ``dataset.json``.
    """

    folder: Path
    info: DatasetInfo

    def interactions(self) -> Interactions:
        """Return all interactions; images stay in their files and are read when needed."""
        info = self.info
        columns = [
            read_interactions(self.folder, number, info) for number in range(len(info.shards))
        ]
        joined = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
        stuck = joined.pop("stuck")
        with explain_invalid(self.folder / FILE, "valid dataset"):
            for before, after in itertools.pairwise(columns):  # shards have whole episodes
                require(before["episode"][-1] != after["episode"][0], "episodes")
            found = Interactions(
                percepts=Percepts.of(self._images(), self._table()),
                n_actions=info.n_actions,
                action_start=info.action_start,
                action_names=info.action_names,
                **joined,
            )
            require(np.array_equal(found.is_stuck, stuck), "interactions")
            require(len(np.unique(found.episode)) == info.episodes, "episodes")
        return found

    def extractor(self) -> FeatureExtractor:
        """Return the feature extractor, with its vocabularies."""
        path = self.folder / VOCABULARY
        read_bytes(path, self.info.vocabulary)
        extractor = load_vocabulary(path)
        with explain_invalid(path, "vocabulary of this dataset"):
            n_symbols = {camera.name: camera.symbols for camera in self.info.cameras}
            require(symbols_of(extractor) == n_symbols, "symbols")
        return extractor

    def database(self) -> Database:
        """Return the database, from which the same policy is learned as from the images."""
        extractor, interactions = self.extractor(), self.interactions()
        wanted = [np.arange(camera.images) for camera in self.info.cameras]
        index = read_index(self.folder, self.info, wanted, interactions.percepts.table())
        return Database.of(interactions, index, extractor)

    def _table(self) -> Ints:
        """Return (n_percepts, n_cameras) the numbers of the images that make up each percept."""
        table = np.full((self.info.percepts, len(self.info.cameras)), -1, np.int64)
        for number in range(len(self.info.shards)):
            percept, images, is_first = read_percepts(self.folder, number, self.info)
            with explain_invalid(self.folder / file_of("percepts", number), "shard"):
                require(np.array_equal(table[percept, 0] < 0, is_first), "percepts")
                require(np.array_equal(table[percept[~is_first]], images[~is_first]), "percepts")
            table[percept] = images
        require(table.min() >= 0 and len(np.unique(table, axis=0)) == len(table), "percepts")
        return table

    def _images(self) -> list[FileImages]:
        """Return the images of all cameras, which stay in their files."""
        found = []
        for number, camera in enumerate(self.info.cameras):
            paths, digests = list[str | None](), list[bytes]()
            for file, _, block in self.info.blocks_of(number):
                path = self.folder / file_of("images", file)
                columns = read_table(path, IMAGES, block.images, ["path", "digest", "symbols"])
                paths += columns["path"].tolist()
                with explain_invalid(path, "block of images"):
                    require(columns["symbols"].sum() == block.symbols.rows, "symbols")
                    digests += map(bytes.fromhex, columns["digest"].tolist())
            images = FileImages(camera.name, self.folder, camera.shape, digests, paths)
            require(len(images) == camera.images, "images")
            found.append(images)
        return found


def open_dataset(folder: Pathlike) -> Dataset:
    """Open a folder of shards.

    Raises:
        FileFormatError: It is not a dataset, is damaged, or was written by a newer rlvc.
    """
    return Dataset(Path(folder), read_info(folder))
