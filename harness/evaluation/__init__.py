"""Evaluates measurements: verdicts, results of cells, rankings, and regressions against a baseline."""
