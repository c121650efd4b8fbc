"""What the documents behind the scenarios report, beside what stored runs measured: docs/documents.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.reports import CellResult
from harness.reports.documents.background import background
from harness.reports.documents.fairness import fairness, links
from harness.reports.documents.queues import queues
from harness.reports.documents.satellite import satellite
from harness.reports.documents.sharing import sharing


def page(results: Sequence[CellResult], figures: Mapping[str, str]) -> str:
    """The whole page. `figures`: a section's name → Markdown of its figures."""
    head = (
        "# What the documents report, and what this lab measures\n\n"
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md); the "
        "figures are made\nfrom the same store (`harness plot`).\n"
    )
    parts = [
        ("satellite", satellite),
        ("sharing", sharing),
        ("background", background),
        ("queues", queues),
        ("fairness", fairness),
        ("links", links),
    ]
    return "\n".join([head, *(f"{part(results)}\n{figures.get(name, '')}" for name, part in parts)]).rstrip() + "\n"
