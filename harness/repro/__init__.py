"""Whether the same runs come out again: of changed code, on another machine, or twice in a row."""
