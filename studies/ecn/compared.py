"""Stored runs as rows: how each stack marked on each path, and what it made of marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval, MeasuredRun, proven_outcome
from harness.scenario.parameters import ROLES, Role
from harness.stats.intervals import interval
from studies.ecn.claims import CASES, MARKED

Behaviour = Literal["never", "always", "stops", "sometimes"]
"""Whether a sender marks: never; to the end; until it stops for good; in some runs this, in others that."""

_TOWARDS: dict[Role, str] = {"server": "to_client", "client": "to_server"}
#: CoDel's target, ms (RFC 8289 §4.2), which its signals are to lead senders to, and how many times as long a median
#: wait is still short.
TARGET_MS, TOLERANCE = 5.0, 2


@dataclass(frozen=True)
class Marking:
    """How one endpoint marked on one path, over the runs in which it sent something."""

    behaviour: Behaviour
    ect_1: bool
    """Whether most of its marks were ECT(1), in any run."""
    datagrams: Interval | None
    """ECN-capable datagrams until it stopped; None where it never stopped."""
    seconds: Interval | None
    """From its first datagram to the last ECN-capable one."""
    reports: bool | None
    """Whether its peer counted marks back in any run; None where no acknowledgement was read."""


@dataclass(frozen=True)
class Download:
    """What a stack's runs on one path came to."""

    runs: int
    completed: int
    seconds: Interval | None
    """Of those that completed."""
    wait: Interval | None
    """The median wait of the packets at the queue, ms."""
    marks: Interval | None
    """Packets that the queue marked; None where it may not, or others mark behind it."""
    drops: Interval | None
    """Packets that the queue dropped."""
    markings: dict[Role, Marking | None]

    @property
    def completes(self) -> bool:
        """Whether every run came to its end."""
        return self.completed == self.runs


@dataclass(frozen=True)
class Stack:
    """One stack with itself, under settings of its own."""

    name: str
    """With the settings that are not its defaults."""
    downloads: dict[str, Download]
    """By scenario."""

    def marking(self, scenario: str, role: Role) -> Marking | None:
        """How it marked there; None without runs, or where it sent nothing."""
        download = self.downloads.get(scenario)
        return None if download is None else download.markings[role]

    def behaves(self, scenario: str, role: Role, *behaviours: Behaviour) -> bool:
        """Whether it marked in one of these ways there."""
        marking = self.marking(scenario, role)
        return marking is not None and marking.behaviour in behaviours

    @property
    def uses_ecn(self) -> bool:
        """Whether its server marks to the end where nothing is in the way."""
        return self.behaves(MARKED.scenario, "server", "always")

    @property
    def reacts(self) -> bool | None:
        """Whether marks keep the queue short; None where nothing was marked, or it was not measured."""
        marked = self.downloads.get(MARKED.scenario)
        if marked is None or marked.marks is None or marked.marks.median == 0 or marked.wait is None:
            return None
        return marked.wait.median <= TOLERANCE * TARGET_MS


def stacks(results: Sequence[CellResult]) -> list[Stack]:
    """Every stack with itself, in virtual time: those that use ECN first, and by name."""
    found: dict[str, dict[str, Download]] = {}
    for case in CASES:
        for result in results:
            cell = result.cell
            if cell.scenario.name != case.scenario or not cell.virtual_time or cell.client.name != cell.server.name:
                continue
            download = _download(result)
            if download.runs:
                found.setdefault(_name(result), {})[case.scenario] = download
    rows = [Stack(name, downloads) for name, downloads in found.items()]
    return sorted(rows, key=lambda stack: (not stack.uses_ecn, stack.name))


def _name(result: CellResult) -> str:
    """The stack, and what it was told: "msquic (ECN on)"."""
    cell, words = result.cell, []
    if cell.parameters.get("server.ecn") is not None:
        words.append(f"ECN {cell.parameters['server.ecn']}")
    if cell.parameters.get("server.congestion_control") is not None:
        words.append(str(cell.parameters["server.congestion_control"]))
    return f"{cell.server.name} ({', '.join(words)})" if words else cell.server.name


def _download(result: CellResult) -> Download:
    outcomes = [(measured, proven_outcome(run, measured).status) for run, measured in result.runs]
    # Runs that failed are kept: what was marked until then is what they failed by.
    every = [measured for measured, status in outcomes if measured is not None and status != "infrastructure"]
    completed = [measured for measured, status in outcomes if measured is not None and status == "completed"]
    return Download(
        runs=len(every),
        completed=len(completed),
        seconds=_span(completed, "completion"),
        wait=_span(completed, "queue_delay_p50_to_client"),
        marks=_span(completed, "ecn_marks_to_client", None),
        drops=_span(completed, "queue_drops_to_client", None),
        markings={role: _marking(every, role) for role in ROLES},
    )


def _marking(runs: Sequence[MeasuredRun], role: Role) -> Marking | None:
    to = _TOWARDS[role]
    sending = [run for run in runs if run.value(f"ect_share_{to}", 0, "first") is not None]
    if not sending:
        return None
    stops = [run.value(f"ecn_stop_datagrams_{to}", 0, "first") is not None for run in sending]
    marks = [bool(run.value(f"ect_share_{to}", 0, "first")) for run in sending]
    kinds = {"stops" if stop else "always" if mark else "never" for stop, mark in zip(stops, marks, strict=True)}
    reports = [share for run in sending if (share := run.value(f"ecn_ack_share_{to}", 0, "first")) is not None]
    behaviour: Behaviour = "sometimes"
    if len(kinds) == 1:
        behaviour = "stops" if stops[0] else "always" if marks[0] else "never"
    return Marking(
        behaviour=behaviour,
        ect_1=any((run.value(f"ect1_share_{to}", 0, "first") or 0) > 0.5 for run in sending),
        datagrams=_span(sending, f"ecn_stop_datagrams_{to}"),
        seconds=_span(sending, f"ecn_stop_time_{to}"),
        reports=any(reports) if reports else None,
    )


def _span(runs: Sequence[MeasuredRun], metric: str, flow: int | None = 0) -> Interval | None:
    values = [value for run in runs if (value := run.value(metric, flow, "first")) is not None]
    return interval(values) if values else None
