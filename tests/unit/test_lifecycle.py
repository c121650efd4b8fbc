"""The state machine both engines drive, over interleavings that no lab would show."""

from __future__ import annotations

import ast
import heapq
import itertools
import sys
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from simulator import lifecycle
from simulator.lifecycle import Action, CutOff, Ended, Enter, Flow, Lifecycle, Start, TimedOut

#: Whole and half seconds, so that many things fall on one instant.
NEVER = 1000.0


@dataclass
class Script:
    """What the endpoints of a run would do."""

    flows: list[Flow]
    ready: float
    runs: dict[tuple[str, int], tuple[float, int]]
    """(host, transfer) → (seconds until it ends by itself, exit code)."""
    first_datagrams: dict[tuple[str, int], tuple[float, float]]
    """(client, transfer) → (seconds until its first datagram, and from there until its file is whole)."""
    tardiness: float
    """Seconds by which an engine looks late at what is due."""


@dataclass
class Played:
    """One run that was played to its end."""

    script: Script
    log: list[tuple[float, Action]] = field(default_factory=list)
    openings: dict[tuple[str, int], float] = field(default_factory=dict)
    """When a client's first datagram was told of."""
    ended_at: float = NEVER

    def is_whole(self, client: str, now: float) -> bool:
        """Whether the file of a client's current transfer has all its bytes."""
        current = max(index for host, index in self.times(Start) if host == client)
        began, (_, seconds) = self.openings.get((client, current), NEVER), self.script.first_datagrams[client, current]
        return began + seconds <= now

    def times(self, kind: type[Action]) -> dict[tuple[str, int], float]:
        """When an action of a kind fell to a client or server and its transfer."""
        first_times = {}
        for at, action in self.log:
            if isinstance(action, kind) and not isinstance(action, Enter):
                host = action.client if isinstance(action, CutOff | TimedOut) else action.host
                assert (host, action.index) not in first_times, "each at most once"
                first_times[host, action.index] = at
        return first_times


