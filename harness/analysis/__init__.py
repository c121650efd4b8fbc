"""What is derived from a run's artefacts and shared by its metrics: passages and the ideal link, series, connections.

`harness.capture.artefacts` reads files, this package works on what they hold, and `harness.analysis.metrics` says what
is measured.
"""
