"""The figures of the page: which plots of which stored runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.reports import CellResult


@dataclass(frozen=True)
class Shown:
    """A figure on the page: one plot of one cell's first run."""

    section: str
    scenario: str
    server: str
    """Who serves the first flow."""
    parameters: Mapping[str, str]
    plot: str
    caption: str

    @property
    def file(self) -> str:
        """Its file below docs/figures."""
        words = [self.scenario.rpartition("/")[2], self.server, *self.parameters.values(), self.plot]
        return "-".join(words) + ".svg"

    def is_of(self, result: CellResult) -> bool:
        """Whether it shows this cell."""
        cell = result.cell
        return (
            cell.scenario.name == self.scenario
            and cell.engine == "virtual"
            and cell.implementation("server", 0).name == self.server
            and all(str(cell.parameters.get(name)) == value for name, value in self.parameters.items())
        )


_RENO, _CUBIC = {"server.congestion_control": "reno"}, {"server.congestion_control": "cubic"}
FIGURES = (
    Shown("sharing", "dumbbell/link-sharing", "ngtcp2", _RENO, "sender_throughput_smoothed", "ngtcp2 with itself"),
    Shown("sharing", "dumbbell/link-sharing", "ngtcp2", _RENO, "receiver_throughput", "the same at the receivers"),
    Shown("sharing", "dumbbell/link-sharing", "ngtcp2", _RENO, "congestion_window", "congestion windows"),
    Shown(
        "sharing", "dumbbell/link-sharing", "ngtcp2", _RENO, "window_queue_drops", "three seconds of the three flows"
    ),
    Shown("sharing", "dumbbell/link-sharing", "ngtcp2", _RENO, "drop_rate", "drops at the bottleneck"),
    Shown("background", "dumbbell/udp-background", "linux", {}, "operating_point_time", "the operating point in time"),
    Shown("background", "dumbbell/udp-background", "linux", {}, "operating_point_plane", "mean operating points"),
    Shown(
        "background", "dumbbell/udp-background", "linux", {}, "in_flight_operating_point", "in flight and its optimum"
    ),
    Shown("background", "dumbbell/udp-background", "linux", {}, "distribution", "distributions"),
    Shown(
        "queues", "queue/red-high-bdp", "ngtcp2", _CUBIC, "red_beside_droptail", "RED beside DropTail, high BDP, CUBIC"
    ),
    Shown("queues", "queue/red-low-bdp", "ngtcp2", _RENO, "red_beside_droptail", "RED beside DropTail, low BDP, Reno"),
)


def figures_markdown(there: Iterable[str]) -> dict[str, str]:
    """Section → its figures, of those whose files are there."""
    known = set(there)
    made: dict[str, list[str]] = {}
    for one in FIGURES:
        if one.file in known:
            made.setdefault(one.section, []).append(f"![{one.caption}](figures/{one.file})\n")
    return {section: "\n".join(items) + "\n" for section, items in made.items()}