@dataclass
class Stage:
    """Does what the lifecycle says, as an engine would, and tells it what endpoints do."""

    played: Played
    lifecycle: Lifecycle = field(init=False)
    ready: float = field(init=False)
    """When the path is up; never again once it is."""
    now: float = 0.0
    ends: list[tuple[float, int, str, int]] = field(default_factory=list)
    openings: list[tuple[float, int, str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lifecycle = Lifecycle(self.played.script.flows, lambda client: self.played.is_whole(client, self.now))
        self._number = itertools.count()
        self.ready = self.played.script.ready

    def perform(self, actions: list[Action]) -> None:
        for action in actions:
            self.played.log.append((self.now, action))
            if isinstance(action, Start):
                self._start(action)
            elif isinstance(action, CutOff):
                for host in (action.client, action.server):
                    heapq.heappush(self.ends, (self.now + 0.5, next(self._number), host, 143))
        if self.lifecycle.over and self.played.ended_at == NEVER:
            self.played.ended_at = self.now

    def _start(self, action: Start) -> None:
        script, name = self.played.script, (action.host, action.index)
        seconds, code = script.runs[name]
        # A client waits for the path by itself.
        since = max(self.now, script.ready) if action.host.startswith("client") else self.now
        if since + seconds < NEVER:
            heapq.heappush(self.ends, (since + seconds, next(self._number), action.host, code))
        # Who has ended says nothing any more.
        if name in script.first_datagrams and script.first_datagrams[name][0] < seconds:
            heapq.heappush(self.openings, (since + script.first_datagrams[name][0], next(self._number), *name))

    def advance(self) -> None:
        """What comes next: an opening, readiness, an end, what is due."""
        if self.openings and self.openings[0][0] == self.now:
            _, _, host, index = heapq.heappop(self.openings)
            # A handshake has several datagrams. Of who was told to end there may be some.
            for _ in range(2):
                self.perform(self.lifecycle.began(host, self.now))
            if not self.lifecycle.over:
                self.played.openings[host, index] = self.now
        elif self.ready == self.now:
            self.ready = NEVER
            self.perform(self.lifecycle.ready(self.now))
        elif self.ends and self.ends[0][0] == self.now:
            _, _, host, code = heapq.heappop(self.ends)
            self.perform(self.lifecycle.ended(host, code, self.now))
        else:
            before = len(self.played.log), self.lifecycle.wake
            self.perform(self.lifecycle.due(self.now))
            assert (len(self.played.log), self.lifecycle.wake) != before, "it said when to wake, and nothing was due"


def play(script: Script) -> Played:
    """Do what the lifecycle says, as an engine would; ends are told in order, and before what is due then."""
    played_run = Played(script)
    stage = Stage(played_run)
    life = stage.lifecycle
    stage.perform(life.begin(0.0))
    while not life.over:
        wake = NEVER if life.wake is None else life.wake + script.tardiness
        first = [heap[0][0] for heap in (stage.ends, stage.openings) if heap]
        stage.now = min([wake, stage.ready, *first])
        assert stage.now < NEVER, "somebody runs and nothing ends it"
        stage.advance()
    log = list(played_run.log)
    # What still ends, and what would have been due, is of no account.
    while stage.ends:
        stage.now, _, host, code = heapq.heappop(stage.ends)
        stage.perform(life.ended(host, code, stage.now))
    stage.perform(life.due(NEVER))
    assert played_run.log == log
    assert life.wake is None
    return played_run


def _halves(least: float, most: float) -> st.SearchStrategy[float]:
    return st.integers(int(2 * least), int(2 * most)).map(lambda value: value / 2)


@st.composite
def scripts(draw: st.DrawFn, tardiness: float = 0.0) -> Script:
    flows, runs, talks = [], {}, {}
    for number in range(draw(st.integers(1, 4))):
        start = draw(st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0]))
        lasts = draw(st.none() | _halves(0.5, 4))
        stop = None if lasts is None else start + lasts
        repeat_after = None if stop is not None else draw(st.none() | _halves(0, 2))
        client, server = f"client{number}", f"server{number}"
        patience, leave = draw(st.sampled_from([0.0, 1.0, 2.5])), draw(_halves(0, 2))
        flows.append(Flow(client, server, start, stop, repeat_after, draw(_halves(0.5, 4)), patience, leave))
        for index in (0, 1):
            seconds = draw(_halves(0, 5) | st.just(NEVER))
            runs[client, index] = (seconds, draw(st.sampled_from([0, 0, 0, 1, 127])))
            talks[client, index] = (draw(_halves(0, 3) | st.just(NEVER)), draw(_halves(0, 4) | st.just(NEVER)))
        runs[server, 0] = (draw(st.just(NEVER) | st.just(NEVER) | _halves(0, 8)), draw(st.sampled_from([0, 1])))
    return Script(flows, draw(_halves(0, 1)), runs, talks, tardiness)


@given(st.sampled_from([0.0, 0.25]).flatmap(scripts))
@settings(max_examples=150)
def test_whatever_happens_when(script: Script) -> None:
    played_run = play(script)
    _each_start_has_its_time(played_run)
    _a_stop_is_kept_and_nothing_repeats_after_it(played_run)
    _over_when_all_have_ended_or_one_has_failed(played_run)
    if not script.tardiness:
        _whoever_is_not_done_in_time_is_named(played_run)


def _each_start_has_its_time(played: Played) -> None:
    script = played.script
    started, ended = played.times(Start), played.times(Ended)
    for flow in script.flows:
        assert started[flow.server, 0] == 0
        first, again = started.get((flow.client, 0)), started.get((flow.client, 1))
        due = script.ready + flow.start if flow.start else 0.0
        _is_in_time(first, due, played)
        if again is not None:
            assert flow.repeat_after is not None and flow.stop is None
        if flow.repeat_after is not None and (flow.client, 0) in ended:
            _is_in_time(again, ended[flow.client, 0] + flow.repeat_after, played)


