"""Vision: from images to interest points, descriptors and symbols.

A *detector* finds interest points and a *descriptor* describes their neighbourhoods; descriptors
that a *metric* finds near are the same symbol of a ``Vocabulary``. ``FeatureExtractor`` puts these
together, ``choose_extractor`` chooses them from the images, and ``ExtractionCache`` extracts
keypoints and remembers them. The registries ``detectors``, ``descriptors`` and ``metrics`` are in
the modules of these names. Modules here import from ``data`` and the layers below it.
"""

from rlvc.vision.auto import BINARY, CAMERA, DRAWN, ExtractorConfig, choose_extractor
from rlvc.vision.cache import ExtractionCache
from rlvc.vision.descriptors import (
    Descriptor,
    Descriptors,
    Invariants,
    JointDescriptor,
    OrbDescriptor,
    SiftDescriptor,
)
from rlvc.vision.detectors import Detector, Harris, InterestPoints, Orb, Sift
from rlvc.vision.extractor import FeatureExtractor, SymbolOccurrences
from rlvc.vision.io import load_vocabulary, save_vocabulary
from rlvc.vision.keypoints import KeypointBuffer, Keypoints
from rlvc.vision.metrics import Euclidean, Hamming, Mahalanobis, Metric
from rlvc.vision.patches import Patches
from rlvc.vision.search import Search, make_search
from rlvc.vision.vocabulary import Vocabulary

__all__ = [
    "BINARY",
    "CAMERA",
    "DRAWN",
    "Descriptor",
    "Descriptors",
    "Detector",
    "Euclidean",
    "ExtractionCache",
    "ExtractorConfig",
    "FeatureExtractor",
    "Hamming",
    "Harris",
    "InterestPoints",
    "Invariants",
    "JointDescriptor",
    "KeypointBuffer",
    "Keypoints",
    "Mahalanobis",
    "Metric",
    "Orb",
    "OrbDescriptor",
    "Patches",
    "Search",
    "Sift",
    "SiftDescriptor",
    "SymbolOccurrences",
    "Vocabulary",
    "choose_extractor",
    "load_vocabulary",
    "make_search",
    "save_vocabulary",
]
