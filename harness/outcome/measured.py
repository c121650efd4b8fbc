"""What was measured of a run, and whether its link was the one asked for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harness.outcome.base import Fact, Finite, Number
from harness.outcome.connection_end import Ending, deciding
from harness.outcome.handover import Handover
from harness.outcome.incomplete_transfer import Unfinished
from harness.outcome.interop_check import Checked
from harness.outcome.run import Outcome, Run
from harness.outcome.time_breakdown import Attributed
from harness.scenario.metric_names import MetricName, TransferName
from harness.scenario.parameters import Role

#: Version of the format of what was measured of a run. Other versions are not read.
MEASURED_SCHEMA = 2

#: How a client's log ends that waited in vain for the simulator's word that the path is up (images/endpoint).
_GATE = "wait-for-sim: "
#: Exit codes from here on are of a process that a signal ended (128 and its number): it broke, whatever it said before.
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
    checks: tuple[Checked, ...] = ()
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
        self, metric: str, flow: int | None = None, transfer: TransferName | None = None, phase: int | None = None,
        move: int | None = None,
    ) -> float | None:  # fmt: skip
        """The value of a metric of just that (see `MetricName`), or None where it was not measured."""
        asked = MetricName(metric, flow, transfer, phase, move).key
        return next((one.value for one in self.measurements if one.named.key == asked), None)

    def written(self, text: str, flows: int) -> Measurement | None:
        """The measurement that people call so in a run of so many flows, or None where it was not made."""
        return next((one for one in self.measurements if one.named.text(flows) == text), None)


def proven_outcome(run: Run, measured: MeasuredRun | None) -> Outcome:
    """The outcome of a run with all that its artefacts show taken into account.

    It is infrastructure when the link was not the one asked for, when somebody was starved of the processor, when an
    endpoint's own record says that it did something else than the cell is called by, or when nothing was measured of
    it. A client that failed because its connection ended did not crash: the outcome says how the connection ended.

    Drawn anew each time, so that better measuring can rehabilitate a stored run.
    """
    outcome = _of_gate(run.outcome) or _of_ending(run, measured) or run.outcome
    if outcome.status != "completed" and not outcome.failed_transfer:
        return outcome
    if measured is None or measured.link is None:
        detail = "the run has not been measured"
        return Outcome(status="infrastructure", role="harness", reason="not_measured", detail=detail)
    if measured.contradicted:
        detail = "; ".join(measured.contradicted)
        return Outcome(status="infrastructure", role="harness", reason="contradicted", detail=detail)
    if measured.starved:
        # A link that kept no time either suffered from the same.
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
        status="infrastructure", role="sim", exit_code=outcome.exit_code, reason="gate_closed",
        detail=f"the client was not let go: {words.removeprefix(_GATE)}", log_tail=outcome.log_tail,
    )  # fmt: skip


def _of_ending(run: Run, measured: MeasuredRun | None) -> Outcome | None:
    """How the connection of a client that failed ended; None where nobody failed, or nobody tells of an end."""
    outcome = run.outcome
    broke = outcome.status == "crashed" and outcome.exit_code is not None and 0 < outcome.exit_code < SIGNALLED
    short = outcome.status == "wrong_file" and outcome.reason == "short_file"
    if measured is None or outcome.role != "client" or not (broke or short):
        return None
    unfinished = (one for one in run.transfers if not one.cut_off and (one.exit_code or not one.intact))
    for one in unfinished:
        ending = deciding(measured.endings, one.flow, "repeat" if one.index else "first")
        if ending is not None:
            code = one.exit_code or 0
            left = "" if code else f" and {one.received} of {one.size} bytes"
            return Outcome(
                status=ending.kind, role=ending.by, exit_code=code, reason=ending.kind,
                detail=f"{ending.sentence}; the client ended with exit code {code}{left}",
                log_tail=outcome.log_tail,
            )  # fmt: skip
    return None
