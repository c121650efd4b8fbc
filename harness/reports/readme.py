"""The parts of pages that are generated from the model and from stored runs, between markers."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import InputError
from harness.model import Implementation
from harness.reports import CellResult, compare_views, defaults, grid, vocabulary
from harness.reports.compare import comparisons
from harness.reports.markdown import report, summary

#: Scenarios whose tables stand in the README itself.
SHOWN = ("satellite/medium",)
#: The scenario in which everyone meets everyone; it stands there as a grid.
EVERYONE = "interop/medium-10mb"


def between(text: str, name: str, content: str, page: str) -> str:
    """A page's text with what stands between two markers made anew. InputError when they are missing."""
    before, begin, rest = text.partition(f"<!-- {name} -->")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise InputError(f"{page} lacks the markers <!-- {name} --> and <!-- /{name} -->")
    return f"{before}{begin}\n{content}{end}{after}"


def with_results(text: str, results: Sequence[CellResult], claims: str) -> str:
    """The README's text with its results section made anew, the studies' claims below. InputError without markers."""
    shown = [result for result in results if result.cell.scenario.name in SHOWN]
    everyone = [result for result in results if result.cell.scenario.name == EVERYONE]
    content = f"{summary(results)}\n{grid.markdown(everyone)}\n{report(shown)}\n{claims}"
    return between(text, "results", content, "the README")


def with_parameters(text: str, implementations: Sequence[Implementation], results: Sequence[CellResult]) -> str:
    """The text of images/PARAMETERS.md with the vocabulary and the defaults made anew."""
    page = "images/PARAMETERS.md"
    known = [item for item in implementations if item.parameters]
    made = defaults.defaults(known, defaults.observations(results))
    return between(between(text, "parameters", vocabulary.markdown(), page), "defaults", defaults.markdown(made), page)


def reference_page(results: Sequence[CellResult]) -> str:
    """The page with every table, beside the runs themselves."""
    head = (
        "# Reference runs\n\nThe runs behind the README: run.json and measured.json of each, without their artefacts. "
        "This page is generated\n(`make generate`).\n\n"
    )
    both = f"## Real time against virtual time\n\n{compare_views.markdown(comparisons(results))}"
    return f"{head}{summary(results)}\n{report(results)}\n{both}"
