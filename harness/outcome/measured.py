"""What was measured of a run: metrics, the link proof, connections, moves, checks, and where its time went."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harness.formatting import format_count
from harness.outcome.run import Fact, Finite, Number, Outcome, Run
from harness.scenario.metric_names import MetricName, TransferName
from harness.scenario.parameters import Role, peer_role
from harness.scenario.schema import MoveKind
from harness.units import Size

# --- How the connection of a transfer ended before the whole file had arrived.


EndingKind = Literal[
    "idle_timeout",
    "handshake_timeout",
    "ack_timeout",
    "stateless_reset",
    "connection_closed",
    "connection_reset",
]
"""RFC 9000 §10.1, silence for as long as the idle timeout; the handshake that took too long for one side; §10.3, a
stateless reset; §10.2, CONNECTION_CLOSE. ack_timeout is what TCP calls the user timeout (RFC 5482 §1): what an end
sent stayed unacknowledged for longer than it bears. connection_reset is TCP's (RFC 9293 §3.5.2)."""
#: What sentences call the transfer that comes after the first one, in a connection of its own.
_SECOND = "the second transfer"


class Ending(Fact):
    """What one witness tells of the end of a connection."""

    flow: int
    transfer: TransferName
    kind: EndingKind
    witness: Role
    """The endpoint that tells it, or at whose side of the path the packet was seen that does."""
    by: Role | None = None
    """Whose timer expired, or who sent the reset or the CONNECTION_CLOSE; None where that is not known."""
    at: float | None = None
    """When, s after the client's first datagram; None where the witness says no time."""
    timer: float | None = None
    """The idle timeout in force, s: the lesser of what both ends announced (RFC 9000 §10.1)."""
    error: str = ""
    """The name of the error code, with its number where it has no name: FLOW_CONTROL_ERROR, application error 0x101."""
    words: str = ""
    """The reason phrase, or how the log puts it."""
    source: str
    """Where it stands: the client's log, the server's qlog, the capture."""

    @property
    def sentence(self) -> str:
        """For people, without a full stop: whose timer or error code it was, when, and where that stands."""
        first = f"{_SECOND}'s first datagram" if self.transfer == "repeat" else "the first datagram"
        at = "" if self.at is None else f" {self.at:.1f} s after {first}"
        return f"{self._what}{at} ({self.source}{self._quoted})"

    @property
    def _what(self) -> str:
        endpoint = f"the {self.by}" if self.by else "one end"
        timer = "" if self.timer is None else f" of {self.timer:g} s"
        if self.kind == "idle_timeout":
            return f"{endpoint}'s idle timeout{timer} expired"
        if self.kind == "handshake_timeout":
            return f"{endpoint} gave the handshake up"
        if self.kind == "ack_timeout":
            return f"what {endpoint} sent stayed unacknowledged for too long"
        if self.kind == "stateless_reset":
            return f"{endpoint} sent a stateless reset"
        if self.kind == "connection_reset":
            return f"{endpoint} reset the TCP connection"
        return f"{endpoint} closed the connection" + (f" with {self.error}" if self.error else "")

    @property
    def _quoted(self) -> str:
        return f": “{self.words}”" if self.words else ""


def deciding_ending(endings: tuple[Ending, ...], flow: int, transfer: TransferName) -> Ending | None:
    """The ending that a transfer's outcome is told by; None where nobody tells of one.

    That is the client's first account, for its exit is to be explained. What the server alone tells the client may
    never have learnt, and what an endpoint does later it does to a connection that has ended.
    """
    matching = (ending for ending in endings if (ending.flow, ending.transfer) == (flow, transfer))
    return next((ending for ending in matching if ending.witness == "client"), None)


# --- A client's move as seen on the wire, and the reaction of its server's stack.


WindowReaction = Literal["reset", "kept", "kept a share", "collapsed by loss", "unknown"]
"""What became of the congestion window: its initial value again (RFC 9000 §9.4), what it was, a part of that which is
neither, or what losses left of it."""
RttReaction = Literal["reset", "carried over", "unknown"]
"""What became of the estimate of the round-trip time: begun anew, or the old one that new samples are averaged into."""


