"""From interactions to a database: extract the keypoints of their percepts, and find symbols."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rlvc.data.interactions import Interactions
from rlvc.features.graph import FeatureGraph
from rlvc.features.index import FeatureIndex
from rlvc.learning.database import Database
from rlvc.learning.engine import Engine
from rlvc.vision.cache import ExtractionCache
from rlvc.vision.extractor import FeatureExtractor

log = logging.getLogger(__name__)


def extract_database(
    interactions: Interactions,
    extractor: FeatureExtractor,
    engine: Engine,
    threads: int,
    graph: FeatureGraph | None = None,
    cache: ExtractionCache | None = None,
    on_image: Callable[[], None] | None = None,
) -> Database:
    """Return the database of interactions: which percept exhibits which symbol.

    Args:
        interactions: What to learn from.
        extractor: Extracts keypoints and knows symbols; it learns new ones.
        engine: Where keypoints are extracted.
        threads: How many threads to use; 0 for all cores.
        graph: The features known already.
        cache: Keypoints extracted before; images in it are not processed again.
        on_image: Called after each image.
    """
    percepts = interactions.percepts
    keypoints = (cache or ExtractionCache()).extract(
        extractor, percepts, threads, on_image, engine.extract
    )
    found = extractor.find_symbols(percepts, keypoints, threads)
    index = FeatureIndex.of((graph or FeatureGraph()).add_symbols(extractor), percepts, found)
    if len(index.incidence.indices) == 0:
        log.warning("No percept has an interest point: all look the same to this detector.")
    if not interactions.reward.any():
        log.warning("All rewards are zero: nothing distinguishes one action from another.")
    if interactions.n_actions == 1:
        log.warning("There is only one action: whatever is seen, it will be taken.")
    if len(percepts) == 1:
        log.warning("There is only one percept: the policy will always do the same.")
    return Database.of(interactions, index, extractor)
