"""The sizes of packets on a path: what arrived, what was too large for its MTU, how long senders took to notice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.analysis.direction import SIDES, LinkDirection
from harness.analysis.link_replay import Fate
from harness.analysis.metric_registry import Finding, declare, measures
from harness.analysis.metrics.kinds import transfer_measurement
from harness.analysis.run_view import RunView
from harness.capture.artefacts import TransferWindow
from harness.netem.bounds import INITIAL_WINDOW
from harness.outcome import Absence
from harness.scenario.schema import FRAME_HEADER

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_CAPTURES = "both captures"
DISCOVERED = {
    to: declare(
        f"discovered_mtu_{to}",
        layer="flow",
        unit="B",
        better="higher",
        title=f"the largest IP packet {to.replace('_', ' ')} that arrived in one piece, since the path's MTU last "
        "changed: what the sender's path MTU discovery came to",
        formula="max of IP lengths, over the packets that left the queue since then",
        source="both captures; RFC 8899 §4.1, RFC 9000 §14.3",
    )
    for to in SIDES
}
SIZE_DROPS = {
    to: declare(
        f"size_drops_{to}",
        layer="flow",
        unit="packets",
        better="lower",
        title=f"packets {to.replace('_', ' ')} that were too large for the path's MTU and did not pass",
        formula="count; only where the path has an MTU of its own",
        source="both captures; RFC 8201 §1",
    )
    for to in SIDES
}
RECOVERY = declare(
    "mtu_recovery_time",
    layer="flow",
    unit="s",
    better="lower",
    title=f"from the moment at which the path's MTU fell to the arrival of {INITIAL_WINDOW} B of payload that left the "
    "queue after it",
    formula="t(arrival) - t(change), in the direction of the data; the last such change",
    source=f"both captures; the simulator's events; {INITIAL_WINDOW} B are an initial window (RFC 9002 §7.2)",
)


def _left_ns(direction: LinkDirection) -> Ints:
    """When each packet left the queue, and its size was looked at; where that cannot be known when it came."""
    replayed, entered_ns = direction.replay, direction.passage.entered.t_ns
    left_ns = replayed.departure_ns - replayed.transmission_ns
    return np.where(replayed.departure_ns >= 0, left_ns, entered_ns)


def _own(direction: LinkDirection, window: TransferWindow) -> Flags:
    """Which packets are a transfer's."""
    entered = direction.passage.entered
    inside = (entered.t_ns >= window.start_ns) & (entered.t_ns < window.end_ns)
    return np.asarray(inside & (entered.flow == window.transfer.flow), np.bool_)


def _last_change_ns(direction: LinkDirection) -> int:
    """When the MTU last changed; 0 where it never did."""
    changes = [after.start_ns for before, after in pairwise(direction.phases) if before.mtu != after.mtu]
    return changes[-1] if changes else 0


def _last_fall_ns(view: RunView, direction: LinkDirection) -> int | None:
    """When the MTU last fell; None where it never did."""
    assert view.lab is not None
    interfaces = view.lab.mtu

    sizes = [interfaces if phase.mtu is None else phase.mtu.size for phase in direction.phases]
    falls = [
        phase.start_ns
        for phase, (before, after) in zip(direction.phases[1:], pairwise(sizes), strict=True)
        if after < before
    ]
    return falls[-1] if falls else None


@measures
def packet_sizes(view: RunView) -> Iterator[Finding]:
    """Yield discovered_mtu and size_drops of each direction, of a lab with one path."""
    for window in view.windows:
        for side, direction in view.directions.items():
            own = _own(direction, window)
            whole = own & direction.passage.arrived & ~direction.passage.entered.continues
            whole &= _left_ns(direction) >= _last_change_ns(direction)
            limit = direction.phases[-1].mtu
            sizes = direction.passage.entered.length - FRAME_HEADER
            if limit is not None:
                # A larger packet that arrived did so in fragments.
                whole &= sizes <= limit.size
            if whole.any():
                yield transfer_measurement(DISCOVERED[side], window, int(sizes[whole].max()), _CAPTURES)
            if any(phase.mtu is not None for phase in direction.phases):
                too_large = own & (direction.replay.fate == Fate.TOO_LARGE)
                yield transfer_measurement(SIZE_DROPS[side], window, int(too_large.sum()), _CAPTURES)


@measures
def mtu_recovery(view: RunView) -> Iterator[Finding]:
    """Yield mtu_recovery_time of transfers that were under way when the MTU fell."""
    for window in view.windows:
        facts = next((flow for flow in view.lab.flows if flow.flow == window.transfer.flow), None) if view.lab else None
        if facts is None:
            continue
        direction = view.directions.get("to_client" if facts.sender == "server" else "to_server")
        fall_ns = None if direction is None else _last_fall_ns(view, direction)
        if direction is None or fall_ns is None:
            continue
        own, passage = _own(direction, window), direction.passage
        after = own & (_left_ns(direction) >= fall_ns)
        if not after.any():
            continue
        arrivals = np.flatnonzero(after & passage.arrived)
        arrivals = arrivals[np.argsort(passage.out_ns[arrivals], kind="stable")]
        total = np.cumsum(passage.entered.payload[arrivals])
        enough = int(np.searchsorted(total, INITIAL_WINDOW))
        if enough < len(arrivals):
            seconds = (int(passage.out_ns[arrivals[enough]]) - fall_ns) / 1e9
            yield transfer_measurement(RECOVERY, window, seconds, _CAPTURES)
        else:
            why = f"no {INITIAL_WINDOW} B came after the path's MTU had fallen"
            yield Absence(metric=RECOVERY.name, flows=(window.transfer.flow,), transfer=window.name, why=why)
