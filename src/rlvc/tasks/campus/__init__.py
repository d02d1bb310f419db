"""The campus: its task, measures, figures and scene."""
