"""What the captures show of each flow: rates, delay, drops."""

from __future__ import annotations

import numpy as np

from harness.analysis.direction import Direction
from harness.analysis.link import LinkView
from harness.analysis.replay import Fate
from harness.analysis.series.grid import NOTHING, Points, beginnings, bin_of, rates, sums
from harness.analysis.series.lifetimes import Lifetime
from harness.traces.lab import FlowAddresses


def wire_series(view: LinkView, flow: FlowAddresses, lifetime: Lifetime) -> dict[str, Points]:
    """throughput, sending_rate, one_way_delay and drops of one flow, over all bins in which it had packets."""
    sent, received = lifetime.sent, lifetime.received
    first = int(bin_of(np.array([lifetime.start_ns]))[0])
    last = int(bin_of(np.array([max(lifetime.end_ns - 1, int(sent.t_ns[-1]) - lifetime.zero_ns, lifetime.last_ns)]))[0])
    found = {
        "throughput": rates(received.t_ns - lifetime.zero_ns, received.payload, first, last),
        "sending_rate": rates(sent.t_ns - lifetime.zero_ns, sent.payload, first, last),
    }
    direction = view.directions.get("to_client" if flow.sender == "server" else "to_server")
    if direction is not None:
        found["one_way_delay"] = _delays(direction, lifetime, first, last)
        found["drops"] = _drops(direction, lifetime, first, last)
    return found


def _delays(direction: Direction, lifetime: Lifetime, first: int, last: int) -> Points:
    passage = direction.passage
    mine = np.flatnonzero((passage.entered.flow == lifetime.flow) & passage.arrived)
    if not len(mine):
        return NOTHING
    access = 0 if passage.access_ns is None else passage.access_ns[mine]
    out_ns = passage.out_ns[mine] + access
    delay_ms = (out_ns - passage.entered.t_ns[mine]) / 1e6
    counts = sums(out_ns - lifetime.zero_ns, 1, first, last)
    some = counts > 0
    totals = sums(out_ns - lifetime.zero_ns, delay_ms, first, last)
    return Points(beginnings(first, last)[some], totals[some] / counts[some])


def _drops(direction: Direction, lifetime: Lifetime, first: int, last: int) -> Points:
    entered = direction.passage.entered
    dropped = (direction.replayed.fate == Fate.QUEUE_DROP) & (entered.flow == lifetime.flow)
    return Points(beginnings(first, last), sums(entered.t_ns[dropped] - lifetime.zero_ns, 1, first, last))
