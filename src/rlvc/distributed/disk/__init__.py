"""Datasets on disk: interactions and the symbols of their percepts as shards of Parquet files.

``format`` describes the files, ``write`` writes them, and ``read`` and ``dataset`` read them;
``tables`` handles Parquet, ``unique`` fits a metric to distinct descriptors. Modules here import
from ``learning`` and the layers below it.
"""

from rlvc.distributed.disk.dataset import Dataset, open_dataset
from rlvc.distributed.disk.format import DatasetInfo, is_shards, read_info
from rlvc.distributed.disk.read import ShardData, read_shard
from rlvc.distributed.disk.write import write_dataset

__all__ = [
    "Dataset",
    "DatasetInfo",
    "ShardData",
    "is_shards",
    "open_dataset",
    "read_info",
    "read_shard",
    "write_dataset",
]
