"""The maze and the subway: their tasks, measures, figures and scenes."""
