"""Statistics: intervals, fairness indices and two-sample tests."""
