"""Reinforcement Learning of Visual Classes, box by box."""
