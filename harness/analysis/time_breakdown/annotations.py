"""What goes with a part: the figure behind it, in few words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.analysis.time_breakdown import rules
from harness.analysis.time_breakdown.intervals import inside
from harness.analysis.time_breakdown.transfer import RECEIVE_WINDOW, Conversation, Credit
from harness.formatting import counted
from harness.outcome.measured import State


def notes_of(talk: Conversation) -> dict[State, str]:
    """State → what goes with it; of some there is nothing to say."""
    found: dict[State, str] = {}
    late = talk.rounds.late_ns
    if len(late):
        size, packets = int(talk.rounds.size[0]), int(talk.rounds.packets[0])
        found["slow_start"] = f"from {size / 1e3:.1f} kB in {counted(packets, 'packet')}"
    lost = int(talk.sent.lost.sum())
    if lost:
        found["recovery"] = f"{counted(lost, 'packet')} lost{_overshoot(talk)}"
    if len(talk.mistaken.t_ns):
        found["spurious_recovery"] = f"{counted(len(talk.mistaken.t_ns), 'packet')} taken for lost that came"
    blocked = [one for one in talk.credits or () if len(rules.exhausted(one, talk))]
    if blocked:
        found["flow_control"] = _blocked(blocked, talk)
    kept = talk.sent.t_ns[inside(talk.sent.t_ns, rules.buffer_limited(talk))]
    if len(kept):
        found["buffer_limited"] = f"with up to {talk.in_flight(kept).max() / 1e3:.0f} kB in flight"
    idle = talk.sent.t_ns[inside(talk.sent.t_ns, rules.sender_idle(talk))]
    if len(idle):
        found["sender_idle"] = f"with {np.median(talk.in_flight(idle)) / 1e3:.0f} kB in flight"
    if len(late):
        found["acknowledgements"] = f"up to {late.max() / 1e6:.0f} ms late"
    timeouts = len(rules.probe_timeouts(talk))
    if timeouts:
        found["probe_timeouts"] = counted(timeouts, "silence")
    return found


def _blocked(credits: Sequence[Credit], talk: Conversation) -> str:
    """Whose credit was used up; of TCP's receive window also how large it was at most meanwhile."""
    (first, *_) = credits
    if first.name != RECEIVE_WINDOW:
        return f"credit of the {' and '.join(one.name for one in credits)}"
    ends = rules.exhausted(first, talk)[:, 1]
    return f"receive window of {talk.in_flight(ends - 1).max() / 1e3:.0f} kB"


def _overshoot(talk: Conversation) -> str:
    """How much was in flight when the first loss was detected, in bandwidth-delay products."""
    when, _ = talk.detected
    before = talk.sent.t_ns[talk.sent.t_ns <= when[0]] if len(when) else when
    if not len(before) or not (bdp := talk.bdp_at(int(before[-1]))):
        return ""
    return f", {int(talk.in_flight(before[-1:])[0]) / bdp:.1f} BDP in flight at the first loss"
