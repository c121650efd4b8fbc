"""A path's rate and delays over time, as seen by a sender at the servers' end and its client. Pure.

Times are seconds since the client's first datagram. The timeline of an upload has the path's ends exchanged: what is
called its server is the client, which sends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from harness.scenario.schema import FRAME_HEADER, MTU, Link, Path, Policer, Property, fixed

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

# numpy is imported where it is used: most commands read no trace.

#: A full packet with its Ethernet header, bits.
FRAME_BITS = 8 * (MTU + FRAME_HEADER)


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
    """Whether it forwards anything to the client."""
    up_to_server: bool = True
    """Whether it forwards anything to the server."""

    def with_value(self, name: Literal["rate_bps", "to_client", "to_server"], value: float) -> PathState:
        """The state with another rate or delay."""
        if name == "rate_bps":
            return replace(self, rate_bps=value)
        return replace(self, to_client=value) if name == "to_client" else replace(self, to_server=value)


@dataclass(frozen=True)
class Timeline:
    """The states of a path, in order of time; the first holds from the start, the last for ever."""

    states: tuple[PathState, ...]
    bucket_bits: float = 0.0
    """What a policer towards the client lets pass at once, beyond what the rate carries."""
    upload: bool = False
    """Whether the sender is who opens the connection."""

    @property
    def data_start(self) -> float:
        """When the sender can begin with its data: after the handshake (RFC 9001 §4.1), and what answers a request
        once that has come.
        """
        if self.upload:
            return self.at_server(self.at_client(0.0))
        return self.at_server(self.at_client(self.at_server(0.0)))

    def at(self, moment: float) -> PathState:
        """The state in force at a moment."""
        return [state for state in self.states if state.since <= moment or state is self.states[0]][-1]

    def _until(self, index: int) -> float:
        return self.states[index + 1].since if index + 1 < len(self.states) else math.inf

    def up_from(self, moment: float, *, to_client: bool = True) -> float:
        """The first moment, from the given one on, at which a direction forwards; infinite for never."""
        for index, state in enumerate(self.states):
            if (state.up if to_client else state.up_to_server) and self._until(index) > moment:
                return max(moment, state.since) if index else moment
        return math.inf

    def at_client(self, moment: float) -> float:
        """When a small packet that leaves the server at that moment arrives at the client."""
        leaves = self.up_from(moment)
        return leaves + self.at(leaves).to_client

    def at_server(self, moment: float) -> float:
        """When a small packet that leaves the client at that moment arrives at the server."""
        leaves = self.up_from(moment, to_client=False)
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

    def head_start(self, moment: float) -> float:
        """How much earlier than one after the other packets leave behind a full bucket, s."""
        rate = self.at(moment).rate_bps
        return self.bucket_bits / rate if rate else 0.0

    def round_trip(self, moment: float) -> float:
        """Time from when a small packet leaves the server until its answer arrives, s."""
        return self.at_server(self.at_client(moment)) - moment

    def during(self, since: float, until: float) -> tuple[PathState, ...]:
        """The states between two moments; the first begins at `since`."""
        first = self.at(since)
        later = (state for state in self.states if since < state.since < until)
        return (replace(first, since=since), *later)

    def cut(self, holes: Iterable[tuple[float, float]], *, to_client: bool = True, to_server: bool = True) -> Timeline:
        """The timeline with outages added, of both directions or of one: (from, until), s."""
        states: Sequence[PathState] = self.states
        for begin, end in holes:
            current = replace(self, states=tuple(states))
            before = [state for state in states if state.since < begin]
            inside = [
                replace(state, up=state.up and not to_client, up_to_server=state.up_to_server and not to_server)
                for state in current.during(begin, end)
            ]
            after = [] if math.isinf(end) else current.during(end, math.inf)
            states = [*before, *inside, *after]
        return replace(self, states=tuple(states))


#: Steps of a traced path's states, and how long they go on; after that its mean values hold.
_TRACE_STEP, _TRACE_END = 0.3, 600.0


def _with_traces(path: Path, states: list[PathState]) -> list[PathState]:
    """The states of a path whose rate or delays follow traces: means of short steps.

    A trace that starts anywhere has its mean at any time.
    """
    if path.to_client.traced is None and path.to_server.traced is None:
        return states
    import numpy as np

    moments = np.arange(0.0, _TRACE_END, _TRACE_STEP)
    courses: dict[Literal["rate_bps", "to_client", "to_server"], Floats | None] = {
        "rate_bps": _course(path.to_client, "rate", moments),
        "to_client": _course(path.to_client, "delay", moments),
        "to_server": _course(path.to_server, "delay", moments),
    }
    present = {name: course for name, course in courses.items() if course is not None}
    if not present:
        return states
    scale = {"rate_bps": 1.0, "to_client": 1e-9, "to_server": 1e-9}
    untraced = Timeline(tuple(states))
    # Changes are of the other values.
    times = sorted({*moments.tolist(), *(state.since for state in states), _TRACE_END})
    traced = []
    for since in times:
        step = int(since / _TRACE_STEP + 1e-6)
        state = replace(untraced.at(since), since=since)
        for name, course in present.items():
            if step < len(course):
                state = state.with_value(name, float(course[step]) * scale[name])
        traced.append(state)
    return traced


def _course(link: Link, name: Property, moments: Floats) -> Floats | None:
    """The means of a link's traced value over the steps that begin at moments; None where there is nothing to say."""
    import numpy as np

    trace = getattr(link.traced, name) if link.traced is not None else None
    if trace is None or trace.offset == "drawn" or not trace.is_here:
        return None
    content, start = trace.content, trace.offset.value
    if content.has_opportunities:
        edges, amounts = content.times_ns.astype(float), np.full(len(content.times_ns), FRAME_BITS * 1e9)
        done = np.concatenate([[0.0], np.cumsum(amounts)])
        edges = np.concatenate([[0.0], edges])
    else:
        edges = np.append(content.times_ns, content.period_ns).astype(float)
        done = np.concatenate([[0.0], np.cumsum(np.diff(edges) * content.values[name])])
    passed = np.append(moments, moments[-1] + _TRACE_STEP) * 1e9 + start
    rounds = np.floor(passed / content.period_ns) if trace.loop else np.zeros(len(passed))
    work = np.interp(passed - rounds * content.period_ns, edges, done) + rounds * done[-1]
    if not trace.loop and not content.has_opportunities:
        work += np.maximum(0.0, passed - content.period_ns) * content.values[name][-1]
    return np.asarray(np.diff(work) / (_TRACE_STEP * 1e9), np.float64)


