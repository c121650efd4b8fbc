"""Series of the whole network: sums over flows, Jain's index, the bottleneck's queue, packets, received files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from harness.analysis.direction import LinkDirection, LinkView, Side
from harness.analysis.link_replay import Fate
from harness.analysis.timeseries.grid import (
    BIN,
    GRID,
    NO_POINTS,
    Floats,
    Ints,
    Points,
    bin_maxima,
    bin_of,
    bin_rates,
    bin_starts,
    bin_sums,
    grid_ns,
    last_values,
    to_seconds,
)
from harness.analysis.timeseries.lifetimes import Lifetime
from harness.capture.artefacts import Artefacts, TransferWindow
from harness.capture.counters import Growth, transfer_growth
from harness.capture.matching import MatchedPackets
from harness.capture.quic.invariants import Form
from harness.stats.intervals import jain_index
from harness.topology.lab_file import FlowAddresses

#: Name → the width of its steps.
_SUMMED = {"throughput": BIN, "sending_rate": BIN, "drops": BIN, "in_flight": GRID}


def network_series(
    flow_series: Mapping[tuple[int, str], Points], lifetimes: Mapping[int, Lifetime], responsive: set[int]
) -> dict[str, Points]:
    """Sums over the flows that have a series, and jain (jain_responsive where not all flows are responsive)."""
    totals = {
        name: _sum([flow_series[flow, name] for flow in lifetimes if (flow, name) in flow_series], width)
        for name, width in _SUMMED.items()
    }
    throughputs = {flow: flow_series[flow, "throughput"] for flow in lifetimes}
    totals["jain"] = _fairness(throughputs, lifetimes, lifetimes)
    if 0 < len(responsive & set(lifetimes)) < len(lifetimes):
        totals["jain_responsive"] = _fairness(throughputs, lifetimes, responsive & set(lifetimes))
    return totals


def _step_numbers(points: Points, width: float) -> np.ndarray:
    return np.round(points.t / width).astype(np.int64)


def _sum(parts: list[Points], width: float) -> Points:
    parts = [part for part in parts if len(part.t)]
    if not parts:
        return NO_POINTS
    steps = [_step_numbers(part, width) for part in parts]
    first, last = min(step[0] for step in steps), max(step[-1] for step in steps)
    total = np.zeros(last - first + 1)
    for step, part in zip(steps, parts, strict=True):
        total[step - first] += part.value
    return Points(np.arange(first, last + 1) / round(1 / width), total)


def rate_samples(
    rates: Mapping[int, Points], lifetimes: Mapping[int, Lifetime], flow_numbers: Iterable[int]
) -> tuple[int, np.ndarray]:
    """Rates of the given flows in each bin from the first one returned; NaN where a flow was not active throughout.

    Shape (bins, flows).
    """
    flows = [flow for flow in flow_numbers if lifetimes[flow].bins[1] >= lifetimes[flow].bins[0]]
    if not flows:
        return 0, np.zeros((0, 0))
    first, last = min(lifetimes[flow].bins[0] for flow in flows), max(lifetimes[flow].bins[1] for flow in flows)
    table = np.full((last - first + 1, len(flows)), np.nan)
    for column, flow in enumerate(flows):
        steps, (begin, end) = _step_numbers(rates[flow], BIN), lifetimes[flow].bins
        inside = (steps >= begin) & (steps <= end)
        table[steps[inside] - first, column] = rates[flow].value[inside]
    return first, table


def _fairness(rates: Mapping[int, Points], lifetimes: Mapping[int, Lifetime], flow_numbers: Iterable[int]) -> Points:
    first, table = rate_samples(rates, lifetimes, flow_numbers)
    active = [row[~np.isnan(row)] for row in table]
    value = np.array([jain_index(row) if len(row) > 1 and row.any() else np.nan for row in active])
    is_defined = ~np.isnan(value)
    return Points(bin_starts(first, first + len(table) - 1)[is_defined], value[is_defined])


# --- The bottleneck's queue over time, from the packets that entered and left it.
#
# A packet is in the queue from its arrival at the near interface until it left the far one, less the propagation delay
# (`Direction.departures_ns`). A dropped packet was never in it.


def bottleneck_series(direction: LinkDirection, zero_ns: int) -> dict[str, Points]:
    """The queue, what left it, what was dropped, marked, lost or too large, and capacity, of one direction."""
    entered = direction.passage.entered
    if not len(entered):
        return {}
    start_ns = int(entered.t_ns[0]) - zero_ns
    end_ns = max(int(entered.t_ns[-1]), direction.passage.end_ns) - zero_ns
    arrivals, departures, length = queue_times(direction, zero_ns)
    moments = grid_ns(min(start_ns, 0), end_ns)
    first, last = (int(bin_of(np.array([t]))[0]) for t in (min(start_ns, 0), end_ns))
    dropped = direction.replay.fate == Fate.QUEUE_DROP
    drop_ns = entered.t_ns[dropped] - zero_ns
    packets = _queued_total(arrivals, departures, np.ones_like(length), moments)
    return {
        "queue_length": _queued_total(arrivals, departures, length, moments),
        "queue_packets": packets,
        "queue_delay": _queue_waits(arrivals, departures, moments, packets.value),
        "sending_rate": bin_rates(departures, length, first, last),
        "drops": Points(bin_starts(first, last), bin_sums(drop_ns, 1, first, last)),
        "drop": _packet_flows(direction, dropped, zero_ns),
        "mark": _packet_flows(direction, direction.passage.marked, zero_ns),
        "loss": _packet_flows(direction, direction.replay.fate == Fate.LOST, zero_ns),
        "too_large": _packet_flows(direction, direction.replay.fate == Fate.TOO_LARGE, zero_ns),
        "capacity": _capacity(direction, zero_ns, end_ns),
    }


def _packet_flows(direction: LinkDirection, mask: npt.NDArray[np.bool_], zero_ns: int) -> Points:
    """When each of the selected packets arrived, and its flow."""
    entered = direction.passage.entered
    return Points(to_seconds(entered.t_ns[mask] - zero_ns), entered.flow[mask].astype(np.float64))


def queue_times(direction: LinkDirection, zero_ns: int, flow: int | None = None) -> tuple[Ints, Ints, Ints]:
    """When each packet that passed the queue arrived and left (ns since time zero), and its length (bytes),
    shape (n,). Of all flows, or of one.
    """
    entered, departures_ns = direction.passage.entered, direction.departures_ns()
    passed = departures_ns >= 0
    if flow is not None:
        passed &= entered.flow == flow
    arrivals, departures = entered.t_ns[passed], departures_ns[passed]
    # No packet leaves before it arrives, but clocks are read, and captures taken, with errors of a few µs.
    return arrivals - zero_ns, np.maximum(departures, arrivals) - zero_ns, entered.length[passed]


def _queued_total(arrivals: Ints, departures: Ints, amount: Ints, moments: Ints) -> Points:
    """Sum of the amounts that had arrived and not left at each moment."""
    return Points(to_seconds(moments), _total(arrivals, amount, moments) - _total(departures, amount, moments))


def _total(event_ns: Ints, amount: Ints, moments: Ints) -> npt.NDArray[np.float64]:
    order = np.argsort(event_ns, kind="stable")
    running = np.concatenate(([0], np.cumsum(amount[order])))
    return running[np.searchsorted(event_ns[order], moments, side="right")].astype(np.float64)


def _queue_waits(arrivals: Ints, departures: Ints, moments: Ints, packets: npt.NDArray[np.float64]) -> Points:
    if not len(departures):
        return NO_POINTS
    order = np.argsort(departures, kind="stable")
    last = np.searchsorted(departures[order], moments, side="right") - 1
    wait = np.where(last >= 0, (departures - arrivals)[order][np.maximum(last, 0)], 0) / 1e6
    return Points(to_seconds(moments), np.where(packets > 0, wait, 0.0))


def _capacity(direction: LinkDirection, zero_ns: int, end_ns: int) -> Points:
    """A point at the beginning (0), at each change, and at the end."""
    phases = direction.phases
    t = [0.0, *((phase.start_ns - zero_ns) / 1e9 for phase in phases[1:]), end_ns / 1e9]
    return Points(np.array(t), np.array([*(phase.rate_bps for phase in phases), phases[-1].rate_bps]) / 1e6)


# --- Series of each flow from the captures: rates, delay, drops.


def wire_series(view: LinkView, flow: FlowAddresses, lifetime: Lifetime) -> dict[str, Points]:
    """Rates, sizes, ack_ratio, one_way_delay, drops and queued of a flow, over all bins in which it had packets."""
    sent, received = lifetime.sent, lifetime.received
    first = int(bin_of(np.array([lifetime.start_ns]))[0])
    last = int(bin_of(np.array([max(lifetime.end_ns - 1, int(sent.t_ns[-1]) - lifetime.zero_ns, lifetime.last_ns)]))[0])
    series = {
        "throughput": bin_rates(received.t_ns - lifetime.zero_ns, received.payload, first, last),
        "sending_rate": bin_rates(sent.t_ns - lifetime.zero_ns, sent.payload, first, last),
        "ack_ratio": NO_POINTS if flow.kind == "udp" else _ack_ratio(lifetime, first, last),
        **_datagram_sizes(lifetime, first, last),
    }
    side: Side = "to_client" if flow.sender == "server" else "to_server"
    directions = [path.directions[side] for path in view.every_path if side in path.directions]
    if len(directions) == len(view.paths):
        whole = view.to_client if side == "to_client" else view.to_server
        passages = [direction.passage for direction in directions]
        if view.in_sequence:
            passages = [] if whole is None else [whole]
        series["one_way_delay"] = _delays(passages, lifetime, first, last)
        series["drops"] = _drops(directions, lifetime, first, last)
        series["queued"] = _queued(directions, lifetime)
    return series


def _datagram_sizes(lifetime: Lifetime, first: int, last: int) -> dict[str, Points]:
    """The largest payload of the sender's packets, of those that arrived, and of the receiver's packets, per bin."""
    packets = {
        "datagram_size": lifetime.sent,
        "datagram_size_received": lifetime.received,
        "datagram_size_return": lifetime.return_packets,
    }
    return {
        name: bin_maxima(capture.t_ns - lifetime.zero_ns, capture.payload, first, last)
        for name, capture in packets.items()
    }


def _ack_ratio(lifetime: Lifetime, first: int, last: int) -> Points:
    """Packets with data per packet of the receiver, in each bin that has both."""
    # Handshake packets are acknowledged by other rules (RFC 9000 §13.2.1).
    data, answers = (
        packets.select((packets.form == Form.SHORT) | (packets.form == Form.NONE))
        for packets in (lifetime.received, lifetime.return_packets)
    )
    data = data.select(data.payload > 0)
    data_counts = bin_sums(data.t_ns - lifetime.zero_ns, 1, first, last)
    answer_counts = bin_sums(answers.t_ns - lifetime.zero_ns, 1, first, last)
    both = (data_counts > 0) & (answer_counts > 0)
    return Points(bin_starts(first, last)[both], data_counts[both] / answer_counts[both])


def _delays(passages: list[MatchedPackets], lifetime: Lifetime, first: int, last: int) -> Points:
    parts = [_delay(passage, lifetime.flow) for passage in passages]
    if not parts:
        return NO_POINTS
    out_ns, delay_ms = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(out_ns):
        return NO_POINTS
    counts = bin_sums(out_ns - lifetime.zero_ns, 1, first, last)
    is_defined = counts > 0
    totals = bin_sums(out_ns - lifetime.zero_ns, delay_ms, first, last)
    return Points(bin_starts(first, last)[is_defined], totals[is_defined] / counts[is_defined])


def _delay(passage: MatchedPackets, flow: int) -> tuple[Ints, Floats]:
    """When each packet of a flow left the path, ns since the epoch, and its delay, ms."""
    own = np.flatnonzero((passage.entered.flow == flow) & passage.arrived)
    access = 0 if passage.access_ns is None else passage.access_ns[own]
    out_ns = passage.out_ns[own] + access
    return out_ns, (out_ns - passage.entered.t_ns[own]) / 1e6


def _queued(directions: list[LinkDirection], lifetime: Lifetime) -> Points:
    """Frames of a flow in the queues of its paths, B."""
    moments = grid_ns(lifetime.start_ns, max(lifetime.end_ns, lifetime.last_ns))
    total = np.zeros(len(moments))
    for direction in directions:
        arrivals, departures, length = queue_times(direction, lifetime.zero_ns, lifetime.flow)
        total += _queued_total(arrivals, departures, length, moments).value
    return Points(to_seconds(moments), total)


def _drops(directions: list[LinkDirection], lifetime: Lifetime, first: int, last: int) -> Points:
    drop_ns = []
    for direction in directions:
        entered = direction.passage.entered
        dropped = (direction.replay.fate == Fate.QUEUE_DROP) & (entered.flow == lifetime.flow)
        drop_ns.append(entered.t_ns[dropped])
    return Points(bin_starts(first, last), bin_sums(np.concatenate(drop_ns) - lifetime.zero_ns, 1, first, last))


# --- The size of the client's file over time.


#: A file larger than this multiple of the received payload was allocated in advance.
AHEAD_FACTOR = 1.1
#: Payload seen on the wire up to this long after a sample may be in the file, ns: the two use different clocks.
_CLOCK_SLACK_NS = 20_000_000


def file_series(view: Artefacts, lifetime: Lifetime) -> dict[str, Points]:
    """The series `received` of one flow's transfers, one after the other; empty without file samples."""
    parts = [
        points
        for window in view.windows
        if window.transfer.flow == lifetime.flow and (points := _file_points(view, window, lifetime)) is not None
    ]
    if not parts:
        return {}
    return {
        "received": Points(np.concatenate([part.t for part in parts]), np.concatenate([part.value for part in parts]))
    }