#: Interval of the sender's figures around a move, and start and end of their trace relative to the move, ms.
TRACE_STEP, TRACE_FROM, TRACE_TO = 5, -100, 400


class Handover(Fact):
    """One move of a flow's client. What could not be seen is None or unknown."""

    flow: int
    transfer: TransferName
    move: int
    """From 1, in order of time."""
    at: Finite
    """When it was asked for, s after the first datagram of the run."""
    how: MoveKind
    path: str
    """That the client is on from then on."""
    why_not: str = ""
    """Why there was no move, or nothing to measure of it: half a sentence for people; empty where there was."""
    address_changed: bool | None = None
    """Whether the server saw another IP address of the client."""
    port_changed: bool | None = None
    destination_id_changed: bool | None = None
    """Whether the client addressed the server by another connection ID (RFC 9000 §9.5); None where IDs are empty."""
    probed: bool | None = None
    """Whether nothing but probing frames was in the client's first packet from there (RFC 9000 §9.1)."""
    window: WindowReaction = "unknown"
    window_evidence: str = ""
    """The figures that says so, or why it is unknown."""
    rtt: RttReaction = "unknown"
    rtt_evidence: str = ""
    old_samples: int | None = None
    """Samples of the round-trip time in the server's qlog, after it sent data to the new address, of packets that it
    had sent before: RFC 9000 §9.4 forbids them to count for the new path."""

    closed: str = ""
    """Who ended the connection with an error afterwards, when, and with which; empty where nobody was seen to."""
    window_trace: tuple[Finite | None, ...] = ()
    """The congestion window around the time `at`, bytes, at the steps of `TRACE_STEP`; None before the first value."""
    rtt_trace: tuple[Finite | None, ...] = ()
    """The smoothed round-trip time then, ms."""

    @property
    def demands_reset(self) -> bool | None:
        """Whether RFC 9000 §9.4 demands that window and estimate begin anew: unless only the port changed."""
        return self.address_changed


# --- An unfinished transfer: how much had arrived, and which endpoints were silent.


class Voice(Fact):
    """What one endpoint sent until a transfer was over."""

    datagrams: int = 0
    """Datagrams, or segments, that left it."""
    arrived: int = 0
    """Those of them that came to the other side of the path."""
    last: float | None = None
    """When the last one left, s after the client's first datagram; None where none did."""
    last_arrived: float | None = None
    """When the last one of those that arrived did."""
    what: str = ""
    """What the last one was: its bytes, and its frames where they can be read."""
    since_progress: int = 0
    """Those that left after the client's last progress."""
    since_progress_arrived: int = 0
    oversize: int = 0
    """Datagrams that it made and that its interface does not take, as its qlog and the capture have them."""
    largest: int = 0
    """UDP payload of the largest of these, bytes."""
    oversize_left: int = 0
    """Those of them that left it all the same, in fragments."""


