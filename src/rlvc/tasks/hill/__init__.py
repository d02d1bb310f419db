"""The hill: its task, measures, figures and scene."""