def _is_in_time(started: float | None, due: float, played: Played) -> None:
    """What was due has started then, or, if the run was over by then, never."""
    if started is None:
        assert due + played.script.tardiness >= played.ended_at
    else:
        assert 0 <= started - due <= played.script.tardiness


def _a_stop_is_kept_and_nothing_repeats_after_it(played: Played) -> None:
    script, cut = played.script, played.times(CutOff)
    for flow in script.flows:
        at = cut.get((flow.client, 0))
        if flow.stop is None:
            assert at is None
        elif at is not None:
            assert 0 <= at - (script.ready + flow.stop) <= script.tardiness
            assert (flow.client, 1) not in played.times(Start)
            # How those end who were told to is of no account.
            hosts = (flow.client, flow.server)
            assert all(when <= at for (host, _), when in played.times(Ended).items() if host in hosts)
        else:
            assert played.ended_at <= script.ready + flow.stop + script.tardiness


def _is_fault(action: Action, script: Script) -> bool:
    if not isinstance(action, Ended):
        return isinstance(action, TimedOut)
    stops = {flow.client for flow in script.flows if flow.stop is not None}
    return action.exit_code != 0 or action.host.startswith("server") or action.host in stops


def _over_when_all_have_ended_or_one_has_failed(played: Played) -> None:
    faults = [action for _, action in played.log if _is_fault(action, played.script)]
    done = {host for host, _ in played.times(CutOff)}
    for flow in played.script.flows:
        if (flow.client, 0 if flow.repeat_after is None else 1) in played.times(Ended):
            done.add(flow.client)
    if faults:
        # The first of them ends it; several only where time is over for several at once.
        assert all(isinstance(item, TimedOut) for item in faults[1:])
        assert played.log[-1][1] is faults[-1]
    else:
        assert done == {flow.client for flow in played.script.flows}
    assert played.ended_at == played.log[-1][0]


def _whoever_is_not_done_in_time_is_named(played: Played) -> None:
    script = played.script
    ended, late = played.times(Ended), played.times(TimedOut)
    limited = {flow.client: flow for flow in script.flows if flow.stop is None}
    deadlines = {name: _deadline(played, limited[name[0]], name) for name in played.times(Start) if name[0] in limited}
    assert all(at <= deadlines[name] for name, at in ended.items() if name in deadlines)
    stages = {(action.client, action.index): action.stage for _, action in played.log if isinstance(action, TimedOut)}
    for name, stage in stages.items():
        flow = limited[name[0]]
        limit = _limit(played, flow, name)
        whole = played.openings.get(name, NEVER) + script.first_datagrams[name][1] <= limit
        silent = flow.patience > 0 and name not in played.openings
        assert stage == ("leaving" if whole else "silent" if silent else "transferring")
    # Of those that did not end, all whose time is over when the run is, and nobody else.
    going_on = {name: at for name, at in deadlines.items() if name not in ended}
    if late:
        assert late == {name: at for name, at in going_on.items() if at <= played.ended_at}
    else:
        assert all(at >= played.ended_at for at in going_on.values())


def _limit(played: Played, flow: Flow, name: tuple[str, int]) -> float:
    """Until when a transfer may take: from its first datagram, where that is told of."""
    since = max(played.times(Start)[name], played.script.ready)
    if not flow.patience:
        return since + flow.time_limit
    silence = since + flow.patience + flow.time_limit
    began = played.openings.get(name, NEVER)
    return began + flow.time_limit if began <= silence else silence


def _deadline(played: Played, flow: Flow, name: tuple[str, int]) -> float:
    """Until when a client may run: with a whole file a while longer."""
    limit = _limit(played, flow, name)
    whole = played.openings.get(name, NEVER) + played.script.first_datagrams[name][1] <= limit
    return limit + flow.leave if whole else limit


def _flow(**overrides: float | None) -> Flow:
    given = {"start": 0.0, "stop": None, "repeat_after": None, "time_limit": 10.0} | overrides
    return Flow("client0", "server0", **given)  # type: ignore[arg-type]