class Unfinished(Fact):
    """One transfer that did not come to its end."""

    flow: int
    transfer: TransferName
    size: int
    """Bytes of all that was asked for."""
    received: int
    """Bytes that the client had in the end."""
    lasted: float
    """From the client's first datagram until it was over, s."""
    progress: float | None = None
    """When the client got something new for the last time, s; None where it never did."""
    client: Voice = Voice()
    server: Voice = Voice()
    mtu: int = 0
    """Largest UDP payload that an interface of the lab takes, bytes."""
    dark: tuple[tuple[float, float], ...] = ()
    """When the path forwarded nothing, s, as far as that is within its time."""

    def voice(self, role: Role) -> Voice:
        """What an endpoint sent."""
        return self.client if role == "client" else self.server

    @property
    def silent(self) -> tuple[Role, ...]:
        """Who sent nothing in the last third of the time since the last progress."""
        since = self.progress or 0.0
        edge = self.lasted - (self.lasted - since) / 3
        last_sent = {role: self.voice(role).last for role in _ROLES}
        return tuple(role for role, last in last_sent.items() if last is None or last < edge)

    @property
    def short(self) -> str:
        """For a column: '12 kB of 1 MB came, the last at 0.3 s; 14 datagrams of the server exceeded 1252 B'."""
        return "; ".join(filter(None, [self._came, self._oversized, self._silence]))

    @property
    def sentence(self) -> str:
        """For people, with all that is known, without a full stop."""
        return "; ".join(filter(None, [self._came, self._darkness, self._oversized, self._silence, *self._last]))

    @property
    def _came(self) -> str:
        whole = f"{_SECOND}'s {Size(self.size)}" if self.transfer == "repeat" else str(Size(self.size))
        if not self.received and self.progress is None:
            return f"nothing of {whole} came"
        at = "" if self.progress is None else f", the last at {self.progress:.1f} s"
        return f"{_bytes(self.received)} of {whole} came{at}"

    @property
    def _darkness(self) -> str:
        return ", ".join(f"the path was dark from {begin:g} to {end:g} s" for begin, end in self.dark)

    @property
    def _oversized(self) -> str:
        parts = []
        for role in _ROLES:
            voice = self.voice(role)
            if voice.oversize:
                left = f"{voice.oversize_left} left in fragments" if voice.oversize_left else "none of them left"
                parts.append(
                    f"{format_count(voice.oversize, 'datagram')} of the {role}, of up to {voice.largest} B, "
                    f"exceeded the MTU's {self.mtu} B, and {left}"
                )
        return ", ".join(parts)

    @property
    def _silence(self) -> str:
        silent = self.silent
        if len(silent) == 2:
            last = {role: self.voice(role).last for role in silent}
            if None in last.values():
                return ", ".join(f"the {role} sent nothing at all" for role, at in last.items() if at is None)
            latest = max(at for at in last.values() if at is not None)
            return f"neither end sent anything in the last {self.lasted - latest:.1f} s"
        if not silent:
            return "both ends sent until it was over"
        role, peer = silent[0], peer_role(silent[0])
        voice, active = self.voice(role), self.voice(peer)
        reception = (
            f"while {active.since_progress_arrived} of {active.since_progress} datagrams of the {peer} reached it"
        )
        reception += "" if self.progress is None else " after the last progress"
        if voice.last is None:
            return f"the {role} sent nothing at all, {reception}"
        return f"the {role} was silent for the last {self.lasted - voice.last:.1f} s, {reception}"

    @property
    def _last(self) -> list[str]:
        return [
            f"the {role}'s last datagram left at {voice.last:.1f} s ({voice.what})"
            for role in ("server", "client")
            for voice in [self.voice(role)]
            if voice.last is not None and voice.what
        ]


_ROLES: tuple[Role, ...] = ("server", "client")


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"


# --- The result of a check of a test case.


CheckStatus = Literal["passed", "failed", "not_exercised", "unknown"]


class InteropCheck(Fact):
    """One check of one run, against what its scenario demands."""

    check: str
    asked: bool | int | str
    status: CheckStatus
    """not_exercised: what it is about never happened. unknown: what was captured, or what endpoints wrote down, does
    not show it."""
    sentence: str
    """What was seen, with figures; of an unknown one why."""
    sender: Role | None = None
    """Who sent the first packet that is wrong: its number is of the capture at the sender's side. None where it is no
    packet that is wrong."""
    packet: int | None = None
    """Number of that packet's frame in the capture, from 1."""
    t: Finite | None = None
    """When it was sent, s after the client's first datagram."""


# --- The time breakdown of a transfer: every moment is in exactly one state.


