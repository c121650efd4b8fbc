"""Reproducibility: whether runs come out the same with changed code, on another machine, or twice in a row."""
