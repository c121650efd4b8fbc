"""Each pair's page load on each path: over QUIC, over TCP, and over TCP that proxies split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from harness.planning.endpoint_config import application_protocol
from harness.report.studies import measured_cells
from studies.web.claims import BESIDE, PATHS, SPLIT


@dataclass(frozen=True)
class PageLoad:
    """One pair on one path."""

    scenario: str
    """That of the path; for TCP that is split, the one beside which it stands."""
    pair: str
    kind: str
    """QUIC, TCP, or TCP with proxies."""
    protocol: str
    runs: int
    load: Interval
    """s."""
    byte_index: Interval | None
    styled: Interval | None
    """Until the styles are there, s."""
    priorities: bool
    """Whether the server's manifest claims that it honours them."""


def page_loads_of(results: Sequence[CellResult]) -> list[PageLoad]:
    """Every pair that loaded the page, by path, the fastest first."""
    loads = [
        load
        for scenario in (*PATHS, SPLIT)
        for result in measured_cells(results, scenario)
        if result.cell.virtual_time and (load := _page_load(result)) is not None
    ]
    order = list(PATHS)
    return sorted(loads, key=lambda load: (order.index(load.scenario), load.load.median, load.pair))


def _page_load(result: CellResult) -> PageLoad | None:
    cell = result.cell
    load = result.interval("page_load", 0, "first")
    if load is None:
        return None
    protocol = application_protocol(cell, 0)
    client, server = (cell.implementation(role, 0) for role in ("client", "server"))
    pair, kind = f"{client.name} → {server.name}", "TCP" if protocol == "h2" else "QUIC"
    if cell.scenario.name == SPLIT:
        pair += f", proxies with {cell.parameters['path.proxy.initial_cwnd']} packets"
        kind = "TCP with proxies"
    return PageLoad(
        scenario=BESIDE if cell.scenario.name == SPLIT else cell.scenario.name,
        pair=pair,
        kind=kind,
        protocol=protocol,
        runs=len(result.values("page_load", 0, "first")),
        load=load,
        byte_index=result.interval("byte_index", 0, "first"),
        styled=result.interval("loaded_style", 0, "first"),
        priorities=server.priorities,
    )