State = Literal[
    "handshake",
    "request",
    "slow_start",
    "line_rate",
    "recovery",
    "spurious_recovery",
    "window_limited",
    "flow_control",
    "buffer_limited",
    "sender_idle",
    "acknowledgements",
    "probe_timeouts",
    "shared",
    "unexplained",
]
#: States in display order; the letter of each in `Attribution.bands`.
STATES: dict[State, str] = {
    "handshake": "h",
    "request": "q",
    "slow_start": "s",
    "recovery": "r",
    "spurious_recovery": "e",
    "window_limited": "w",
    "flow_control": "f",
    "buffer_limited": "b",
    "sender_idle": "i",
    "acknowledgements": "a",
    "probe_timeouts": "p",
    "shared": "o",
    "unexplained": "u",
    "line_rate": "l",
}


class StateShare(Fact):
    """One state's share of a transfer's time."""

    state: State
    seconds: Finite
    note: str = ""
    """What goes with it: 'from 10 packets'."""


class Attribution(Fact):
    """One transfer, from the client's first datagram to the last byte."""

    flow: int
    transfer: TransferName
    size: int
    """Bytes of the file."""
    seconds: Finite
    """Its completion time, which the parts add up to."""
    parts: tuple[StateShare, ...]
    """The states that it was in, in the order of `STATES`."""
    bands: Annotated[str, Field(pattern=rf"^(?:[{''.join(STATES.values())}][0-9]{{1,9}})*$")] = ""
    """The states over time, each as its letter and for how many hundredths of the time it lasted: 'h5q5s30l60'. A
    hundredth that several share is the longest one's."""

    def seconds_in(self, state: State) -> float:
        """How long it was in a state."""
        return sum(part.seconds for part in self.parts if part.state == state)

    def bound_without(self, state: State) -> float:
        """A bound, s: without this state, and all else the same, it would have taken no less than this."""
        return self.seconds - self.seconds_in(state)


class NotAttributed(Fact):
    """A transfer of which it is not known where its time went."""

    flow: int
    transfer: TransferName
    why: str
    """Half a sentence for people."""


class Attributed(Fact):
    """Where the time of all transfers of a run went."""

    version: int
    """Version of the attributing code; it has nothing to do with that of the measuring code."""
    transfers: tuple[Attribution, ...] = ()
    absent: tuple[NotAttributed, ...] = ()

    def of(self, flow: int = 0, transfer: TransferName = "first") -> Attribution | None:
        """That of one transfer, or None."""
        return next(
            (
                attribution
                for attribution in self.transfers
                if (attribution.flow, attribution.transfer) == (flow, transfer)
            ),
            None,
        )


# --- measured


#: Version of the format of measurements. Other versions are not read.
MEASURED_SCHEMA = 2

#: Start of the last line in the log of a client that waited in vain for the path to come up (images/endpoint).
_GATE = "wait-for-sim: "
#: First exit code of a process that was killed by a signal (128 plus its number): such a process crashed.
SIGNALLED = 128

Better = Literal["higher", "lower", "neutral"]


class Measurement(Fact):
    """One number of one run. Values are numbers, never formatted text."""

    name: str
    """The metric; what it is of is in the fields below."""
    value: Number
    unit: str
    direction: Better = "neutral"
    vantage: str = ""
    """Where it was observed: client file; left capture, or that decrypted; right capture; counters, qlog, cgroup."""
    flow: int | None = None
    """None: of the run or the link as a whole."""
    transfer: TransferName | None = None
    """None: of no single transfer."""
    phase: int | None = None
    """From 1; None: of no single phase."""
    move: int | None = None
    """From 1, in order of time; None: of no move of the flow's client."""

    @property
    def named(self) -> MetricName:
        """The metric with what it is of."""
        return MetricName(self.name, self.flow, self.transfer, self.phase, self.move)


class Absence(Fact):
    """A metric that a run does not have, or that lacks samples, and why."""

    metric: str
    why: str
    """Half a sentence for people."""
    flows: tuple[int, ...] = ()
    """Whose it would be; empty for one of the run or the link as a whole."""
    transfer: TransferName | None = None
    """Which of their transfers; None where it is of no single one."""
    move: int | None = None
    """Which of their client's moves; None where it is of none."""
    samples: tuple[int, int] | None = None
    """(left out, of so many): the metric is there, and is a mean over fewer samples; None where it is not there."""


