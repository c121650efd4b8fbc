"""What the captures show of each flow: rates, delay, drops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.metrics.replay import Fate
from harness.metrics.series.grid import NOTHING, Points, beginnings, bin_of, rates, sums
from harness.metrics.series.lives import Life
from harness.traces.lab import FlowAddresses

if TYPE_CHECKING:
    from harness.metrics.direction import Direction
    from harness.metrics.view import RunView


def wire_series(view: RunView, flow: FlowAddresses, life: Life) -> dict[str, Points]:
    """throughput, sending_rate, one_way_delay and drops of one flow, over all bins in which it had packets."""
    sent, received = life.sent, life.received
    first = int(bin_of(np.array([life.start_ns]))[0])
    last = int(bin_of(np.array([max(life.end_ns - 1, int(sent.t_ns[-1]) - life.zero_ns, life.last_ns)]))[0])
    found = {
        "throughput": rates(received.t_ns - life.zero_ns, received.payload, first, last),
        "sending_rate": rates(sent.t_ns - life.zero_ns, sent.payload, first, last),
    }
    direction = view.directions.get("to_client" if flow.sender == "server" else "to_server")
    if direction is not None:
        found["one_way_delay"] = _delays(direction, life, first, last)
        found["drops"] = _drops(direction, life, first, last)
    return found


def _delays(direction: Direction, life: Life, first: int, last: int) -> Points:
    passage = direction.passage
    mine = np.flatnonzero((passage.entered.flow == life.flow) & passage.arrived)
    if not len(mine):
        return NOTHING
    access = 0 if passage.access_ns is None else passage.access_ns[mine]
    out_ns = passage.out_ns[mine] + access
    delay_ms = (out_ns - passage.entered.t_ns[mine]) / 1e6
    counts = sums(out_ns - life.zero_ns, 1, first, last)
    some = counts > 0
    totals = sums(out_ns - life.zero_ns, delay_ms, first, last)
    return Points(beginnings(first, last)[some], totals[some] / counts[some])


def _drops(direction: Direction, life: Life, first: int, last: int) -> Points:
    entered = direction.passage.entered
    dropped = (direction.replayed.fate == Fate.QUEUE_DROP) & (entered.flow == life.flow)
    return Points(beginnings(first, last), sums(entered.t_ns[dropped] - life.zero_ns, 1, first, last))
