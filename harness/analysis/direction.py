"""One direction of the link: the requested settings, the packets that passed, and the ideal result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from harness.analysis.link_estimates import phases_with_faults
from harness.analysis.link_replay import (
    GUARD_REAL,
    GUARD_VIRTUAL,
    NO_SERIES,
    Cuts,
    DirectionSeries,
    DropCounts,
    Ints,
    LinkPhase,
    Replay,
    cuts_to_client,
    entered_packets,
    phases_of,
    replay_calibrated,
    replay_random_service,
    series_of,
    silences_of,
)
from harness.capture import capture, matching
from harness.capture.artefacts import Artefacts
from harness.capture.counters import running_total
from harness.capture.matching import MatchedPackets
from harness.netem.program import Fault
from harness.scenario.parameters import Role
from harness.scenario.schema import DISCIPLINES
from harness.topology.lab_file import LinkSettings

Side = Literal["to_client", "to_server"]
SIDES: tuple[Side, ...] = ("to_client", "to_server")


def data_side(senders: Iterable[Role]) -> Side:
    """The direction of the link that figures of "the bottleneck" are about: towards the clients, unless every flow
    sends to its server.
    """
    return "to_server" if all(sender == "client" for sender in senders) else "to_client"


#: An empty count.
_NO_COUNTS = np.zeros(0, np.int64), np.zeros(0, np.int64)


@dataclass(frozen=True)
class LinkDirection:
    """The material of one direction. All of it is of the link alone: access delays of flows are subtracted."""

    name: Side
    settings: LinkSettings
    phases: tuple[LinkPhase, ...]
    passage: MatchedPackets
    replay: Replay
    series: DirectionSeries = NO_SERIES

    @property
    def served_at_random(self) -> bool:
        """Whether a service process decides when packets leave, so that departures cannot be predicted."""
        return self.settings.service == "poisson"

    @property
    def is_punctual(self) -> bool:
        """Whether each packet leaves at a time that follows from its arrival: without jitter and opportunities."""
        follows = self.series.transit is not None
        return (self.settings.jitter_ns == 0 or follows) and self.settings.service != "slots"

    def departures_ns(self) -> Ints:
        """When each packet left the queue, shape (n,): its departure from the simulator less the link's delay.

        Its own transmission time is subtracted too, if it is sent outside the queue. The delay is the one in force when
        the packet leaves. -1 for a packet that never left. If a packet left the queue but not the simulator (random
        loss), or waited for slots behind it, the replay's departure is used. Under jitter this is off by the jitter.
        """
        passage = self.passage
        if self.series.transit is not None:
            behind = self.replay.due_ns - self.replay.departure_ns
            left = np.where(passage.arrived, passage.out_ns - behind, self.replay.departure_ns)
            return np.asarray(left - self.replay.transmission_ns, np.int64)
        if self.settings.service == "slots":
            return self.replay.departure_ns - self.replay.transmission_ns
        starts = np.array([phase.start_ns for phase in self.phases[1:]], np.int64)
        delays = np.array([phase.delay_ns for phase in self.phases], np.int64)
        departures = passage.out_ns - delays[np.searchsorted(starts, passage.entered.t_ns, side="right")]
        departures = passage.out_ns - delays[np.searchsorted(starts, departures, side="right")]
        return np.where(passage.arrived, departures, self.replay.departure_ns) - self.replay.transmission_ns


def direction_faults(run: Artefacts, name: Side) -> tuple[Fault, ...]:
    """The faults that the path was configured to apply to datagrams of one direction."""
    return () if run.lab is None else tuple(fault for fault in run.lab.faults if fault.direction == name)


def direction_of(run: Artefacts, name: Side, passage: MatchedPackets | None) -> LinkDirection | None:
    """One direction of a run; None without lab.json or a capture."""
    if run.lab is None or passage is None:
        return None
    settings: LinkSettings = getattr(run.lab.links, name)
    own = {flow.flow: flow.access_delay_ns for flow in run.lab.flows}
    access = np.array([own.get(flow, 0) for flow in range(max(own, default=0) + 1)], np.int64)
    if name == "to_server":
        passage, cuts = entered_packets(run, passage), Cuts()
    else:
        cuts = cuts_to_client(run, passage)
    guard = GUARD_VIRTUAL if run.run.cell.virtual_time else GUARD_REAL
    cuts = replace(cuts, silences=silences_of(run, name, guard))
    link = run.emulated_path.to_client if name == "to_client" else run.emulated_path.to_server
    if link.ecn == "drop":
        cuts = replace(cuts, refused=capture.ecn(passage.entered.traffic_class) != capture.NOT_ECT)
    passage = passage.without_access_delay(access[passage.entered.flow])
    faults = direction_faults(run, name)
    phases = phases_with_faults(phases_of(run, name), faults)
    # Datagrams that are dropped or damaged by rule are not counted.
    lost = _NO_COUNTS if faults else _drops(run, settings.egress)
    counted = DropCounts(_drops(run, settings.device), lost)
    if settings.service == "poisson":
        return LinkDirection(name, settings, phases, passage, replay_random_service(passage, phases, counted, cuts))
    discipline = DISCIPLINES[settings.discipline]
    series = series_of(run, name)
    replayed = replay_calibrated(passage, phases, discipline, counted, cuts, guard, series)
    return LinkDirection(name, settings, phases, passage, replayed, series)


def _drops(run: Artefacts, device: str) -> tuple[Ints, Ints]:
    """Running total of one device's drops, by its root discipline, which includes those of the disciplines inside it.

    This holds for tbf (tbf_enqueue) and hfsc (hfsc_enqueue), also with RED or a netem with slots inside them, for prio
    (prio_enqueue), and for a netem with others inside it (netem_dequeue).
    """
    return _NO_COUNTS if run.counters is None else running_total(run.counters, device, "drops")


# --- A run's packets on their way through the emulated link.


@dataclass(frozen=True)
class LinkView(Artefacts):
    """A run with the behaviour of each direction of its link."""

    @cached_property
    def to_client(self) -> matching.MatchedPackets | None:
        """Packets from the right to the left interface; with segments in series, from the last one's to the first
        one's.
        """
        return self._passage(self.right, self.left, True)

    @cached_property
    def to_server(self) -> matching.MatchedPackets | None:
        """Packets from the left to the right interface."""
        return self._passage(self.left, self.right, False)

    def _passage(
        self, ingress: capture.Capture | None, egress: capture.Capture | None, to_client: bool
    ) -> matching.MatchedPackets | None:
        if ingress is None or egress is None or self.lab is None:
            return None
        alone = self.is_one_path or self.in_sequence
        labs = [self.lab] if alone else [self.lab.for_path(path.path) for path in self.lab.paths]
        least = min(lab.least_delay_ns("to_client" if to_client else "to_server") for lab in labs)
        return matching.match(ingress, egress, to_client, least)

    @cached_property
    def directions(self) -> dict[Side, LinkDirection]:
        """The directions of the link; empty without lab.json or a capture, and for several links together."""
        if not self.is_one_path:
            return {}
        passages = {"to_client": self.to_client, "to_server": self.to_server}
        directions = {side: direction_of(self, side, passages[side]) for side in SIDES}
        return {side: direction for side, direction in directions.items() if direction is not None}
