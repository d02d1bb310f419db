"""Learning on many machines, and datasets on disk.

``Ray`` is the engine whose workers hold the shards of a database and answer the same questions as a
shard in this process. ``disk`` stores datasets as shards of Parquet files. ``partition`` cuts a
database into shards. Modules here import from ``learning`` and the layers below it.
"""

from rlvc.distributed.disk import Dataset, open_dataset, write_dataset
from rlvc.distributed.ray import Ray

__all__ = ["Dataset", "Ray", "open_dataset", "write_dataset"]
