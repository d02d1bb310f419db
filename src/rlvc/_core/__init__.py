"""Building blocks that know nothing of reinforcement learning: arrays, threads, files."""
