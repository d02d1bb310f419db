"""The campus: its evaluation, figures and map."""