def timeline(path: Path) -> Timeline:
    """A path's states: from the first datagram, from each change on, and while it is dark.

    The path's changes are plain (`Path.is_plain`).
    """
    rate, down, up = path.to_client.rate, path.to_client.delay, path.to_server.delay
    queue = path.to_client.queue
    policer = queue if isinstance(queue, Policer) else None
    states = [PathState(0.0, float(rate.value), down.seconds, up.seconds)]
    for change in path.changes:
        to_client_change = path.change_to_client(change)
        if to_client_change is not None:
            rate, down = (
                fixed(to_client_change.rate) if to_client_change.rate is not None else rate,
                fixed(to_client_change.delay) if to_client_change.delay is not None else down,
            )
        to_server_change = path.change_to_server(change)
        if to_server_change is not None and to_server_change.delay is not None:
            up = fixed(to_server_change.delay)
        states.append(PathState(change.at.seconds, float(rate.value), down.seconds, up.seconds))
    states = _with_traces(path, states)
    # A change at the very beginning replaces the first state.
    states = [
        state
        for state, later in zip(states, [*states[1:], None], strict=True)
        if later is None or later.since > state.since
    ]
    if policer is not None and not policer.drops:
        # It limits nothing.
        states = [replace(state, rate_bps=math.inf) for state in states]
    bucket_bits = 0.0 if policer is None else 8.0 * policer.burst.bytes
    course = Timeline(tuple(states), bucket_bits)
    for begin, end, side in path.outages:
        hole = [(begin.seconds, end.seconds)]
        direction = None if side is None else path.direction(side)
        course = course.cut(hole, to_client=direction != "to_server", to_server=direction != "to_client")
    return course
