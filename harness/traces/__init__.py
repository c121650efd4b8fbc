"""From the files a run leaves behind to tidy data: one module per kind of file.

Readers accept a truncated or gzip-compressed file and return what is in it; what is absent is None or empty.
All times are CLOCK_REALTIME nanoseconds since the epoch unless a name says otherwise.
"""