class Observation(Fact):
    """What a parameter of an endpoint was, as seen in one run. What was not seen is not there."""

    role: Role
    parameter: str
    """A name of the vocabulary (`harness.scenario.parameters`), or a figure that stands for one: first_pto and the
    like."""
    value: Number | str
    """Bytes, seconds or a count, or a word."""
    unit: str
    source: str
    """Where it was seen, with the figures it rests on and what limits them."""


class DirectionProof(Fact):
    """What one direction of the link did, against what it was asked to do."""

    packets: int = 0
    """IP datagrams of the flows that entered the simulator in this direction."""
    min_delay_ms: Finite | None = None
    """Smallest time between the two captures, less the time the packet itself took on a serial link."""
    asked_delay_ms: Finite = 0.0
    burst_bytes: int | None = None
    """The token bucket that served the queue; None for a serial server or a service process."""
    rate_mbps: Finite | None = None
    """Layer-2 rate in busy periods; absent when the queue never was busy for long enough."""
    asked_rate_mbps: Finite = 0.0
    queue_drops: int = 0
    """Drops of the bottleneck queue (asked for: the queue was full, or RED decided)."""
    loss_drops: int = 0
    """Drops of netem's random loss (asked for)."""
    unasked_drops: int = 0
    """Packets that vanished and nobody was asked to drop."""
    size_drops: int = 0
    """Packets larger than the path's MTU that did not pass (asked for)."""
    lateness_p50_ms: Finite | None = None
    """Departure against the ideal departure of the same arrivals."""
    lateness_p99_ms: Finite | None = None
    oversize_frames: int = 0
    """Frames above the MTU: an offload was left on."""


class LinkProof(Fact):
    """Whether the emulated path was the one asked for."""

    valid: bool
    problems: tuple[str, ...] = ()
    kernel: str = ""
    to_client: DirectionProof = DirectionProof()
    to_server: DirectionProof = DirectionProof()
    further: dict[str, DirectionProof] = {}
    """Those of the paths behind the first: 'NAME to_client', 'NAME to_server'."""
    capture_drops: int = 0
    """Packets the captures missed; above 0 the drop counts are upper bounds."""
    changes_late_ms: tuple[Finite, ...] = ()
    """How late each scheduled change took effect."""
    steal: Finite | None = None
    """Share of CPU time stolen by the hypervisor during the run."""
    idle: Finite | None = None
    """Share of CPU time idle during the run."""


class MeasuredRun(Fact):
    """Everything drawn from one run's artefacts."""

    schema_: Annotated[int, Field(alias="schema")] = MEASURED_SCHEMA
    version: int
    """Version of the measuring code; an older one is measured again."""
    measurements: tuple[Measurement, ...] = ()
    absent: tuple[Absence, ...] = ()
    """What is not among them that one might look for."""
    moves: tuple[Handover, ...] = ()
    """What each move of a client was, and what its server's stack did, in order of flows and of time."""
    checks: tuple[InteropCheck, ...] = ()
    """What the scenario's checks found, in their order there."""
    observed: tuple[Observation, ...] = ()
    """What the endpoints' parameters were, by the evidence of this run."""
    link: LinkProof | None = None
    attributed: Attributed | None = None
    """Where the time of its transfers went; None where nobody has looked."""
    endings: tuple[Ending, ...] = ()
    """How the connections of transfers that did not come to their end are known to have ended, each by each witness."""
    unfinished: tuple[Unfinished, ...] = ()
    """What is known of each transfer that did not come to its end."""
    starved: tuple[str, ...] = ()
    """Who got so little of the processor that the run shows the machine, not the protocol; in a sentence each."""
    contradicted: tuple[str, ...] = ()
    """What endpoints wrote of themselves against what they were told, so that the run is none of its cell; in a
    sentence each."""
    warnings: tuple[str, ...] = ()

    def value(
        self,
        metric: str,
        flow: int | None = None,
        transfer: TransferName | None = None,
        phase: int | None = None,
        move: int | None = None,
    ) -> float | None:
        """The value of a metric of just that (see `MetricName`), or None where it was not measured."""
        key = MetricName(metric, flow, transfer, phase, move).key
        return next((measurement.value for measurement in self.measurements if measurement.named.key == key), None)

    def written(self, text: str, flows: int) -> Measurement | None:
        """The measurement that people call so in a run of so many flows, or None where it was not made."""
        # The text ends with the metric's name, and to compare that is quicker.
        named = (measurement for measurement in self.measurements if text.endswith(measurement.name))
        return next((measurement for measurement in named if measurement.named.text(flows) == text), None)


