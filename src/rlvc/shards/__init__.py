"""Interactions, and the symbols that were seen, as shards on disk: Parquet files in a folder."""
