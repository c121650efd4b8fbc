"""Reordered packets: those that arrived after others that were sent later (RFC 4737)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.metric_registry import Finding, declare, measures
from harness.analysis.metrics.kinds import transfer_measurement
from harness.analysis.run_view import RunView, Unavailable
from harness.analysis.spurious_loss import spurious_losses
from harness.capture.artefacts import TransferWindow
from harness.capture.matching import MatchedPackets
from harness.outcome import Absence

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Reordering:
    """The n received packets of one transfer and direction, in order of arrival; arrays of shape (n,)."""

    reordered: Flags
    """Whether one that left later had come before (§3.3: s < NextExp)."""
    extent: Ints
    """How many packets stand between it and the first that left later and came before, itself counted (§4.2.2); 0 of a
    packet in order."""
    late_ns: Ints
    """How much later than that one it came, ns (§4.3); 0 of a packet in order."""

    @property
    def ratio(self) -> float:
        """Reordered packets divided by received packets (§4.1); 0 if none arrived."""
        return float(self.reordered.mean()) if len(self.reordered) else 0.0


def reordering(came_ns: Ints) -> Reordering:
    """The reordering of m packets in sending order, by the time when each arrived; -1 if it never did. Shape (m,).

    Data that are sent again are in another packet.
    """
    arrivals = np.flatnonzero(came_ns >= 0)
    arrivals = arrivals[np.argsort(came_ns[arrivals], kind="stable")]
    t_ns = came_ns[arrivals]
    furthest = np.maximum.accumulate(arrivals)
    reordered = arrivals < furthest
    # The first packet that was sent later and arrived before. `furthest` only grows, so a binary search finds it.
    place = np.arange(len(arrivals))
    first = np.where(reordered, np.searchsorted(furthest, arrivals, side="right"), place)
    return Reordering(reordered, place - first, t_ns - t_ns[first])


# --- Reordering by the path (RFC 4737), and packets that were declared lost though they arrived.


_CAPTURES = "both captures"
RATIO = declare(
    "reordered_ratio",
    layer="flow",
    unit="1",
    better="lower",
    title="share of the packets that came which came behind one that had left later",
    formula="reordered / came, in the direction of the data; a packet that is sent again leaves anew",
    source="both captures; RFC 4737 §4.1",
)
EXTENT = declare(
    "reordering_extent",
    layer="flow",
    unit="packets",
    better="lower",
    title="how far back a packet came, the most: 3 is the threshold from which RFC 9002 takes packets for lost",
    formula="max over the packets of i - j: the i-th to come left before the j-th, the first such",
    source="both captures; RFC 4737 §4.2.2; RFC 9002 §6.1.1",
)
LATE = declare(
    "reordering_late_time",
    layer="flow",
    unit="ms",
    better="lower",
    title="how much later a packet came than the first that had left after it, the most",
    formula="max over the packets of t(i) - t(j), i and j as in reordering_extent",
    source="both captures; RFC 4737 §4.3; RFC 9002 §6.1.2",
)
SPURIOUS = declare(
    "spurious_losses",
    layer="flow",
    unit="packets",
    better="lower",
    title="packets that the sender took for lost and that came all the same",
    formula="count of the packets declared lost whose number came; where no trace names any, of the STREAM frames that "
    "brought data that had come; of TCP of the segments sent again whose bytes had left in others that came",
    source="the sender's qlog and the left capture, decrypted (RFC 9002 §6.1); of TCP both captures (RFC 3522 §1)",
)


@measures
def packet_order(view: RunView) -> Iterator[Finding]:
    """Yield reordered_ratio, reordering_extent and reordering_late_time."""
    for window in view.windows:
        passage = _data_packets(view, window)
        if passage is None or not passage.arrived.any():
            continue
        summary = reordering(passage.out_ns)
        yield transfer_measurement(RATIO, window, summary.ratio, _CAPTURES)
        yield transfer_measurement(EXTENT, window, int(summary.extent.max()), _CAPTURES)
        yield transfer_measurement(LATE, window, int(summary.late_ns.max()) / 1e6, _CAPTURES)


def _data_packets(view: RunView, window: TransferWindow) -> MatchedPackets | None:
    """A transfer's packets in the direction of its data."""
    facts = next((flow for flow in view.lab.flows if flow.flow == window.transfer.flow), None) if view.lab else None
    passage = None if facts is None else view.to_client if facts.sender == "server" else view.to_server
    if passage is None:
        return None
    t_ns = passage.entered.t_ns
    inside = (t_ns >= window.start_ns) & (t_ns < window.end_ns)
    return passage.select(np.asarray(inside & (passage.entered.flow == window.transfer.flow)))


@measures
def spurious_loss_count(view: RunView) -> Iterator[Finding]:
    """Yield spurious_losses, for data that go to the client."""
    for window in view.windows:
        spurious = spurious_losses(view, window)
        if isinstance(spurious, Unavailable):
            yield Absence(metric=SPURIOUS.name, flows=(window.transfer.flow,), transfer=window.name, why=spurious.text)
        elif spurious is not None:
            yield transfer_measurement(SPURIOUS, window, len(spurious.declared_ns), spurious.vantage)
