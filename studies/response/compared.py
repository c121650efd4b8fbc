"""The windows of stored runs, beside those of the RFCs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from harness.report.studies import controller_of, measured_cells, packets_per_round_trip
from harness.stats.intervals import interval
from studies.response.claims import SCENARIOS, cubic_window, reno_window

#: Those with an RFC's response function.
CONTROLLERS = ("reno", "cubic")
#: Ratios to the RFC's window that chance explains: at 0.1 % some hundred losses decide, whose spread is 5 to 10 %.
CLOSE = 0.2


@dataclass(frozen=True)
class Window:
    """A sender's window on one path."""

    stack: str
    controller: str
    """`reno` or `cubic`."""
    rtt: float
    """Of the path without a queue, s."""
    loss: float
    packets: Interval
    """What it sends in a round trip."""
    overflowed: bool
    """Whether the queue dropped more than a tenth of what chance did, in slow start or since the link was full."""

    @cached_property
    def expected(self) -> float:
        """Packets by the RFC."""
        return reno_window(self.loss) if self.controller == "reno" else cubic_window(self.loss, self.rtt)

    @property
    def path(self) -> str:
        """For people: '100 ms, 0.1%'."""
        return f"{self.rtt * 1e3:.0f} ms, {self.loss:.1%}"

    @property
    def is_close(self) -> bool:
        """Whether chance explains what is between it and the RFC's."""
        return abs(self.ratio - 1) <= CLOSE

    @property
    def ratio(self) -> float:
        """Of the median to what is expected."""
        return self.packets.median / self.expected


def windows(results: Sequence[CellResult]) -> list[Window]:
    """Of every sender with Reno or CUBIC, by controller and stack."""
    made = [
        window
        for scenario in SCENARIOS
        for result in measured_cells(results, scenario)
        if result.cell.virtual_time
        for window in _windows(result)
    ]
    return sorted(made, key=lambda window: (window.controller != "reno", window.stack, window.rtt, window.loss))


def _windows(result: CellResult) -> Iterator[Window]:
    cell = result.cell
    controller = controller_of(cell)
    path = cell.scenario.path
    if controller not in CONTROLLERS:
        return
    packets = packets_per_round_trip(result)
    queue, chance = (sum(result.values(f"{cause}_drops_to_client", None, "first")) for cause in ("queue", "loss"))
    if packets:
        crowded = queue > chance / 10
        yield Window(
            cell.server.name, controller, path.rtt.seconds, path.to_client.mean_loss, interval(packets), crowded
        )
