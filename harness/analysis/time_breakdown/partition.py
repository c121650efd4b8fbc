"""Every moment of a transfer in exactly one state. Pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from harness.analysis.time_breakdown import rules
from harness.analysis.time_breakdown.transfer import (
    Conversation,
    Ints,
    cut_edges,
    flagged_spans,
    in_spans,
    merge_spans,
    sorted_unique,
    subtract,
)
from harness.outcome.measured import STATES, State

Rule = Callable[[Conversation], Ints]
#: External causes come before what the sender does by itself; a moment belongs to the first state that claims it.
PRECEDENCE: dict[State, Rule] = {
    "handshake": rules.handshake,
    "request": rules.request,
    "line_rate": rules.line_rate,
    "probe_timeouts": rules.probe_timeouts,
    "flow_control": rules.flow_control,
    "shared": rules.shared,
    "buffer_limited": rules.buffer_limited,
    "sender_idle": rules.sender_idle,
    "recovery": rules.recovery,
    "spurious_recovery": rules.spurious_recovery,
    "slow_start": rules.slow_start,
    "window_limited": rules.window_limited,
}
#: In these states the sender waits for acknowledgements.
_WAITING_STATES: tuple[State, ...] = ("recovery", "spurious_recovery", "slow_start", "window_limited")
_ORDER: tuple[State, ...] = tuple(STATES)
#: Number of bands in `Attribution.bands`.
BANDS = 100


def partition(conv: Conversation) -> tuple[Ints, Ints]:
    """(edges, states): the n pieces of the time from 0 to the end, shape (n + 1,), and the state of each, shape (n,).

    A state is its index in `STATES`. Neighbours differ. Unclaimed time is unexplained.
    """
    spans = {state: rule(conv) for state, rule in PRECEDENCE.items()}
    edges = cut_edges(0, conv.end_ns, list(spans.values()))
    states = _label_pieces(edges, spans)
    waiting = flagged_spans(edges, np.isin(states, [_ORDER.index(state) for state in _WAITING_STATES]))
    # If only lost data are left to send, the sender does not wait for a window.
    late = rules.acknowledgements(conv, subtract(waiting, merge_spans(rules.repair(conv))))
    if len(late):
        finer = sorted_unique(edges, np.clip(late.ravel(), 0, conv.end_ns))
        states = states[np.searchsorted(edges, finer[:-1], side="right") - 1]
        edges = finer
        states[in_spans(edges[:-1], late)] = _ORDER.index("acknowledgements")
    if not len(states):
        return edges, states
    changes = np.concatenate([[True], states[1:] != states[:-1]])
    return np.append(edges[:-1][changes], edges[-1]), states[changes]


def _label_pieces(edges: Ints, spans: dict[State, Ints]) -> Ints:
    """The first of the states that claims each piece, shape (n,)."""
    states = np.full(len(edges) - 1, _ORDER.index("unexplained"), np.int64)
    for state in reversed(spans):
        states[in_spans(edges[:-1], spans[state])] = _ORDER.index(state)
    return states


def state_durations(edges: Ints, states: Ints) -> dict[State, int]:
    """How long each state lasted, ns; states that never occurred are left out."""
    sums = np.zeros(len(_ORDER), np.int64)
    np.add.at(sums, states, np.diff(edges))
    return {state: int(sums[place]) for place, state in enumerate(_ORDER) if sums[place]}


def band_text(edges: Ints, states: Ints) -> str:
    """The states over time in hundredths; each shows its longest state (see `Attribution.bands`)."""
    if edges[-1] <= edges[0]:
        return ""
    cuts = np.round(np.linspace(edges[0], edges[-1], BANDS + 1)).astype(np.int64)
    finer = sorted_unique(edges, cuts)
    place = states[np.searchsorted(edges, finer[:-1], side="right") - 1]
    band = np.clip(np.searchsorted(cuts, finer[:-1], side="right") - 1, 0, BANDS - 1)
    times = np.zeros((BANDS, len(_ORDER)), np.int64)
    np.add.at(times, (band, place), np.diff(finer))
    longest = times.argmax(axis=1)
    starts = np.flatnonzero(np.concatenate([[True], longest[1:] != longest[:-1]]))
    counts = np.diff(np.append(starts, BANDS))
    symbols = list(STATES.values())
    return "".join(f"{symbols[longest[at]]}{count}" for at, count in zip(starts, counts, strict=True))
