"""Interactions, and the symbols that were seen, as shards on disk: Parquet files in a folder."""

from rlvc.distributed.disk.dataset import Dataset, open_dataset
from rlvc.distributed.disk.format import About, is_shards, read_about
from rlvc.distributed.disk.read import ShardData, ShardImages, read_shard
from rlvc.distributed.disk.stream import Telling, write_dataset
from rlvc.distributed.disk.write import write_shards

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