def proven_outcome(run: Run, measured: MeasuredRun | None) -> Outcome:
    """The outcome of a run with all that its artefacts show taken into account.

    It is infrastructure when the link was not the one asked for, when somebody was starved of the processor, when an
    endpoint's own record says that it did something else than the cell is called by, or when nothing was measured of
    it. A client that failed because its connection ended did not crash: the outcome says how the connection ended.

    Drawn anew each time, so that better measuring can rehabilitate a stored run.
    """
    outcome = _of_gate(run.outcome) or _of_ending(run, measured) or run.outcome
    if outcome.reason == "no_answer" and measured is not None and measured.starved:
        # A server that had no processor could not answer.
        detail = "; ".join([outcome.detail, *measured.starved])
        return Outcome(
            status="infrastructure", role="harness", reason="starved", detail=detail, log_tail=outcome.log_tail
        )
    if outcome.status != "completed" and not outcome.failed_transfer:
        return outcome
    if measured is None or measured.link is None:
        detail = "the run has not been measured"
        return Outcome(status="infrastructure", role="harness", reason="not_measured", detail=detail)
    if measured.contradicted:
        detail = "; ".join(measured.contradicted)
        return Outcome(status="infrastructure", role="harness", reason="contradicted", detail=detail)
    if measured.starved:
        # If the link did not keep time either, the reason was the same.
        detail = "; ".join([*measured.starved, *measured.link.problems])
        return Outcome(status="infrastructure", role="harness", reason="starved", detail=detail)
    if measured.link.valid:
        return outcome
    detail = "; ".join(measured.link.problems)
    return Outcome(status="infrastructure", role="sim", reason="link_invalid", detail=detail)


def _of_gate(outcome: Outcome) -> Outcome | None:
    """What a client that never came past the simulator's gate is: nobody's fault in the lab. None of any other."""
    words = next(iter(outcome.log_tail[-1:]), "")
    if outcome.status != "crashed" or outcome.role != "client" or not words.startswith(_GATE):
        return None
    return Outcome(
        status="infrastructure",
        role="sim",
        exit_code=outcome.exit_code,
        reason="gate_closed",
        detail=f"the client was not let go: {words.removeprefix(_GATE)}",
        log_tail=outcome.log_tail,
    )


def _of_ending(run: Run, measured: MeasuredRun | None) -> Outcome | None:
    """How the connection of a client that failed ended; None where nobody failed, or nobody tells of an end."""
    outcome = run.outcome
    client_failed = outcome.status == "crashed" and outcome.exit_code is not None and 0 < outcome.exit_code < SIGNALLED
    short_file = outcome.status == "wrong_file" and outcome.reason == "short_file"
    if measured is None or outcome.role != "client" or not (client_failed or short_file):
        return None
    unfinished = (
        transfer for transfer in run.transfers if not transfer.cut_off and (transfer.exit_code or not transfer.intact)
    )
    for transfer in unfinished:
        ending = deciding_ending(measured.endings, transfer.flow, "repeat" if transfer.index else "first")
        if ending is not None:
            code = transfer.exit_code or 0
            shortfall = "" if code else f" and {transfer.received} of {transfer.size} bytes"
            return Outcome(
                status=ending.kind,
                role=ending.by,
                exit_code=code,
                reason=ending.kind,
                detail=f"{ending.sentence}; the client ended with exit code {code}{shortfall}",
                log_tail=outcome.log_tail,
            )
    return None
