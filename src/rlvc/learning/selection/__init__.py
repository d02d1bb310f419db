"""The feature that best explains the residuals of a class: the paper's Algorithm 4."""
