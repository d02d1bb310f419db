"""Reinforcement learning on the mapped MDP."""
