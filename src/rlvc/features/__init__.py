"""What a classifier can test, and which percepts exhibit it."""
