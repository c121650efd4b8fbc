"""What goes with a part: the figure behind it, in few words. Pure."""

from __future__ import annotations

import numpy as np

from harness.attribution import rules
from harness.attribution.conversation import Conversation
from harness.attribution.spans import inside
from harness.outcome.attributed import State
from harness.text import counted


def notes_of(talk: Conversation) -> dict[State, str]:
    """State → what goes with it; of some there is nothing to say."""
    found: dict[State, str] = {}
    sizes, late = talk.rounds.size, talk.rounds.late_ns
    if len(sizes) and talk.payload:
        found["slow_start"] = f"from {counted(max(1, round(int(sizes[0]) / talk.payload)), 'packet')}"
    lost = int(talk.sent.lost.sum())
    if lost:
        found["recovery"] = f"{counted(lost, 'packet')} lost{_overshoot(talk)}"
    blocked = [one for one in talk.credits or () if len(rules.exhausted(one, talk))]
    if blocked:
        names = " and ".join(one.name for one in blocked)
        found["flow_control"] = f"credit of the {names}"
    elif talk.advertised is not None:
        found["flow_control"] = "the receive window"
    steady = rules.sender_idle(talk)
    if len(steady):
        moments = talk.sent.t_ns[inside(talk.sent.t_ns, steady)]
        if len(moments):
            found["sender_idle"] = f"with {np.median(talk.in_flight(moments)) / 1e3:.0f} kB in flight"
    if len(late):
        found["acknowledgements"] = f"up to {late.max() / 1e6:.0f} ms late"
    timeouts = len(rules.probe_timeouts(talk))
    if timeouts:
        found["probe_timeouts"] = counted(timeouts, "silence")
    return found


def _overshoot(talk: Conversation) -> str:
    """How much was in flight when the first loss was detected, in bandwidth-delay products."""
    when, _ = talk.detected
    before = talk.sent.t_ns[talk.sent.t_ns <= when[0]] if len(when) else when
    if not len(before) or not (bdp := talk.bdp_at(int(before[-1]))):
        return ""
    return f", {int(talk.in_flight(before[-1:])[0]) / bdp:.1f} BDP in flight at the first loss"
