"""Classifiers: from the features of a percept to its visual class."""
