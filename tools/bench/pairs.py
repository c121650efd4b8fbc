"""Every client with every server that is here, twice in virtual time: which pairs are the same to the last byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.execution import App, Options
from harness.execution.events import Listener
from harness.execution.matrix import Request
from harness.outcome import Run
from harness.scenario.parameters import Role
from harness.scenario.schema import Implementation
from harness.store.run_comparison import differing_digests
from tools.bench.session import scenario


@dataclass(frozen=True)
class PairRepeat:
    """A pair's run and its repetition."""

    client: str
    server: str
    runs: tuple[Run, Run]
    parts: tuple[str, ...]
    """Where they part: captures by their side, random streams by their endpoint; nothing when they do not."""


def pairs_repeat(app: App, folder: Path, jobs: int, listen: Listener) -> list[PairRepeat]:
    """Run all pairs twice, 2 MB with 1 % of loss each way. Pairs that have no protocol in common are left out."""
    lossy = scenario("pairs", "20 Mbit/s", "5 Mbit/s", delay="20 ms", size="2 MB", loss="1 %")
    request = Request(
        [lossy], _here(app, "client"), _here(app, "server"), engine="virtual", sim_kernel="lab", repetitions=1
    )
    passes = []
    for name in ("first", "again"):
        own = App(replace(app.paths, store=folder / name))
        results = own.run(request, Options(jobs=jobs), listen)
        passes.append({result.cell.key: result.runs[0][0] for result in results if result.runs})
    return [
        PairRepeat(run.cell.client.name, run.cell.server.name, (run, again), differing_digests(run, again))
        for key, run in passes[0].items()
        if run.outcome.status != "unsupported" and (again := passes[1].get(key)) is not None
    ]


def _here(app: App, role: Role) -> Sequence[Implementation]:
    """Who can play a role on this machine."""
    return app.catalogue.find_implementations("all", role, app.inventory.unavailable())
