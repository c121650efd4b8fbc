"""The results table between the markers of the README, from stored runs."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import InputError
from harness.reports import CellResult
from harness.reports.markdown import report

BEGIN, END = "<!-- results -->", "<!-- /results -->"


def with_results(text: str, results: Sequence[CellResult]) -> str:
    """The README's text with its results section made anew. InputError when the markers are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"the README lacks the markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{report(results)}{END}{after}"
