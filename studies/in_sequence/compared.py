"""The rows of one path: TCP and HTTPS without a proxy and behind each of the document's, and QUIC."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from harness.planning.sampling import has_random_path
from harness.report.numbers import number_text
from harness.report.studies import measured_cells
from harness.stats.intervals import interval
from studies.in_sequence.claims import PROXIES, SIZES, Path

#: What tells the document's proxies apart: of a proxy, and of both ends of a connection.
_OF_PROXIES = ("path.proxy.tcp_wmem_max", "path.proxy.tcp_rmem_max", "path.proxy.initial_cwnd")
_OF_ENDS = ("flow0.server.tcp_wmem_max", "flow0.client.tcp_rmem_max", "flow0.server.initial_cwnd")

#: What a row is of: TCP or HTTPS with a connection that is whole, or split; or QUIC.
Kind = Literal["tcp", "tcp split", "https", "https split", "quic"]


@dataclass(frozen=True)
class Row:
    """One configuration of a path."""

    name: str
    """As people call it: no proxy (cubic), proxy A, picoquic → picoquic."""
    kind: Kind
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
    mine = {name: [one for one in measured_cells(results, name) if one.cell.virtual_time] for name in path.scenarios}
    return [
        *_whole("TCP", "tcp", mine[path.tcp]),
        *_set_as("TCP, no proxy, set as", "tcp", mine.get(path.tcp_settings, []), _OF_ENDS),
        *_set_as("TCP, proxies", "tcp split", mine[path.tcp_split], _OF_PROXIES),
        *_whole("HTTPS", "https", mine[path.https]),
        *_set_as("HTTPS, proxies", "https split", mine[path.https_split], _OF_PROXIES),
        *(Row(" → ".join((one.cell.client.name, one.cell.server.name)), "quic", one) for one in mine[path.quic]),
    ]


def _whole(protocol: str, kind: Kind, results: Sequence[CellResult]) -> Iterator[Row]:
    for one in results:
        algorithm = one.cell.parameters.get("flow0.server.congestion_control", "cubic")
        yield Row(f"{protocol}, no proxy ({algorithm})", kind, one)


def _set_as(words: str, kind: Kind, results: Sequence[CellResult], names: Sequence[str]) -> Iterator[Row]:
    """The cells that have the settings of one of the document's proxies, in its order."""
    for proxy, settings in PROXIES.items():
        for one in results:
            if tuple(str(one.cell.parameters.get(name)) for name in names) == settings:
                yield Row(f"{words} {proxy}", kind, one)


def seeds(row: Row) -> str:
    """How many there are of it, and whether chance has a part in it."""
    count = len(row.result.runs)
    if has_random_path(row.result.cell.scenario):
        return str(count)
    spans = [clock(size) for size in SIZES for clock in (row.seconds, row.since_data)]
    alike = all(span is None or number_text(span.low) == number_text(span.high) for span in spans)
    return f"{count}, nothing at random" if count == 1 else f"{count}, deterministic" if alike else str(count)


def bounds(row: Row) -> dict[str, float]:
    """Size → objective, s."""
    found = {one.metric.removeprefix("milestone_"): one for one in row.result.cell.scenario.objectives}
    return {size: found[size].bound for size in SIZES if size in found}


def met(row: Row, spans: dict[str, Interval | None]) -> list[str]:
    """The sizes whose median is within the objective."""
    limits = bounds(row)
    return [size for size, span in spans.items() if span is not None and span.median <= limits.get(size, -1)]
