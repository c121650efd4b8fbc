"""The rows of one path: TCP without a proxy, behind each of the document's, and QUIC."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.outcome import Interval
from harness.results import CellResult
from harness.stats import interval
from harness.studies import stored_of
from harness.studies.in_sequence.claims import PROXIES, SIZES, Path

_SETTINGS = ("tcp_wmem_max", "tcp_rmem_max", "initial_cwnd")


@dataclass(frozen=True)
class Row:
    """One configuration of a path."""

    name: str
    """As people call it: no proxy (cubic), proxy A, picoquic → picoquic."""
    kind: str
    """end to end, split, quic."""
    result: CellResult

    def seconds(self, size: str) -> Interval | None:
        """From the client's first packet until so much had come."""
        return self.result.interval(f"milestone_{size}", 0, "first")

    def since_data(self, size: str) -> Interval | None:
        """From the first byte of the data until so much had come; endless where it did not come in time."""
        found = []
        for _, measured in self.result.runs:
            came = None if measured is None else measured.value(f"milestone_{size}", 0, "first")
            first = None if measured is None else measured.value("first_byte", 0, "first")
            if came is not None and first is not None:
                found.append(came - first)
        missing = len(self.result.values(f"milestone_{size}", 0, "first")) - len(found)
        return interval([*found, *[math.inf] * missing]) if found or missing else None


def rows(results: Sequence[CellResult], path: Path) -> list[Row]:
    """The rows of a path, in virtual time."""
    mine = {name: [one for one in stored_of(results, name) if one.cell.engine == "virtual"] for name in path.scenarios}
    return [
        *_end_to_end(mine[path.end_to_end]), *_split(mine[path.split]),
        *(Row(" → ".join((one.cell.client.name, one.cell.server.name)), "quic", one) for one in mine[path.quic]),
    ]  # fmt: skip


def _end_to_end(results: Sequence[CellResult]) -> Iterator[Row]:
    for one in results:
        algorithm = one.cell.parameters.get("flow0.server.congestion_control", "cubic")
        yield Row(f"TCP, no proxy ({algorithm})", "end to end", one)


def _split(results: Sequence[CellResult]) -> Iterator[Row]:
    for name, (send, receive, window) in PROXIES.items():
        for one in results:
            asked = [str(one.cell.parameters.get(f"path.proxy.{setting}")) for setting in _SETTINGS]
            if asked == [send, receive, window]:
                yield Row(f"TCP, proxies {name}", "split", one)


def bounds(row: Row) -> dict[str, float]:
    """Size → objective, s."""
    found = {one.metric.removeprefix("milestone_"): one for one in row.result.cell.scenario.objectives}
    return {size: found[size].bound for size in SIZES if size in found}


def met(row: Row, spans: dict[str, Interval | None]) -> list[str]:
    """The sizes whose median is within the objective."""
    limits = bounds(row)
    return [size for size, span in spans.items() if span is not None and span.median <= limits.get(size, -1)]
