"""The maze and the subway: their evaluation, figures and map."""
