"""The images of one shard as generators ask for them, and which percepts exhibit new features."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from rlvc._core.arrays import Bools, Ints
from rlvc._core.jit import share_threads
from rlvc.features.incidence import Incidence
from rlvc.features.index import FeatureIndex
from rlvc.features.kinds import Feature
from rlvc.features.occurrences import Found, OccurrenceTable
from rlvc.learning.generation.cells import count_cells
from rlvc.learning.generation.class_images import ClassImages, FeatureBlock, assemble, spans_of
from rlvc.learning.generation.composites import NewFeatures, may_be_part
from rlvc.learning.generation.sampling import CellCounts, Sample, ShardSample


@dataclass(frozen=True, slots=True)
class ClassifiedPercepts:
    """The percepts of a shard as a classifier shows them.

    Attributes:
        number: Tells this view from others.
        classes: (n_percepts,) the visual class of each percept.
        n_classes: How many classes there are.
        index: What the percepts show of the features known then.
        threads: How many threads to use.
    """

    number: int
    classes: Ints
    n_classes: int
    index: FeatureIndex
    threads: int


@dataclass(slots=True)
class ShardFeatures:
    """Answer what generators ask about the images of a shard; what was worked out is kept.

    Attributes:
        table: (n_percepts, n_cameras) the images that make up each percept.
        numbers: For each camera, the number of each image in the whole database.
        n_images: For each camera, how many images the whole database has.
    """

    table: Ints
    numbers: tuple[Ints, ...]
    n_images: tuple[int, ...]
    _ranks: tuple[int, list[Ints]] = (-1, [])
    _parts: dict[int, Feature] = field(default_factory=dict)
    _found: dict[int, Found] = field(default_factory=dict)
    _places: tuple[OccurrenceTable, ...] = ()
    _images: dict[int, tuple[tuple[int, tuple[int, ...]], int, ClassImages]] = field(
        default_factory=dict
    )
    _blocks: dict[int, dict[int, FeatureBlock]] = field(default_factory=dict)

    def sample(
        self, seen: ClassifiedPercepts, wanted: list[int], camera: int, seed: int, height: int
    ) -> Sample:
        """Return the images of some classes in the order that a seed draws; nothing is copied."""
        images = self._images_of(seen, wanted, camera, seed)
        return Sample(images.begin, images.image, self._places_of(seen.index, height)[camera])

    def cut_sample(
        self,
        seen: ClassifiedPercepts,
        wanted: list[int],
        camera: int,
        seed: int,
        most: int,
        height: int,
    ) -> ShardSample:
        """Return the first images of some classes in that order, to be merged with others."""
        sample = self.sample(seen, wanted, camera, seed, height)
        return ShardSample.cut(sample, self._draw(seed)[camera], most)

    def count_cells(
        self, seen: ClassifiedPercepts, wanted: list[int], camera: int, levels: int, height: int
    ) -> CellCounts:
        """Return how many images some classes have, and how many show what in which cell."""
        images = self._images_of(seen, wanted, camera)
        places = self._places_of(seen.index, height)[camera]
        is_part = may_be_part(seen.index.graph, height)
        work = partial(count_cells, images, places, is_part, levels)
        found = share_threads(work, spans_of(images.begin, seen.threads), seen.threads)
        return CellCounts(np.diff(images.begin), np.concatenate(found))

    def exhibit(
        self, seen: ClassifiedPercepts, new: NewFeatures, is_open: Bools
    ) -> list[Incidence]:
        """Return which percepts exhibit new features, numbered after the known ones."""
        n = n_known = len(seen.index.graph)
        wanted = np.flatnonzero(is_open).tolist()
        every_place, found = self._places_of(seen.index, new.height), list[Incidence]()
        for number, kind in enumerate(new.kinds):
            blocks = self._blocks.get(number, {})
            kept = set(kind.kept)
            blocks = self._blocks[number] = {i: one for i, one in blocks.items() if i in kept}
            missing = [i for i, name in enumerate(kind.numbers) if name not in blocks]
            if missing:
                images = self._images_of(seen, [wanted[i] for i in missing], kind.camera)
                features, places = [kind.features[i] for i in missing], every_place[kind.camera]
                made = images.exhibit(features, places, n_known, seen.threads)
                blocks |= {kind.numbers[i]: one for i, one in zip(missing, made, strict=True)}
            ours = [blocks[name] for name in kind.numbers]
            found.append(assemble(ours, len(seen.classes), n))
            n = found[-1].n_features
        return found

    def _images_of(
        self, seen: ClassifiedPercepts, wanted: list[int], camera: int, seed: int = -1
    ) -> ClassImages:
        """Return the images of some classes, in the order of a seed unless that is negative.

        What is composed of the images of classes is looked for on the same images next.
        """
        key = seen.number, tuple(wanted)
        known, order, images = self._images.get(camera, (None, -1, None))
        if images is None or known != key or seed not in (-1, order):
            rank = self._draw(seed)[camera] if seed >= 0 else np.arange(len(self.numbers[camera]))
            image = self.table[:, camera]
            images = ClassImages.of(seen.classes, seen.n_classes, wanted, image, rank)
            self._images[camera] = key, seed, images
        return images

    def _draw(self, seed: int) -> list[Ints]:
        """Return the rank of each image in a random order of all images."""
        if self._ranks[0] != seed:
            rng = np.random.default_rng(seed)
            ranks = (np.argsort(rng.permutation(n)) for n in self.n_images)
            numbered = zip(ranks, self.numbers, strict=True)
            self._ranks = seed, [rank[numbers] for rank, numbers in numbered]
        return self._ranks[1]

    def _places_of(self, index: FeatureIndex, height: int) -> tuple[OccurrenceTable, ...]:
        """Return where features that may be parts of composites occur."""
        if height == 1:
            return index.places
        graph = index.graph
        numbers = np.flatnonzero(may_be_part(graph, height)).tolist()
        parts = {n: graph[n] for n in numbers if graph.height[n] > 0}
        if not self._places or parts != self._parts:
            if not self._parts.items() <= parts.items():  # of another run: numbers mean others
                self._found = {}
            self._parts, self._places = parts, index.places_of(numbers, self._found)
        return self._places
