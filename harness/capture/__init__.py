"""From the files a run leaves behind to tidy data: one module per kind of file.

Readers accept a file that was compressed (see `files`) or cut short and return what is in it; what is absent is None or
empty.
All times are CLOCK_REALTIME nanoseconds since the epoch unless a name says otherwise.
"""
