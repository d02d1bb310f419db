"""Figures of what was learned."""
