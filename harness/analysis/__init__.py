"""Data derived from a run's artefacts and shared by its metrics: passages and the ideal link, series, connections.

`harness.capture.artefacts` reads files, this package evaluates their contents, and `harness.analysis.metrics` defines
the metrics.
"""
