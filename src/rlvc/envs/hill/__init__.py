"""The car on the hill: its environment, dynamics, images and drawing."""
