"""Interactions and what they are made of: images, percepts, observations, actions."""
