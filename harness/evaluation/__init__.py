"""From measurements to answers: verdicts, results of cells, rankings, and regressions against a baseline."""
