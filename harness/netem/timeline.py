"""A path's rate and delays over time, as seen by a sender at the servers' end and its client. Pure.

Times are seconds since the client's first datagram.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.scenario.schema import Path


@dataclass(frozen=True)
class PathState:
    """A path from a moment on, until the next state."""

    since: float
    rate_bps: float
    """Of the direction server to client; 0 where nothing passes."""
    to_client: float
    """One-way delay of that direction, s."""
    to_server: float
    """One-way delay of the other direction, s."""
    up: bool = True
    """Whether it forwards anything, in either direction."""


@dataclass(frozen=True)
class Timeline:
    """The states of a path, in order of time; the first holds from the start, the last for ever."""

    states: tuple[PathState, ...]

    def at(self, moment: float) -> PathState:
        """The state in force at a moment."""
        return [state for state in self.states if state.since <= moment or state is self.states[0]][-1]

    def _until(self, index: int) -> float:
        return self.states[index + 1].since if index + 1 < len(self.states) else math.inf

    def up_from(self, moment: float) -> float:
        """The first moment, from the given one on, at which the path forwards; infinite for never."""
        for index, state in enumerate(self.states):
            if state.up and self._until(index) > moment:
                return max(moment, state.since) if index else moment
        return math.inf

    def at_client(self, moment: float) -> float:
        """When a small packet that leaves the server at that moment arrives at the client."""
        leaves = self.up_from(moment)
        return leaves + self.at(leaves).to_client

    def at_server(self, moment: float) -> float:
        """When a small packet that leaves the client at that moment arrives at the server."""
        leaves = self.up_from(moment)
        return leaves + self.at(leaves).to_server

    def carried(self, bits: float, start: float) -> float:
        """When the last of `bits` bits, sent at line rate from `start`, has entered the link; infinite for never."""
        for index, state in enumerate(self.states):
            until = self._until(index)
            begin = max(start, state.since) if index else start
            rate = state.rate_bps if state.up else 0.0
            if begin >= until or not rate:
                continue
            if bits <= rate * (until - begin):
                return begin + bits / rate
            bits -= rate * (until - begin)
        return math.inf

    def round_trip(self, moment: float) -> float:
        """Time from when a small packet leaves the server until its answer arrives, s."""
        return self.at_server(self.at_client(moment)) - moment

    def during(self, since: float, until: float) -> tuple[PathState, ...]:
        """The states between two moments; the first begins at `since`."""
        first = self.at(since)
        later = (state for state in self.states if since < state.since < until)
        return (replace(first, since=since), *later)

    def cut(self, holes: Iterable[tuple[float, float]]) -> Timeline:
        """The timeline with outages added: (from, until), s."""
        states: Sequence[PathState] = self.states
        for begin, end in holes:
            current = Timeline(tuple(states))
            before = [state for state in states if state.since < begin]
            inside = [replace(state, up=False) for state in current.during(begin, end)]
            after = [] if math.isinf(end) else current.during(end, math.inf)
            states = [*before, *inside, *after]
        return Timeline(tuple(states))


def timeline(path: Path) -> Timeline:
    """A path's states: from the first datagram, from each change on, and while it is dark."""
    rate, down, up = path.to_client.rate, path.to_client.delay, path.to_server.delay
    states = [PathState(0.0, float(rate.value), down.seconds, up.seconds)]
    for change in path.changes:
        to_client_change = path.change_to_client(change)
        if to_client_change is not None:
            rate, down = (
                to_client_change.rate if to_client_change.rate is not None else rate,
                to_client_change.delay if to_client_change.delay is not None else down,
            )
        to_server_change = path.change_to_server(change)
        if to_server_change is not None and to_server_change.delay is not None:
            up = to_server_change.delay
        states.append(PathState(change.at.seconds, float(rate.value), down.seconds, up.seconds))
    # A change at the very beginning replaces the first state.
    states = [
        state
        for state, later in zip(states, [*states[1:], None], strict=True)
        if later is None or later.since > state.since
    ]
    holes = path.blackhole.times if path.blackhole is not None else ()
    return Timeline(tuple(states)).cut((begin.seconds, end.seconds) for begin, end in holes)
