"""When the endpoints of a run start and end: a state machine that has no clock, no process and no file.

Both engines drive it: the conductor beside it, in virtual time inside the lab kernel, and in real time, with
containers, harness/engine/docker/supervisor.py. They say what happened and when, and do what it answers.

It is the one module that the simulator's image and the harness share. It stands here because the image is built from
this folder alone; pyproject.toml installs the package beside the harness. It needs nothing but the standard library,
which is all that the image has.

Times are seconds on any one clock that does not go back. Of what falls on one instant, an end that has happened comes
first; then flow by flow what is due, a time limit before a start and a start before a stop.

The time that a transfer may take counts from its first datagram, which is zero of all protocol times, to its last byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

Stage = Literal["silent", "transferring", "leaving"]
"""How far a client came whose time is over: it sent nothing; not all had arrived; all had, and it did not end."""


@dataclass(frozen=True)
class Flow:
    """One client with its server, and the times they are given, in seconds."""

    client: str
    """The name of its host, as is that of the server."""
    server: str
    start: float
    """After readiness. At 0 the client is started with the servers, and waits for the path by itself."""
    stop: float | None
    """After readiness: both are told to end. None where the client ends by itself."""
    repeat_after: float | None
    """From the end of the first transfer to the start of a second one. None where there is one only."""
    time_limit: float
    """From a transfer's first datagram to its last byte, at most. Of no account where there is a stop."""
    patience: float = 0.0
    """From readiness or a later start to the first datagram, at most: one that never sends any is waited for so long,
    and for the time limit. 0 where nobody tells of it: then the limit counts from readiness or the start."""
    leave: float = 0.0
    """From its last byte to the client's own end, at most, where the time limit is over by then: a connection is closed
    for some round trips (RFC 9000 §10.2)."""


@dataclass(frozen=True)
class Start:
    """Start an endpoint. `index` counts its transfers: 1 is the repeat."""

    host: str
    index: int


@dataclass(frozen=True)
class Ended:
    """An endpoint came to an end of its own: a transfer is over, or something broke."""

    host: str
    index: int
    exit_code: int


@dataclass(frozen=True)
class CutOff:
    """Tell a client and its server to end. The transfer is over; how they end is of no account any more."""

    client: str
    server: str
    index: int


@dataclass(frozen=True)
class TimedOut:
    """A client's time is over, and with it the run."""

    client: str
    index: int
    stage: Stage


@dataclass(frozen=True)
class Enter:
    """A phase of the run begins."""

    phase: Literal["transfer", "pause"]


Action = Start | Ended | CutOff | TimedOut | Enter


@dataclass
class _Client:
    flow: Flow
    index: int = 0
    running: bool = False
    done: bool = False
    since: float = 0.0
    """When it was started last."""
    stage: Stage = "silent"
    deadline: float | None = None
    start: float | None = None
    """When it starts next, as far as that is known: the pause of a repeat, or a late start once the path is up."""
    stop: float | None = None


