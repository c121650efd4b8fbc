"""`harness compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.consoles import json_all_the_same, paper, print_json, print_markdown
from harness.cli.environment import open_app
from harness.cli.exits import FAILED, NOTHING
from harness.cli.options import AsJson, AsMarkdown, Clients, Servers, StoredScenarios, StoreFolder
from harness.cli.stored import stored_cells
from harness.cli.words import tolerance_of


def compare(
    scenarios: StoredScenarios = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    within: Annotated[str, typer.Option(help="Difference of the medians up to which the engines agree.")] = "3%",
    markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> None:
    """Compare the two engines over stored runs of the same cells: medians, differences, and what explains them.

    The exit code is 1 when engines disagree and nothing measured explains it, 5 when there is nothing to compare.
    """
    from harness.report import compare_views
    from harness.report.compare import comparisons

    tolerance = tolerance_of("--within", within)
    with json_all_the_same(as_json, lambda: compare_views.report([])):
        compared = comparisons(stored_cells(open_app(store), scenarios, clients, servers), within=tolerance)
    if as_json:
        print_json(compare_views.report(compared))
    elif markdown:
        print_markdown(compare_views.markdown(compared))
    else:
        compare_views.show(compared, paper())
    if all(item.within is None for item in compared):
        raise typer.Exit(NOTHING)
    if any(item.within is False and item.reason == "not_explained" for item in compared):
        raise typer.Exit(FAILED)