def test_an_end_at_the_last_instant_is_in_time_and_one_after_it_is_not() -> None:
    for end, expected in ((11.0, Ended("client0", 0, 0)), (11.5, TimedOut("client0", 0, "transferring"))):
        life = Lifecycle([_flow()])
        life.begin(0)
        life.ready(1)
        # Nobody looked in between.
        assert life.ended("client0", 0, end) == [expected]
        assert life.over


def test_of_one_instant_the_time_that_is_over_comes_before_a_start() -> None:
    later = Flow("client1", "server1", 10, None, None, 5)
    life = Lifecycle([later, _flow()])
    life.begin(0)
    life.ready(0)
    assert life.due(10) == [Start("client1", 0), TimedOut("client0", 0, "transferring")], "flow by flow"
    life = Lifecycle([_flow(), later])
    life.begin(0)
    life.ready(0)
    assert life.due(10) == [TimedOut("client0", 0, "transferring")]


def test_the_time_of_each_transfer_counts_from_its_own_first_datagram() -> None:
    life = Lifecycle([_flow(repeat_after=2.0, patience=5.0)])
    life.begin(0)
    life.ready(1)
    assert (life.wake, life.awaited) == (16, True), "one that says nothing is waited for, too"
    assert life.began("client0", 3) == []
    assert (life.wake, life.awaited) == (13, False)
    # What follows in its handshake, and what others say, changes nothing.
    assert life.began("client0", 4) + life.began("client7", 4) == []
    assert life.wake == 13
    life.ended("client0", 0, 12)
    assert life.due(14) == [Enter("transfer"), Start("client0", 1)]
    # What is told late of the first transfer is none of the second's.
    assert life.began("client0", 13.9) == []
    assert (life.wake, life.awaited) == (29, True)
    life.began("client0", 14.5)
    assert life.due(24.5) == [TimedOut("client0", 1, "transferring")]


def test_a_first_datagram_before_the_path_is_known_to_be_up_counts() -> None:
    life = Lifecycle([_flow(patience=5.0)])
    life.begin(0)
    life.began("client0", 0.9)
    life.ready(1)
    assert life.wake == 10.9


def test_a_client_that_has_everything_may_close_its_connection() -> None:
    arrived = False
    life = Lifecycle([_flow(leave=3.0)], lambda client: arrived)
    life.begin(0)
    life.ready(0)
    arrived = True
    assert life.due(10) == []
    assert life.wake == 13
    assert life.ended("client0", 0, 12) == [Ended("client0", 0, 0)]
    life = Lifecycle([_flow(leave=3.0)], lambda client: True)
    life.begin(0)
    life.ready(0)
    assert life.due(20) == [TimedOut("client0", 0, "leaving")]


def test_phases_are_those_of_the_run_not_of_a_flow() -> None:
    flows = [_flow(repeat_after=2.0), Flow("client1", "server1", 0, 6, None, 10)]
    life = Lifecycle(flows)
    life.begin(0)
    assert life.ready(1) == [Enter("transfer")]
    assert life.ended("client0", 0, 2) == [Ended("client0", 0, 0), Enter("pause")]
    # The other transfers all the while.
    assert life.due(4) == [Start("client0", 1)]
    life = Lifecycle(flows[:1])
    life.begin(0)
    life.ready(1)
    life.ended("client0", 0, 2)
    assert life.wake == 4
    assert life.due(4) == [Enter("transfer"), Start("client0", 1)]


def test_a_repeat_that_is_due_before_the_path_is_up_keeps_its_time() -> None:
    life = Lifecycle([_flow(repeat_after=5.0)])
    life.begin(0)
    life.ended("client0", 0, 1)
    life.ready(2)
    assert life.wake == 6


def test_it_needs_nothing_that_the_simulator_s_image_has_not() -> None:
    """And neither clock nor files: what it knows it is told."""
    assert lifecycle.__file__ is not None
    tree = ast.parse(Path(lifecycle.__file__).read_text())
    names = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert names <= {"__future__", "collections.abc", "dataclasses", "typing"}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