def _file_points(view: Artefacts, window: TransferWindow, lifetime: Lifetime) -> Points | None:
    """The series of one transfer, from zero at its first datagram to its last sample."""
    if view.growth is None or window.zero_ns is None or not window.has_file:
        return None
    growth = transfer_growth(view.growth, lifetime.flow, window.transfer.index)
    if not len(growth.t_ns) or not growth.size.any():
        return None
    # A capture with gaps proves nothing.
    if view.capture_drops == 0 and _is_preallocated(growth, lifetime, window):
        return None
    zero_ns, last_ns = window.zero_ns - lifetime.zero_ns, int(growth.t_ns[-1]) - lifetime.zero_ns
    # Samples before the first datagram are set to zero: the file was empty.
    t_ns = np.concatenate([[zero_ns], np.maximum(growth.t_ns - lifetime.zero_ns, zero_ns)])
    size = np.concatenate([[0], growth.size]).astype(np.float64)
    moments = grid_ns(zero_ns, last_ns)
    moments = np.unique(np.concatenate([[zero_ns], moments, [last_ns]]))
    points = last_values(t_ns, size, moments)
    return Points(to_seconds(moments), np.where(moments == zero_ns, 0.0, points.value))


def _is_preallocated(growth: Growth, lifetime: Lifetime, window: TransferWindow) -> bool:
    """Whether the file was ever larger than all received payload."""
    received = lifetime.received
    inside: Ints = np.flatnonzero((received.t_ns >= window.start_ns) & (received.t_ns < window.end_ns))
    total = np.concatenate([[0], np.cumsum(received.payload[inside])])
    had = total[np.searchsorted(received.t_ns[inside], growth.t_ns + _CLOCK_SLACK_NS, side="right")]
    return bool((growth.size > AHEAD_FACTOR * had).any())
