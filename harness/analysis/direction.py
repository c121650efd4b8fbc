"""One direction of the link: what was asked, what passed, and what should have come of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from harness.analysis.link_estimates import faulty
from harness.analysis.link_replay import (
    GUARD_REAL,
    GUARD_VIRTUAL,
    Counted,
    Cuts,
    Ints,
    LinkPhase,
    Replay,
    accounted,
    calibrated,
    cuts_to_client,
    entering,
    phases_of,
)
from harness.capture import capture, matching
from harness.capture.artefacts import Artefacts
from harness.capture.counters import running_total
from harness.capture.lab_file import FaultFacts, LinkSettings
from harness.capture.matching import MatchedPackets

Side = Literal["to_client", "to_server"]
SIDES: tuple[Side, ...] = ("to_client", "to_server")
#: A count that nobody made.
_NOTHING = np.zeros(0, np.int64), np.zeros(0, np.int64)


@dataclass(frozen=True)
class LinkDirection:
    """One direction's material. All of it is of the link alone: access delays of flows are taken off."""

    name: Side
    asked: LinkSettings
    phases: tuple[LinkPhase, ...]
    passage: MatchedPackets
    replayed: Replay

    @property
    def served_at_random(self) -> bool:
        """Whether a service process decides when packets leave: then no departure can be foretold."""
        return self.asked.service != "constant"

    def departures_ns(self) -> Ints:
        """When each packet left the queue, shape (n,): its departure from the simulator less the link's delay.

        And less its own time where it is sent outside the queue. The delay is that of the moment of leaving. -1 where
        it never did; of one that left the queue but not the simulator (random loss), what the replay says. Under
        jitter this is off by the jitter.
        """
        passage = self.passage
        starts = np.array([phase.start_ns for phase in self.phases[1:]], np.int64)
        delays = np.array([phase.delay_ns for phase in self.phases], np.int64)
        leaves = passage.out_ns - delays[np.searchsorted(starts, passage.entered.t_ns, side="right")]
        leaves = passage.out_ns - delays[np.searchsorted(starts, leaves, side="right")]
        return np.where(passage.arrived, leaves, self.replayed.departure_ns) - self.replayed.own_ns


def faults_to(run: Artefacts, name: Side) -> tuple[FaultFacts, ...]:
    """What the path was asked to do to datagrams of one direction."""
    return () if run.lab is None else tuple(fault for fault in run.lab.faults if fault.direction == name)


def direction_of(run: Artefacts, name: Side, passage: MatchedPackets | None) -> LinkDirection | None:
    """One direction of a run; None without lab.json or a capture."""
    if run.lab is None or passage is None:
        return None
    asked: LinkSettings = getattr(run.lab.links, name)
    own = {flow.flow: flow.access_delay_ns for flow in run.lab.flows}
    access = np.array([own.get(flow, 0) for flow in range(max(own, default=0) + 1)], np.int64)
    if name == "to_server":
        passage, cuts = entering(run, passage), Cuts()
    else:
        cuts = cuts_to_client(run, passage)
    passage = passage.less(access[passage.entered.flow])
    faults = faults_to(run, name)
    phases = faulty(phases_of(run, name), faults)
    # What is dropped or damaged by rule nobody counts.
    lost = _NOTHING if faults else _drops(run, asked.egress)
    counted = Counted(_drops(run, asked.device), lost)
    if asked.service != "constant":
        return LinkDirection(name, asked, phases, passage, accounted(passage, phases, counted, cuts))
    red = asked.discipline == "red"
    guard = GUARD_VIRTUAL if run.run.cell.virtual_time else GUARD_REAL
    return LinkDirection(name, asked, phases, passage, calibrated(passage, phases, red, counted, cuts, guard))


def _drops(run: Artefacts, device: str) -> tuple[Ints, Ints]:
    """Running total of one device's drops, by its root discipline, which counts those of the disciplines inside.

    So do tbf (tbf_enqueue) and hfsc (hfsc_enqueue), also of RED and of a netem with slots inside them, prio
    (prio_enqueue), and a netem with others inside it (netem_dequeue).
    """
    return _NOTHING if run.counters is None else running_total(run.counters, device, "drops")


# --- A run's packets on their way through the emulated link.


@dataclass(frozen=True)
class LinkView(Artefacts):
    """A run with what each direction of its link did."""

    @cached_property
    def to_client(self) -> matching.MatchedPackets | None:
        """Packets from the right to the left interface, of segments in a row from the last one's to the first one's."""
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
        links = [self.lab.links] if alone else [path.links for path in self.lab.paths]
        asked = [each.to_client if to_client else each.to_server for each in links]
        return matching.match(ingress, egress, to_client, min(one.delay_ns - one.jitter_ns for one in asked))

    @cached_property
    def directions(self) -> dict[Side, LinkDirection]:
        """What each direction of the link did; empty without lab.json or a capture, and for several links together."""
        if not self.is_one_path:
            return {}
        passages = {"to_client": self.to_client, "to_server": self.to_server}
        made = {side: direction_of(self, side, passages[side]) for side in SIDES}
        return {side: direction for side, direction in made.items() if direction is not None}
