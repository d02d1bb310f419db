"""The car on the hill: its evaluation, figures and map."""
