"""What a sender's estimate of the round-trip time did when its client moved (RFC 9002 §5), from its qlog."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.analysis.handover.state import CLOCK_NS, Figure, RoundTrip, State
from harness.analysis.handover.window import horizon
from harness.analysis.handover.wire import EARLY, Moved
from harness.outcome import RttReaction

#: An estimate so far from the round trip that packets have is off.
OFF = 0.20
#: One that goes at least this part of the way to it in a step is new: the old one goes an eighth (RFC 9002 §5.3).
_ANEW = 0.5
#: Values closer than this are the same, ms.
_EXACT = 0.001


@dataclass(frozen=True)
class RttAnswer:
    """What became of the estimate."""

    what: RttReaction
    evidence: str
    before: float | None = None
    """ms, when the first datagram from the new address came."""
    after: float | None = None
    """ms, the first value after the server's first data for the new address."""
    off_ns: int | None = None
    """From the first datagram's coming until the estimate was right; None where it never is, or nobody knows."""
    old_samples: int | None = None
    """Samples after the server's first data for the new address of packets sent before; None where no qlog tells."""


def rtt_answer(moved: Moved, state: State) -> RttAnswer:
    """What the server did with its smoothed round-trip time."""
    figure, arrived = state.figure("smoothed_rtt_ms"), moved.arrived_ns
    before = None if arrived is None else figure.before(arrived - CLOCK_NS)
    if arrived is None or before is None:
        return RttAnswer("unknown", "the qlog tells no round-trip time before the move")
    later = figure.between(arrived - CLOCK_NS, moved.until_ns).steps
    trip = RoundTrip(moved)
    switched = arrived if moved.switched_ns is None else moved.switched_ns
    since = later.between(switched, moved.until_ns)
    after = float(since.value[0]) if len(since.value) else None
    soon = later.between(arrived - CLOCK_NS, horizon(moved, arrived))
    initial = float(figure.value[0])
    if abs(before - initial) > _EXACT and (np.abs(soon.value - initial) < _EXACT).any():
        what: RttReaction = "reset"
        evidence = f"{before:.1f} ms → {initial:.1f} ms, the value that the trace begins with"
    else:
        what, evidence = _what(before, later, trip)
    return RttAnswer(what, evidence, before, after, _off_ns(arrived, before, later, trip), _old_samples(moved, state))


def _what(before: float, later: Figure, trip: RoundTrip) -> tuple[RttReaction, str]:
    """Value after value until it is right: by a step that new samples do not make of the old, or little by little."""
    value, told, known = before, False, False
    for t_ns, following in zip(later.t_ns.tolist(), later.value.tolist(), strict=True):
        real = trip.at(t_ns)
        if real is not None:
            known = True
            if _right(value, real):
                if not told or _right(before, real):
                    return "unknown", f"{before:.1f} ms before, and the new path has {real:.1f} ms, too"
                return (
                    "carried over",
                    f"{before:.1f} ms → {value:.1f} ms in steps of an eighth; the path has {real:.1f} ms",
                )
            if abs(following - value) >= _ANEW * abs(real - value):
                return "reset", f"{value:.1f} ms → {following:.1f} ms in a step; the path has {real:.1f} ms"
        value, told = following, True
    if not told:
        return "unknown", f"{before:.1f} ms before, and no other value is told after"
    if not known:
        return "unknown", f"{before:.1f} ms before, {value:.1f} ms in the end, and nothing shows the new path's"
    return "carried over", f"{before:.1f} ms → {value:.1f} ms, not right in the end"


def _right(value: float, real: float) -> bool:
    return abs(value - real) <= OFF * real


def _off_ns(arrived: int, before: float, later: Figure, trip: RoundTrip) -> int | None:
    value, since = before, arrived
    for t_ns, following in [*zip(later.t_ns.tolist(), later.value.tolist(), strict=True)]:
        real = trip.at(t_ns)
        if real is not None and _right(value, real):
            return max(0, since - arrived)
        value, since = following, t_ns
    real = trip.at(since)
    return max(0, since - arrived) if real is not None and _right(value, real) else None


def _old_samples(moved: Moved, state: State) -> int | None:
    """A sample of r at t is of a packet that was sent at t - r."""
    latest, switched = state.figure("latest_rtt_ms"), moved.switched_ns
    if switched is None or not len(latest.value):
        return None
    after = latest.between(switched, moved.until_ns).steps
    last = latest.before(switched)
    count = 0
    for t_ns, sample in zip(after.t_ns.tolist(), after.value.tolist(), strict=True):
        fresh = sample != last
        last = sample
        count += fresh and t_ns - sample * 1e6 < switched - EARLY
    return count
