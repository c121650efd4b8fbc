"""The reaction of a sender's congestion window and RTT estimate to its client's move, from its qlog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.handover.state import CLOCK_NS, Floats, RoundTrip, ServerState, StepSeries
from harness.analysis.handover.wire import CLOCK_SLACK_NS, WireMove
from harness.outcome import RttReaction, WindowReaction

#: A window that has at least this share of its former size is kept. A window below the other share, with losses, has
#: collapsed: a single reduction leaves half (RFC 9002 §7.3.2) or more.
KEPT, COLLAPSED = 0.9, 0.4
#: Factors by which congestion controls multiply their window at a loss (RFC 9002 §7.3.2, RFC 9438 §4.6, RFC 8511 §3.1).
_REDUCTIONS = (0.5, 0.7, 0.85)
#: Relative difference of initial windows with datagrams of 1200 and 1280 B; and ratio of any window with datagrams of
#: 1200 and 1452 B.
_UNIT, _STEP = 0.1, 1.25
#: Less than this share of a window is negligible.
_NEGLIGIBLE = 0.05
#: Packets by which a window may exceed what the acknowledged data explain: clocks are read at other moments.
_EXTRA_PACKETS = 2
#: RFC 9002 §7.2: ten datagrams of 1200 B; a trace may begin later.
_RECOMMENDED = 12_000.0
#: Growth by more than this factor in a round trip is not slow start, which adds what was acknowledged (RFC 9002
#: §7.3.1).
_LEAP = 2.0
#: The stack's reaction is looked for in so many round trips of the longest path after the switch, plus this time, ns.
_SEARCH_ROUNDS, _SEARCH_NS = 2.0, 100_000_000


@dataclass(frozen=True)
class WindowAnswer:
    """What happened to the congestion window."""

    reaction: WindowReaction
    evidence: str
    before: float | None = None
    """Bytes, when the first datagram from the new address arrived."""
    after: float | None = None
    """Bytes, after the stack's reaction."""
    reaction_ns: int | None = None
    """When the window had that value."""


def window_answer(moved: WireMove, state: ServerState) -> WindowAnswer:
    """What the server did with its congestion window."""
    figure = state.figure("congestion_window")
    arrived = moved.arrived_ns
    before = None if arrived is None else figure.before(arrived - CLOCK_NS)
    if arrived is None or before is None:
        return WindowAnswer("unknown", "the qlog tells no congestion window before the move")
    later = figure.between(arrived - CLOCK_NS, horizon(moved, arrived)).steps
    first = float(figure.value[0])
    initials = (first, first * state.packet_size / 1200, _RECOMMENDED)
    if not len(later.value):
        return WindowAnswer(
            "kept", f"{before:,.0f} B before, and no other value is told after", before, before, arrived
        )
    return _answer(moved, state, before, later, initials, _earlier_leaps(moved, state, arrived))


def horizon(moved: WireMove, arrived: int) -> int:
    """Until when a stack's reaction is looked for, ns since the epoch."""
    paths = moved.view.scenario.every_path.values()
    longest = max(path.rtt.seconds for path in paths)
    return min(moved.until_ns, arrived + round(_SEARCH_ROUNDS * longest * 1e9) + _SEARCH_NS)


def _answer(
    moved: WireMove,
    state: ServerState,
    before: float,
    later: StepSeries,
    initials: Sequence[float],
    leaps: Sequence[float],
) -> WindowAnswer:
    """`leaps`: windows to which the stack leapt before; that is its way of starting (picoquic's on long paths)."""
    values, first = np.concatenate([[before], later.value]), initials[0]
    falls = [at for at, value in enumerate(later.value) if value < KEPT * values[at] or value == first]
    acknowledged = _acknowledged_bytes(moved, later)
    resets = [
        at
        for at in falls
        if later.value[at] == first or _is_reset(values[at], later.value[at], initials, state, float(acknowledged[at]))
    ]
    if not falls:
        if _is_near(before, initials[:1], state.packet_size):
            return WindowAnswer("unknown", f"{before:,.0f} B before is an initial window", before, before)
        evidence = f"{before:,.0f} B → {float(later.value[0]):,.0f} B"
        return WindowAnswer("kept", evidence, before, before, moved.arrived_ns)
    at = resets[0] if resets else falls[0]
    last, value, when_ns = float(values[at]), float(later.value[at]), int(later.t_ns[at])
    if _is_near(last, initials[:1], state.packet_size):
        return WindowAnswer("unknown", f"{last:,.0f} B before is an initial window", last, value, when_ns)
    if not resets:
        by_loss = all(_is_reduction(values[fall], later.value[fall], state.packet_size) for fall in falls)
        return _fallen_answer(moved, before, last, StepSeries(later.t_ns[at:], later.value[at:]), by_loss)
    rises = _rise_indices(later, acknowledged, at, state.packet_size, leaps)
    leap = _first_leap(later, rises, last)
    if leap is not None:
        after = float(later.value[leap])
        reaction: WindowReaction = "kept" if after >= KEPT * last else "kept a share"
        evidence = f"{last:,.0f} B → {value:,.0f} B → {after:,.0f} B in a step, {after / last:.0%}"
        return WindowAnswer(reaction, evidence, last, after, int(later.t_ns[leap]))
    growth = ", which then grew by more than was acknowledged of the new path" if len(rises) > 1 else ""
    evidence = f"{last:,.0f} B → {value:,.0f} B in a step, an initial window{growth}"
    return WindowAnswer("reset", evidence, last, value, when_ns)


