"""The car on the hill, shown by two cameras."""
