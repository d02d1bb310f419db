"""Pictures of what was learned, made to be put in a paper."""
