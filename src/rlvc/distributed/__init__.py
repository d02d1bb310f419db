"""The same learning on many machines, and datasets on disk."""
