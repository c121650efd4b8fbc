"""Stored runs as contestants: what one server with one congestion control does behind each queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval, MeasuredRun, proven_outcome
from harness.report.studies import controller_of, measured_cells
from harness.stats.intervals import interval
from studies.queues.claims import ALONE, BESIDE, CLIENT, QUEUES


@dataclass(frozen=True, order=True)
class Contestant:
    """A server with a congestion control."""

    server: str
    control: str
    is_default: bool
    """Whether the server takes it when nobody asks."""

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.server} {self.control}"

    @property
    def family(self) -> str:
        """Reno, CUBIC, BBR or another: what a figure has a colour for."""
        families = {"reno": "Reno", "cubic": "CUBIC", "bbr": "BBR"}
        return next((title for name, title in families.items() if self.control.startswith(name)), "another")


@dataclass(frozen=True)
class Behind:
    """What a contestant does behind one queue; None where nothing was measured."""

    goodput: Interval | None
    """Alone, Mbit/s."""
    delay: Interval | None
    """Wait of its packets in the queue, alone, ms: the mean."""
    tail: Interval | None
    """The same: the 95th percentile."""
    share: Interval | None
    """Its part of the goodput of both, beside TCP CUBIC."""


#: Contestant → queue, as `QUEUES` names it → what it does there.
Found = Mapping[Contestant, Mapping[str, Behind]]


def contestants(results: Sequence[CellResult]) -> Found:
    """What was measured in virtual time, by server and control."""
    alone, beside = _runs(results, ALONE), _runs(results, BESIDE)
    made: dict[Contestant, dict[str, Behind]] = {}
    for contestant in sorted({contestant for contestant, _ in (*alone, *beside)}):
        made[contestant] = {
            queue: Behind(
                goodput=_span([run.value("mean_throughput_l7", 0) for run in alone[contestant, queue]]),
                # Nobody else's packets are in it.
                delay=_span([run.value("mean_queue_delay") for run in alone[contestant, queue]]),
                tail=_span([run.value("queue_delay_p95_to_client", 0, "first") for run in alone[contestant, queue]]),
                share=_span([_share(run) for run in beside[contestant, queue]]),
            )
            for queue in QUEUES
            if alone[contestant, queue] or beside[contestant, queue]
        }
    return made


def queues_of(found: Found) -> list[str]:
    """The queues that some contestant has runs behind, in order."""
    return [queue for queue in QUEUES if any(queue in behind for behind in found.values())]


def _runs(results: Sequence[CellResult], scenario: str) -> defaultdict[tuple[Contestant, str], list[MeasuredRun]]:
    """Contestant and queue → the runs that came to their end over the link that was asked for."""
    runs: defaultdict[tuple[Contestant, str], list[MeasuredRun]] = defaultdict(list)
    for result in measured_cells(results, scenario):
        cell = result.cell
        queue = str(cell.parameters.get("path.forward.queue"))
        if not cell.virtual_time or queue not in QUEUES or cell.implementation("client", 0).name != CLIENT:
            continue
        runs[_contestant(result), queue] += [
            measured
            for run, measured in result.runs
            if measured is not None and proven_outcome(run, measured).status == "completed"
        ]
    return runs


def _contestant(result: CellResult) -> Contestant:
    server = result.cell.implementation("server", 0)
    setting = server.setting("server", "congestion_control")
    default = "" if setting is None else str(setting.default)
    control = controller_of(result.cell)
    return Contestant(server.name, control, control == default)


def _share(run: MeasuredRun) -> float | None:
    """The first flow's part of the goodput of both; None where one of them is not known, or nothing came."""
    own, other = (run.value("mean_throughput_l7", flow) for flow in (0, 1))
    return None if own is None or other is None or own + other == 0 else own / (own + other)


def _span(values: Sequence[float | None]) -> Interval | None:
    known = [value for value in values if value is not None]
    return interval(known) if known else None