def _is_reset(last: float, value: float, initials: Sequence[float], state: ServerState, acknowledged: float) -> bool:
    """Whether a window fell to about an initial one: its unit, a datagram, may differ from that at the beginning.

    If the trace reports it with a delay, slow start may have added what was acknowledged of the new path.
    """
    near = any(abs(value - initial) <= max(state.packet_size, _UNIT * initial) for initial in initials)
    grown = (1 - _UNIT) * min(initials) <= value <= max(initials) + acknowledged and value < COLLAPSED * last
    return (near or grown) and not _is_reduction(last, value, state.packet_size)


def _is_reduction(last: float, value: float, packet: int) -> bool:
    """Whether a fall is what a congestion control does at a loss, even if a packet was only reordered."""
    return any(abs(value - factor * last) <= packet for factor in _REDUCTIONS)


def _fallen_answer(moved: WireMove, before: float, last: float, later: StepSeries, by_loss: bool) -> WindowAnswer:
    """The answer for a window that fell, but not to an initial one. `by_loss`: the falls look like reductions at
    losses.
    """
    least = int(later.value.argmin())
    after, when_ns = float(later.value[least]), int(later.t_ns[least])
    if not by_loss and not _has_losses(moved, int(later.t_ns[0])):
        return WindowAnswer("kept a share", f"{last:,.0f} B → {after:,.0f} B without a loss", last, after, when_ns)
    if after < COLLAPSED * last:
        evidence = f"{last:,.0f} B → {after:,.0f} B by losses, and not to its initial value in a step"
        return WindowAnswer("collapsed by loss", evidence, last, after, when_ns)
    evidence = f"{before:,.0f} B, and losses later took {last:,.0f} B to {after:,.0f} B, {after / last:.0%}"
    return WindowAnswer("kept", evidence, before, before, moved.arrived_ns)


def _acknowledged_bytes(moved: WireMove, later: StepSeries) -> Floats:
    """Bytes sent to the new address that could be acknowledged when each value was reported.

    Acknowledgements of the old path's packets must not count (RFC 9000 §9.4).
    """
    passage = moved.to_client
    assert passage is not None, "moves with nothing to measure are left out"
    to_server = moved.view.scenario.every_path[moved.move.path].to_server.delay.value
    new = moved.to_new(passage) & passage.arrived
    order = np.argsort(passage.out_ns[new], kind="stable")
    t_ns, total = passage.out_ns[new][order], np.cumsum(passage.entered.payload[new][order])
    return np.concatenate([[0.0], total])[np.searchsorted(t_ns, later.t_ns - to_server)]


def _rise_indices(
    later: StepSeries, acknowledged: Floats, since: int, packet: int, leaps: Sequence[float]
) -> list[int]:
    """Values that exceed slow start from the one before: slow start adds what is acknowledged (RFC 9002 §7.3.1)."""
    rises = []
    for at in range(since + 1, len(later.value)):
        value, last = float(later.value[at]), float(later.value[at - 1])
        bound = _STEP * last + float(acknowledged[at] - acknowledged[at - 1]) + _EXTRA_PACKETS * packet
        following = float(later.value[at + 1]) if at + 1 < len(later.value) else value
        # A value that soon falls again belongs to another path: some stacks (quiche) have a controller for each.
        if value > bound and following >= COLLAPSED * value and not _is_near(value, leaps, packet):
            rises.append(at)
    return rises


def _first_leap(later: StepSeries, rises: Sequence[int], last: float) -> int | None:
    """The rise that a rule made: an isolated one, to more than a trifle of the last window."""
    alone = (at for at in rises if at - 1 not in rises and at + 1 not in rises)
    return next((at for at in alone if later.value[at] >= _NEGLIGIBLE * last), None)


def _earlier_leaps(moved: WireMove, state: ServerState, until_ns: int) -> list[float]:
    """The windows to which the stack leapt before a moment."""
    windows = state.figure("congestion_window").between(0, until_ns).steps
    rtt = max(path.rtt.value for path in moved.view.scenario.every_path.values())
    return [float(windows.value[at]) for at in _leap_indices(windows, rtt, state.packet_size)]


def _leap_indices(windows: StepSeries, rtt_ns: int, packet: int) -> list[int]:
    """Values that exceed slow start from the one before, given the time between."""
    rounds = np.maximum(1.0, np.diff(windows.t_ns) / max(rtt_ns, 1))
    # Forty rounds explain any window.
    bound = _LEAP ** np.minimum(rounds, 40.0) * windows.value[:-1] + packet
    return (np.flatnonzero(windows.value[1:] > bound) + 1).tolist()


