"""The results table between the markers of the README, from stored runs."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import InputError
from harness.reports import CellResult, compare_views
from harness.reports.compare import comparisons
from harness.reports.markdown import report, summary

BEGIN, END = "<!-- results -->", "<!-- /results -->"


#: Scenarios whose tables stand in the README itself.
SHOWN = ("satellite/medium",)


def with_results(text: str, results: Sequence[CellResult]) -> str:
    """The README's text with its results section made anew. InputError when the markers are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"the README lacks the markers {BEGIN} and {END}")
    shown = [result for result in results if result.cell.scenario.name in SHOWN]
    return f"{before}{BEGIN}\n{summary(results)}\n{report(shown)}{END}{after}"


def reference_page(results: Sequence[CellResult]) -> str:
    """The page with every table, beside the runs themselves."""
    head = (
        "# Reference runs\n\nThe runs behind the README: run.json and measured.json of each, without their artefacts. "
        "This page is generated\n(`make generate`).\n\n"
    )
    both = f"## Real time against virtual time\n\n{compare_views.markdown(comparisons(results))}"
    return f"{head}{summary(results)}\n{report(results)}\n{both}"
