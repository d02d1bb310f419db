"""The campus: its environment, dynamics and drawing."""
