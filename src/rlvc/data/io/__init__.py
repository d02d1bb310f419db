"""Where interactions come from other than a running environment."""
