"""Interactions, and the symbols that were seen, as shards on disk: Parquet files in a folder."""

from rlvc.shards.dataset import Dataset, open_dataset
from rlvc.shards.layout import About, is_shards, read_about
from rlvc.shards.looking import Telling, write_dataset
from rlvc.shards.reading import ShardData, ShardImages, read_shard
from rlvc.shards.writing import write_shards

__all__ = [
    "About",
    "Dataset",
    "ShardData",
    "ShardImages",
    "Telling",
    "is_shards",
    "open_dataset",
    "read_about",
    "read_shard",
    "write_dataset",
    "write_shards",
]
