"""Policies: what is learned, how it acts and explains itself, and how it is saved."""
