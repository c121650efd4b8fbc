"""What happens when flows come and go: drops, overshoot, and how soon the link is full and shared.

A phase is a time in which the same flows with congestion control are active (`harness.analysis.metrics.network`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from harness.analysis.link_replay import Fate
from harness.analysis.metric_registry import Finding, declare, measures
from harness.analysis.metrics.network import Phase, contended_phases
from harness.analysis.run_view import RunView
from harness.analysis.shared_flows import SharedFlow, flows_of
from harness.analysis.timeseries import NETWORK, bottleneck_number
from harness.analysis.timeseries.grid import BIN, Points, bin_sums
from harness.stats.intervals import jain_index

#: How long after its first moment a phase is at its start, s.
ONSET = 2.0
#: Jain's index of a bin from which on its flows share evenly, and the share of the rate from which on a link is full.
EVEN, FULL = 0.9, 0.9
#: So many bins in a row have to be even, or full: a single one may be so by chance.
IN_A_ROW = 3
_BOTH = "both captures"
_RULE = f"{IN_A_ROW} bins of {BIN:g} s in a row"

_ONSET_DROPS = declare(
    "onset_drop_rate",
    layer="network",
    unit="1",
    better="lower",
    title=f"packets that the queue dropped in the first {ONSET:g} s of a phase, by those that came then",
    formula="dropped / came, towards where the data go",
    source="both captures; RFC 5166 §2.1.3",
)
_SETTLED_DROPS = declare(
    "settled_drop_rate",
    layer="network",
    unit="1",
    better="lower",
    title=f"packets that the queue dropped in a phase after its first {ONSET:g} s, by those that came then",
    formula="dropped / came, towards where the data go",
    source="both captures; RFC 5166 §2.1.3",
)
_CONVERGENCE = declare(
    "convergence_time",
    layer="network",
    unit="s",
    better="lower",
    title="from the start of a phase until its flows share evenly, where two at least share it",
    formula=f"until the first of {_RULE} whose throughputs have Jain's index {EVEN:g} and more; the length of the "
    "phase where there are none",
    source="captures at the receivers' sides; RFC 5166 §2.3.1 and §2.6",
)
_FILL = declare(
    "fill_time",
    layer="network",
    unit="s",
    better="lower",
    title="from the start of a phase until the link is full",
    formula=f"until the first of {_RULE} in which {FULL:.0%} of what the rate allows left it; the length of the phase "
    "where there are none",
    source="both captures (`series.bottleneck`); lab.json",
)
_PEAK = declare(
    "onset_peak_rate",
    layer="network",
    unit="Mbit/s",
    better="neutral",
    title=f"the most that all flows sent in {BIN:g} s, of the first {ONSET:g} s of a phase",
    formula=f"max Σᵢ 8·payload / {BIN:g} s over the bins; only where all flows send in one direction",
    source="captures at the senders' sides",
)


@measures
def drops_by_phase(view: RunView) -> Iterator[Finding]:
    """How much the queue drops at the start of a phase, and how much afterwards."""
    flows = flows_of(view)
    direction = view.directions.get(view.data_side)
    if direction is None or not flows:
        return
    came = (direction.passage.entered.t_ns - flows[0].lifetime.zero_ns) / 1e9
    dropped = direction.replay.fate == Fate.QUEUE_DROP
    for phase in contended_phases(flows):
        settled = min(phase.start + ONSET, phase.end)
        for metric, start, end in ((_ONSET_DROPS, phase.start, settled), (_SETTLED_DROPS, settled, phase.end)):
            inside = (came >= start) & (came < end)
            if inside.any():
                yield metric.of(float(dropped[inside].mean()), _BOTH, phase=phase.number)


@measures
def starts_of_phases(view: RunView) -> Iterator[Finding]:
    """How long flows take to share evenly and to fill the link, and how much they send before."""
    flows = flows_of(view)
    if not flows:
        return
    sent = flows[0].series.points(NETWORK, "sending_rate")
    one_way = len({flow.side for flow in flows}) == 1
    for phase in contended_phases(flows):
        if len(phase.flows) > 1:
            yield _CONVERGENCE.of(_time_until(_is_even(phase), phase), "captures", phase=phase.number)
        sending = [flow for flow in phase.flows if flow.side == view.data_side]
        if sending:
            yield _FILL.of(_time_until(_is_full(sending[0], phase), phase), _BOTH, phase=phase.number)
        peak = _within(sent, phase)[: round(ONSET / BIN)]
        if one_way and len(peak):
            yield _PEAK.of(float(peak.max()), "captures", phase=phase.number)


def _time_until(is_so: Sequence[bool], phase: Phase) -> float:
    """From the start of a phase until the first bins in a row that are so, s."""
    for number in range(len(is_so) - IN_A_ROW + 1):
        if all(is_so[number : number + IN_A_ROW]):
            return number * BIN
    return phase.seconds


def _is_even(phase: Phase) -> list[bool]:
    """Of each bin of a phase, which are counted from its first moment: whether its flows share evenly."""
    last = int(phase.seconds / BIN + 1e-9) - 1
    columns = []
    for flow in phase.flows:
        received = flow.lifetime.received
        since_ns = received.t_ns - flow.lifetime.zero_ns - round(phase.start * 1e9)
        columns.append(bin_sums(since_ns, received.payload, 0, last))
    rows = np.array(columns).T
    return [bool(row.any()) and jain_index(row.tolist()) >= EVEN for row in rows]


def _is_full(flow: SharedFlow, phase: Phase) -> list[bool]:
    """Of each bin of a phase: whether the flow's link is full."""
    rate = flow.series.points(bottleneck_number(0, 1, flow.side), "sending_rate")
    allowed = flow.capacity(rate.t)
    share = np.divide(rate.value, allowed, out=np.zeros_like(allowed), where=allowed > 0)
    return [bool(full) for full in _within(Points(rate.t, share), phase) >= FULL]


def _within(points: Points, phase: Phase) -> npt.NDArray[np.float64]:
    """The bins of a series that lie wholly within a phase."""
    return points.value[(points.t >= phase.start - 1e-9) & (points.t + BIN <= phase.end + 1e-9)]