def _is_near(value: float, references: Sequence[float], packet: int) -> bool:
    return any(abs(value - reference) <= packet for reference in references)


def _has_losses(moved: WireMove, until_ns: int) -> bool:
    """Whether data in flight at the move, or sent since, were lost before a moment."""
    passage = moved.to_client
    assert passage is not None, "moves with nothing to measure are left out"
    longest = max(path.rtt.value for path in moved.view.scenario.every_path.values())
    t_ns = passage.entered.t_ns
    return bool((~passage.arrived & (t_ns >= moved.scheduled_ns - 2 * longest) & (t_ns < until_ns)).any())


# --- The reaction of a sender's RTT estimate to its client's move (RFC 9002 §5), from its qlog.


#: An estimate is off if it differs by more than this share from the round trip that packets have.
OFF_SHARE = 0.20
#: An estimate is new if it covers at least this share of the difference in a step: the old one covers an eighth (RFC
#: 9002 §5.3).
_RESET_SHARE = 0.5
#: Values closer than this are equal, ms.
_EQUAL_MS = 0.001


@dataclass(frozen=True)
class RttAnswer:
    """What happened to the RTT estimate."""

    reaction: RttReaction
    evidence: str
    before: float | None = None
    """ms, when the first datagram from the new address arrived."""
    after: float | None = None
    """ms, the first value after the server's first data for the new address."""
    settling_ns: int | None = None
    """From the arrival of the first datagram until the estimate was right; None if it never is, or that is unknown."""
    old_samples: int | None = None
    """Samples after the server's first data for the new address that belong to earlier packets; None without a qlog."""


def rtt_answer(moved: WireMove, state: ServerState) -> RttAnswer:
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
    early_values = later.between(arrived - CLOCK_NS, horizon(moved, arrived))
    initial = float(figure.value[0])
    if abs(before - initial) > _EQUAL_MS and (np.abs(early_values.value - initial) < _EQUAL_MS).any():
        reaction: RttReaction = "reset"
        evidence = f"{before:.1f} ms → {initial:.1f} ms, the value that the trace begins with"
    else:
        reaction, evidence = _follow_estimate(before, later, trip)
    return RttAnswer(
        reaction, evidence, before, after, _off_ns(arrived, before, later, trip), _old_samples(moved, state)
    )


def _follow_estimate(before: float, later: StepSeries, trip: RoundTrip) -> tuple[RttReaction, str]:
    """Follow the estimate until it is right: by a step too large for new samples to make from the old one, or
    gradually.
    """
    value, has_sample, has_path_rtt = before, False, False
    for t_ns, following in zip(later.t_ns.tolist(), later.value.tolist(), strict=True):
        path_rtt = trip.at(t_ns)
        if path_rtt is not None:
            has_path_rtt = True
            if _is_right(value, path_rtt):
                if not has_sample or _is_right(before, path_rtt):
                    return "unknown", f"{before:.1f} ms before, and the new path has {path_rtt:.1f} ms, too"
                return (
                    "carried over",
                    f"{before:.1f} ms → {value:.1f} ms in steps of an eighth; the path has {path_rtt:.1f} ms",
                )
            if abs(following - value) >= _RESET_SHARE * abs(path_rtt - value):
                return "reset", f"{value:.1f} ms → {following:.1f} ms in a step; the path has {path_rtt:.1f} ms"
        value, has_sample = following, True
    if not has_sample:
        return "unknown", f"{before:.1f} ms before, and no other value is told after"
    if not has_path_rtt:
        return "unknown", f"{before:.1f} ms before, {value:.1f} ms in the end, and nothing shows the new path's"
    return "carried over", f"{before:.1f} ms → {value:.1f} ms, not right in the end"


def _is_right(value: float, path_rtt: float) -> bool:
    return abs(value - path_rtt) <= OFF_SHARE * path_rtt


def _off_ns(arrived: int, before: float, later: StepSeries, trip: RoundTrip) -> int | None:
    value, since = before, arrived
    for t_ns, following in [*zip(later.t_ns.tolist(), later.value.tolist(), strict=True)]:
        path_rtt = trip.at(t_ns)
        if path_rtt is not None and _is_right(value, path_rtt):
            return max(0, since - arrived)
        value, since = following, t_ns
    path_rtt = trip.at(since)
    return max(0, since - arrived) if path_rtt is not None and _is_right(value, path_rtt) else None


def _old_samples(moved: WireMove, state: ServerState) -> int | None:
    """A sample of r at time t belongs to a packet that was sent at t - r."""
    latest, switched = state.figure("latest_rtt_ms"), moved.switched_ns
    if switched is None or not len(latest.value):
        return None
    after = latest.between(switched, moved.until_ns).steps
    last = latest.before(switched)
    count = 0
    for t_ns, sample in zip(after.t_ns.tolist(), after.value.tolist(), strict=True):
        is_new = sample != last
        last = sample
        count += is_new and t_ns - sample * 1e6 < switched - CLOCK_SLACK_NS
    return count
