"""From the files of a run to tidy data: one module per kind of file.

Readers accept compressed files (see `files`) and truncated ones, and return their content. Missing data is None or
empty.
All times are CLOCK_REALTIME nanoseconds since the epoch unless a name says otherwise.
"""
