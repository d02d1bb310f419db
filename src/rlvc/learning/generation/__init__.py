"""Candidate features for aliased classes: the paper's Algorithms 3 and 6."""
