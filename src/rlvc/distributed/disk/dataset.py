"""A dataset of shards, opened: all of it as a database, or one shard at a time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlvc._core.atomic import Pathlike
from rlvc._core.validate import explain_invalid, require
from rlvc.data.interactions import Interactions
from rlvc.data.io.image_files import FileImages
from rlvc.data.percepts import Percepts
from rlvc.distributed.disk.format import FILE, VOCABULARY, About, file_of, read_about
from rlvc.distributed.disk.read import (
    ShardData,
    read_interactions,
    read_percepts,
    read_shard,
    read_symbols,
)
from rlvc.distributed.disk.tables import IMAGES, TableReader, read_piece
from rlvc.errors import FileFormatError
from rlvc.features.graph import FeatureGraph
from rlvc.features.index import FeatureIndex
from rlvc.learning.database import Database
from rlvc.vision.detectors import InterestPoints
from rlvc.vision.extractor import FeatureExtractor, SymbolOccurrences
from rlvc.vision.io import load_vocabulary


@dataclass(frozen=True, slots=True)
class Dataset:
    """Interactions on disk, and what was seen on their images.

    Attributes:
        folder: Where they are.
        about: What there is.
    """

    folder: Path
    about: About

    def shard(self, number: int) -> ShardData:
        """Return one shard as arrays; see :func:`rlvc.distributed.disk.read.read_shard`."""
        return read_shard(self.folder, number, self.about)

    def interactions(self) -> Interactions:
        """Return all interactions; images stay in their files, and are read when asked for."""
        about = self.about
        columns = [
            read_interactions(self.folder, number, about) for number in range(len(about.shards))
        ]
        joined = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
        stuck = joined.pop("stuck")
        with explain_invalid(self.folder / FILE, "sound dataset"):
            for before, after in itertools.pairwise(columns):  # workers take them for whole ones
                require(before["episode"][-1] != after["episode"][0], "episodes")
            found = Interactions(
                percepts=Percepts.of(self._images(), self._table()),
                n_actions=about.n_actions,
                action_start=about.action_start,
                action_names=about.action_names,
                **joined,
            )
            require(np.array_equal(found.is_stuck, stuck), "interactions")
            require(len(np.unique(found.episode)) == about.episodes, "episodes")
        return found

    def extractor(self) -> FeatureExtractor:
        """Return who looked, and all that it knows."""
        if self.about.vocabulary is None:
            raise FileFormatError(
                f"{self.folder} has no vocabulary: it was written for workers that know it. Make "
                "a dataset from the images with: rlvc data shard"
            )
        path = self.folder / VOCABULARY
        read_piece(path, self.about.vocabulary)
        extractor = load_vocabulary(path)
        with explain_invalid(path, "vocabulary of this dataset"):
            n_symbols = {name: words.n_symbols for name, words in extractor.vocabularies.items()}
            require(n_symbols == {one.name: one.symbols for one in self.about.cameras}, "symbols")
        return extractor

    def database(self) -> Database:
        """Return what a learner takes; it learns what it would from the images themselves."""
        extractor, interactions = self.extractor(), self.interactions()
        seen = [self._seen(camera) for camera in range(len(self.about.cameras))]
        graph = FeatureGraph().add_symbols(extractor)
        index = FeatureIndex.of(graph, interactions.percepts, seen)
        return Database.of(interactions, index, extractor)

    def _seen(self, camera: int) -> SymbolOccurrences:
        """Return what all images of a camera show."""
        wanted = np.arange(self.about.cameras[camera].images)
        found = read_symbols(self.folder, camera, self.about, wanted)
        n = len(found.symbol)
        xy = np.column_stack([found.x, found.y])
        points = InterestPoints(xy, found.scale, found.angle, np.zeros(n, np.int32))
        return SymbolOccurrences(found.begin, found.symbol, np.arange(n, dtype=np.int32), points)

    def _table(self) -> NDArray[np.int64]:
        """Return the (n_percepts, n_cameras) images of all percepts."""
        table = np.full((self.about.percepts, len(self.about.cameras)), -1, np.int64)
        for number in range(len(self.about.shards)):
            percept, images, is_first = read_percepts(self.folder, number, self.about)
            with explain_invalid(self.folder / file_of("percepts", number), "shard"):
                require(np.array_equal(table[percept, 0] < 0, is_first), "percepts")
                require(np.array_equal(table[percept[~is_first]], images[~is_first]), "percepts")
            table[percept] = images
        require(table.min() >= 0 and len(np.unique(table, axis=0)) == len(table), "percepts")
        return table

    def _images(self) -> list[FileImages]:
        """Return the images of every camera, which stay in their files."""
        found = []
        for number, camera in enumerate(self.about.cameras):
            paths, digests = list[str | None](), list[bytes]()
            for file, block in self.about.blocks_of(number):
                path = self.folder / file_of("images", file)
                columns = TableReader(path, IMAGES, block.images).read(["path", "digest"])
                paths += columns["path"].tolist()
                with explain_invalid(path, "block of images"):
                    digests += map(bytes.fromhex, columns["digest"].tolist())
            images = FileImages(camera.name, self.folder, camera.shape, digests, paths)
            require(len(images) == camera.images, "images")
            found.append(images)
        return found


def open_dataset(folder: Pathlike) -> Dataset:
    """Open a folder of shards.

    Raises:
        FileFormatError: It is none, or is damaged, or was written by a newer rlvc.
    """
    return Dataset(Path(folder), read_about(folder))
