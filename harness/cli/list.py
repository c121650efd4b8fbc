"""`harness list`."""

from __future__ import annotations

from harness.cli.consoles import paper, print_json
from harness.cli.environment import open_app
from harness.cli.options import AsJson, Manifests


def list_(as_json: AsJson = False, manifest: Manifests = None) -> None:
    """List the scenarios and the implementations."""
    from harness.reports import json_report, listing

    app = open_app(manifests=manifest)
    scenarios = [app.catalogue.scenario(file) for file in app.catalogue.scenario_files()]
    entries = [
        listing.Entry(item, here, None if here else app.inventory.why_absent(item))
        for item, _ in app.catalogue.implementations().values()
        for here in [app.inventory.has(item)]
    ]
    if as_json:
        print_json(json_report.catalogue(scenarios, entries))
    else:
        listing.show(scenarios, entries, paper())