@dataclass
class Lifecycle:
    """The endpoints of one run, from their first start to the end of the run.

    A run is over when every client is done, when an endpoint broke (any end of a server's that was not told to; a
    client's with another exit code than 0, or before its stop), or when a client's time is over. From then on nothing
    happens any more.
    """

    flows: Iterable[Flow]
    whole: Callable[[str], bool] = lambda client: False
    """Whether all that a client asked for has arrived. Asked once a transfer, when its time is over."""
    over: bool = False
    _clients: list[_Client] = field(init=False)
    _told: set[str] = field(init=False, default_factory=set)
    """Hosts that were told to end."""
    _ready: bool = False

    def __post_init__(self) -> None:
        self._clients = [_Client(flow) for flow in self.flows]

    def begin(self, now: float) -> list[Action]:
        """The run begins: servers start, and the clients that do not start late."""
        actions: list[Action] = []
        for client in self._clients:
            if client.flow.start == 0:
                actions += self._start(client, now)
            actions.append(Start(client.flow.server, 0))
        return actions

    def ready(self, now: float) -> list[Action]:
        """The path is up: from now on times count."""
        self._ready = True
        for client in self._clients:
            flow = client.flow
            if flow.stop is not None and not client.done:
                client.stop = now + flow.stop
            if client.running and client.deadline is None:
                self._limit(client, now)
            elif not client.running and not client.done and client.start is None:
                client.start = now + flow.start
        return [Enter("transfer")]

    def began(self, name: str, now: float) -> list[Action]:
        """A client opened a connection at that time, perhaps a little ago: of each transfer the first one counts."""
        actions = self._until(now, inclusive=False)
        client = self._client(name)
        if client is not None and client.running and client.stage == "silent" and client.since <= now:
            client.stage = "transferring"
            self._limit(client, now)
        return actions

    @property
    def awaited(self) -> bool:
        """Whether some client's first datagram would count."""
        going_on = (client for client in self._clients if client.running and client.flow.stop is None)
        return not self.over and any(client.stage == "silent" for client in going_on)

    def ended(self, host: str, exit_code: int, now: float) -> list[Action]:
        """An endpoint ended at that time, which may be a little before the last one that was told."""
        # What was due before it counts, though nobody looked meanwhile.
        actions = self._until(now, inclusive=False)
        if self.over or host in self._told:
            return actions
        client = self._client(host)
        if client is None:
            self.over = True
            return [*actions, Ended(host, 0, exit_code)]
        actions.append(Ended(host, client.index, exit_code))
        client.running, client.start, client.deadline = False, None, None
        if exit_code != 0 or client.flow.stop is not None:
            self.over = True
        elif client.flow.repeat_after is not None and client.index == 0:
            client.index = 1
            client.start = now + client.flow.repeat_after
            actions.append(Enter("pause"))
        else:
            self._finish(client)
        return actions

    def due(self, now: float) -> list[Action]:
        """What is due by now, the earliest first."""
        return self._until(now, inclusive=True)

    @property
    def wake(self) -> float | None:
        """When something is due next; None while only an endpoint's end, or readiness, can bring it on."""
        return min((at for at, _, _ in self._dues()), default=None)

    def _client(self, name: str) -> _Client | None:
        return next((item for item in self._clients if item.flow.client == name), None)

    # --- what is due

    def _dues(self) -> Iterator[tuple[float, int, int]]:
        """(time, number of the client, kind) of everything that is to come; they sort as they are done."""
        if self.over:
            return
        for number, client in enumerate(self._clients):
            for kind, at in enumerate((client.deadline, client.start, client.stop)):
                if at is not None:
                    yield at, number, kind

    def _until(self, now: float, *, inclusive: bool) -> list[Action]:
        actions: list[Action] = []
        while (first := min(self._dues(), default=None)) is not None:
            at, number, kind = first
            if at > now or (at == now and not inclusive):
                break
            client = self._clients[number]
            if kind == 0:
                actions += self._time_out(at)
            elif kind == 1:
                actions += self._start(client, now)
            else:
                actions += self._cut_off(client)
        return actions

    def _start(self, client: _Client, now: float) -> list[Action]:
        others = (item for item in self._clients if item is not client)
        # A repeat ends the pause, unless others transfer all the while.
        resumes = client.index > 0 and all(item.start is not None or item.done for item in others)
        client.running, client.start, client.since = True, None, now
        client.stage = "silent" if client.flow.patience else "transferring"
        if self._ready:
            self._limit(client, now)
        return [*([Enter("transfer")] if resumes else []), Start(client.flow.client, client.index)]

    def _limit(self, client: _Client, now: float) -> None:
        if client.flow.stop is None:
            patience = client.flow.patience if client.stage == "silent" else 0.0
            client.deadline = now + patience + client.flow.time_limit

    def _time_out(self, at: float) -> list[Action]:
        late = [item for item in self._clients if item.deadline is not None and item.deadline <= at]
        for item in late:
            if item.stage != "leaving" and self.whole(item.flow.client):
                item.stage, item.deadline = "leaving", at + item.flow.leave
        late = [item for item in late if item.deadline is not None and item.deadline <= at]
        self.over = bool(late)
        return [TimedOut(item.flow.client, item.index, item.stage) for item in late]

    def _cut_off(self, client: _Client) -> list[Action]:
        self._told |= {client.flow.client, client.flow.server}
        client.running, client.start, client.stop = False, None, None
        self._finish(client)
        return [CutOff(client.flow.client, client.flow.server, client.index)]

    def _finish(self, client: _Client) -> None:
        client.done = True
        self.over = all(item.done for item in self._clients)
