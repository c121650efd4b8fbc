"""What the captures show of each flow: rates, delay, drops."""

from __future__ import annotations

import numpy as np

from harness.analysis.direction import Direction, Side
from harness.analysis.link import LinkView
from harness.analysis.link_replay import Fate
from harness.analysis.timeseries.grid import NOTHING, Floats, Ints, Points, beginnings, bin_of, rates, sums
from harness.analysis.timeseries.lifetimes import Lifetime
from harness.capture.lab_file import FlowAddresses
from harness.capture.matching import Passage
from harness.capture.quic.invariants import Form


def wire_series(view: LinkView, flow: FlowAddresses, lifetime: Lifetime) -> dict[str, Points]:
    """throughput, sending_rate, ack_ratio, one_way_delay and drops of a flow, over all bins in which it had packets."""
    sent, received = lifetime.sent, lifetime.received
    first = int(bin_of(np.array([lifetime.start_ns]))[0])
    last = int(bin_of(np.array([max(lifetime.end_ns - 1, int(sent.t_ns[-1]) - lifetime.zero_ns, lifetime.last_ns)]))[0])
    found = {
        "throughput": rates(received.t_ns - lifetime.zero_ns, received.payload, first, last),
        "sending_rate": rates(sent.t_ns - lifetime.zero_ns, sent.payload, first, last),
        "ack_ratio": NOTHING if flow.kind == "udp" else _ack_ratio(lifetime, first, last),
    }
    side: Side = "to_client" if flow.sender == "server" else "to_server"
    directions = [part.directions[side] for part in view.every_path if side in part.directions]
    if len(directions) == len(view.paths):
        whole = view.to_client if side == "to_client" else view.to_server
        passages = [direction.passage for direction in directions]
        if view.in_sequence:
            passages = [] if whole is None else [whole]
        found["one_way_delay"] = _delays(passages, lifetime, first, last)
        found["drops"] = _drops(directions, lifetime, first, last)
    return found


def _ack_ratio(lifetime: Lifetime, first: int, last: int) -> Points:
    """Packets with data per packet of the receiver, in each bin that has both."""
    # A handshake is answered by rules of its own (RFC 9000 §13.2.1).
    data, answers = (
        each.where((each.form == Form.SHORT) | (each.form == Form.NONE))
        for each in (lifetime.received, lifetime.answers)
    )
    data = data.where(data.payload > 0)
    came = sums(data.t_ns - lifetime.zero_ns, 1, first, last)
    told = sums(answers.t_ns - lifetime.zero_ns, 1, first, last)
    both = (came > 0) & (told > 0)
    return Points(beginnings(first, last)[both], came[both] / told[both])


def _delays(passages: list[Passage], lifetime: Lifetime, first: int, last: int) -> Points:
    parts = [_delay(passage, lifetime.flow) for passage in passages]
    if not parts:
        return NOTHING
    out_ns, delay_ms = (np.concatenate(each) for each in zip(*parts, strict=True))
    if not len(out_ns):
        return NOTHING
    counts = sums(out_ns - lifetime.zero_ns, 1, first, last)
    some = counts > 0
    totals = sums(out_ns - lifetime.zero_ns, delay_ms, first, last)
    return Points(beginnings(first, last)[some], totals[some] / counts[some])


def _delay(passage: Passage, flow: int) -> tuple[Ints, Floats]:
    """When each packet of a flow came out, ns since the epoch, and how long it took, ms."""
    mine = np.flatnonzero((passage.entered.flow == flow) & passage.arrived)
    access = 0 if passage.access_ns is None else passage.access_ns[mine]
    out_ns = passage.out_ns[mine] + access
    return out_ns, (out_ns - passage.entered.t_ns[mine]) / 1e6


def _drops(directions: list[Direction], lifetime: Lifetime, first: int, last: int) -> Points:
    when = []
    for direction in directions:
        entered = direction.passage.entered
        dropped = (direction.replayed.fate == Fate.QUEUE_DROP) & (entered.flow == lifetime.flow)
        when.append(entered.t_ns[dropped])
    return Points(beginnings(first, last), sums(np.concatenate(when) - lifetime.zero_ns, 1, first, last))
