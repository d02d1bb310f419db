"""Learn visual control policies from interactions."""

__version__ = "0.1.0"
