"""Programs for those who change the code. None of them is installed."""
