"""Runs that belong beside each other: RED and DropTail on the same path, with the same flows."""

from __future__ import annotations

from harness.outcome import Cell
from harness.scenario.schema import FRAME_HEADER, Red


def is_red(cell: Cell) -> bool:
    """Whether the bottleneck towards the client has RED."""
    return isinstance(cell.scenario.path.to_client.queue, Red)


def beside(red: Cell, other: Cell) -> bool:
    """Whether `other` is what `red` is but for the discipline of the bottleneck's queue; its size is the same."""
    return is_red(red) and not is_red(other) and _but_for_the_queue(red) == _but_for_the_queue(other)


def _but_for_the_queue(cell: Cell) -> object:
    scenario = cell.scenario
    path = scenario.path.model_dump(mode="json", by_alias=True)
    link = "forward" if scenario.path.terminal == "client" else "return"
    del path[link]["queue"]
    packet = scenario.path.mtu + FRAME_HEADER
    held = scenario.path.to_client.held.bytes_at(scenario.path.to_client.rate, scenario.path.rtt, packet)
    asked = {name: value for name, value in cell.parameters.items() if not name.startswith(f"path.{link}.queue")}
    flows = [flow.model_dump(mode="json") for flow in scenario.flows]
    return path, held, flows, asked, cell.client.name, cell.server.name, cell.engine, cell.seed
