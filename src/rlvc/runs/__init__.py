"""Runs: learning with checkpoints, curves, resource estimates and a folder of results."""
