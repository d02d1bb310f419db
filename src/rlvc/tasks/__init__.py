"""The paper's tasks: run, measure, compare."""
