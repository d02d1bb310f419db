"""The car on the hill, seen by two cameras."""
