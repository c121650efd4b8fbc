"""What came of it: cells, runs, measurements, verdicts.

An outcome is what happened to one run; a verdict is the answer drawn from the completed runs of a cell.
Only completed runs are judged, and a failure of the ground is never an implementation's failure.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.metric_names import MetricName, TransferName
from harness.model import Implementation, Scenario
from harness.parameters import ParameterValue, Role

EngineName = Literal["compose", "virtual"]
Cpu = Literal["lab", "host"]
SimKernel = Literal["auto", "host", "lab"]
Status = Literal["completed", "unsupported", "timed_out", "crashed", "wrong_file", "log_overflow", "infrastructure"]
VerdictStatus = Literal["pass", "fail", "inconclusive", "unsupported", "error"]
Better = Literal["higher", "lower", "neutral"]


class Fact(BaseModel):
    """A frozen record; unknown keys of a later minor version are ignored on reading."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        # A transfer that never ended counts as infinitely long, and JSON has no number for that.
        ser_json_inf_nan="strings",
    )


class Image(Fact):
    """Where an endpoint's bits come from."""

    reference: str
    """Tag or published name the container is started from."""
    identity: str
    """Digest that stands in the cell's key: of the build context, or of the published image."""
    id: str = ""
    """Image ID on the machine that ran it."""


class Contestant(Fact):
    """An implementation that a flow names for itself."""

    implementation: Implementation
    image: Image


class Cell(Fact):
    """One point of the matrix. Two cells with the same key are the same experiment."""

    key: str
    """BLAKE2b of everything below, 16 hexadecimal digits."""
    scenario: Scenario
    client: Implementation
    server: Implementation
    client_image: Image
    server_image: Image
    sim_image: Image
    engine: EngineName
    sim_kernel: SimKernel
    parameters: dict[str, ParameterValue]
    """Parameters asked for, as role.NAME; they are demands, not wishes."""
    seed: int
    compiled: str = ""
    """Digest of the lab that the cell amounts to (`harness.plan.compiled`)."""
    engine_code: str = ""
    """Digest of the engine's code (`harness.engines.code`)."""
    host_cpu: bool = False
    """In virtual time: endpoints are to see the host's processor, also where the lab's own could be had."""
    others: dict[str, Contestant] = {}
    """Who else plays in it, by name: the implementations that flows name for themselves."""

    def implementation(self, role: Role, flow: int | None = None) -> Implementation:
        """Who plays a role: in a flow, or, where none is given, wherever a flow names nobody."""
        return self._contestant(role, flow)[0]

    def image(self, role: Role, flow: int | None = None) -> Image:
        """The image of who plays a role."""
        return self._contestant(role, flow)[1]

    def _contestant(self, role: Role, flow: int | None) -> tuple[Implementation, Image]:
        name = None if flow is None else self.scenario.flows[flow].implementation(role)
        if name is not None and name in self.others:
            return self.others[name].implementation, self.others[name].image
        return (self.client, self.client_image) if role == "client" else (self.server, self.server_image)


class Outcome(Fact):
    """What happened to one run."""

    status: Status
    role: Role | Literal["sim", "harness"] | None = None
    """Who failed, where somebody did."""
    exit_code: int | None = None
    reason: str = ""
    """Reason code, one word: exit_127, no_handshake, short_file, different_bytes, link_invalid …"""
    detail: str = ""
    """One sentence for people, with figures."""
    log_tail: tuple[str, ...] = ()
    """Last lines of the log of whoever failed."""


class Transfer(Fact):
    """One download of one flow, as the engine saw it (times in ns since the epoch)."""

    flow: int
    index: int
    """0 is the first connection, 1 the repeat."""
    size: int
    """Bytes asked for."""
    received: int = 0
    """Bytes in /downloads at the end."""
    intact: bool = False
    """Whether the file is the server's, byte for byte."""
    started_ns: int
    """The client container started."""
    ended_ns: int
    """The client container ended."""
    exit_code: int | None = None
    cut_off: bool = False
    """The flow's stop had come: the client was told to end, with part of the file."""


class RandomBytes(Fact):
    """What an endpoint drew from its kernel's random number generator."""

    bytes: int
    digest: str
    """BLAKE2s of all of them, in the order they were handed out; hexadecimal."""


class Run(Fact):
    """One execution of a cell: immutable, written when it is finished."""

    schema_: Annotated[int, Field(alias="schema")] = 2
    cell: Cell
    repetition: int
    outcome: Outcome
    started_at: str
    """ISO 8601, UTC."""
    transfers: tuple[Transfer, ...] = ()
    phases: dict[str, float] = {}
    """Wall seconds per phase: create, ready, transfer, wait, collect, remove …"""
    wall: float = 0.0
    """Wall seconds of the whole run, without measuring."""
    virtual: float | None = None
    """Seconds the lab's own clock ran, for a run in virtual time."""
    sim_kernel: str = ""
    """The kernel whose queues were used: 'host 6.18.44' or 'lab 7.2.12'."""
    cpu: Cpu | None = None
    """In virtual time: whose processor the endpoints saw, the lab's fixed one or the host's."""
    lab_kernel: str = ""
    """In virtual time: SHA-256 of the lab kernel's file."""
    captures: dict[str, str] = {}
    """SHA-256 of the captures, by side: left, right."""
    trail: str = ""
    """Of the left capture (see `harness.traces.trail`): where another run parts from this one can be told by it."""
    random: dict[str, RandomBytes] = {}
    """In virtual time: the random bytes each endpoint was given."""
    effective: dict[str, ParameterValue] = {}
    """Parameters as set, those chosen by the harness included."""
    image_ids: dict[str, str] = {}
    """Image ID per role and for the simulator."""
    contents: dict[str, str] = {}
    """Digest of what was really in each image (see `harness.engines.contents`), by the names of `image_ids`."""
    commit: str = ""
    """Commit of the project that ran it, with + behind it where files had been changed; empty where it is not known."""
    host: dict[str, Any] = {}
    """Kernel, CPU model and count, load, steal share, memory, engine versions."""
    warnings: tuple[str, ...] = ()
    """What to check before trusting this run."""

    @property
    def name(self) -> str:
        """What it is called by: KEY/REPETITION."""
        return f"{self.cell.key}/{self.repetition}"


class Measurement(Fact):
    """One number of one run. Values are numbers, never formatted text."""

    name: str
    """The metric; what it is of is in the fields below."""
    value: float
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

    @property
    def named(self) -> MetricName:
        """The metric with what it is of."""
        return MetricName(self.name, self.flow, self.transfer, self.phase)


class Absence(Fact):
    """A metric that a run does not have, or that lacks samples, and why."""

    metric: str
    why: str
    """Half a sentence for people."""
    flows: tuple[int, ...] = ()
    """Whose it would be; empty for one of the run or the link as a whole."""
    transfer: TransferName | None = None
    """Which of their transfers; None where it is of no single one."""
    samples: tuple[int, int] | None = None
    """(left out, of so many): the metric is there, and is a mean over fewer samples; None where it is not there."""


class Observation(Fact):
    """What a parameter of an endpoint was, as seen in one run. What was not seen is not there."""

    role: Role
    parameter: str
    """A name of the vocabulary (`harness.parameters`), or a figure that stands for one: first_pto and the like."""
    value: float | str
    """Bytes, seconds or a count, or a word."""
    unit: str
    source: str
    """Where it was seen, with the figures it rests on and what limits them."""


class DirectionProof(Fact):
    """What one direction of the link did, against what it was asked to do."""

    packets: int = 0
    """IP datagrams of the flows that entered the simulator in this direction."""
    min_delay_ms: float | None = None
    """Smallest time between the two captures, less the time the packet itself took on a serial link."""
    asked_delay_ms: float = 0.0
    burst_bytes: int | None = None
    """The token bucket that served the queue; None for a serial server or a service process."""
    rate_mbps: float | None = None
    """Layer-2 rate in busy periods; absent when the queue never was busy for long enough."""
    asked_rate_mbps: float = 0.0
    queue_drops: int = 0
    """Drops of the bottleneck queue (asked for: the queue was full, or RED decided)."""
    loss_drops: int = 0
    """Drops of netem's random loss (asked for)."""
    unasked_drops: int = 0
    """Packets that vanished and nobody was asked to drop."""
    lateness_p50_ms: float | None = None
    """Departure against the ideal departure of the same arrivals."""
    lateness_p99_ms: float | None = None
    oversize_frames: int = 0
    """Frames above the MTU: an offload was left on."""


class LinkProof(Fact):
    """Whether the emulated path was the one asked for."""

    valid: bool
    problems: tuple[str, ...] = ()
    kernel: str = ""
    to_client: DirectionProof = DirectionProof()
    to_server: DirectionProof = DirectionProof()
    capture_drops: int = 0
    """Packets the captures missed; above 0 the drop counts are upper bounds."""
    changes_late_ms: tuple[float, ...] = ()
    """How late each scheduled change took effect."""
    steal: float | None = None
    """Share of CPU time stolen by the hypervisor during the run."""
    idle: float | None = None
    """Share of CPU time idle during the run."""


class MeasuredRun(Fact):
    """Everything drawn from one run's artefacts. `harness.former` reads what older schemas wrote."""

    schema_: Annotated[int, Field(alias="schema")] = 2
    version: int
    """Version of the measuring code; an older one is measured again."""
    measurements: tuple[Measurement, ...] = ()
    absent: tuple[Absence, ...] = ()
    """What is not among them that one might look for."""
    observed: tuple[Observation, ...] = ()
    """What the endpoints' parameters were, by the evidence of this run."""
    link: LinkProof | None = None
    warnings: tuple[str, ...] = ()

    def value(
        self, metric: str, flow: int | None = None, transfer: TransferName | None = None, phase: int | None = None
    ) -> float | None:
        """The value of a metric of just that (see `MetricName`), or None where it was not measured."""
        asked = MetricName(metric, flow, transfer, phase).key
        return next((one.value for one in self.measurements if one.named.key == asked), None)

    def written(self, text: str, flows: int) -> Measurement | None:
        """The measurement that people call so in a run of so many flows, or None where it was not made."""
        return next((one for one in self.measurements if one.named.text(flows) == text), None)


def proven_outcome(run: Run, measured: MeasuredRun | None) -> Outcome:
    """The outcome of a run with its link taken into account: infrastructure when it was not the one asked for, or when
    nothing was measured of it.

    Drawn anew each time, so that better measuring can rehabilitate a stored run.
    """
    if run.outcome.status not in ("completed", "timed_out"):
        return run.outcome
    if measured is None or measured.link is None:
        detail = "the run has not been measured"
        return Outcome(status="infrastructure", role="harness", reason="not_measured", detail=detail)
    if measured.link.valid:
        return run.outcome
    detail = "; ".join(measured.link.problems)
    return Outcome(status="infrastructure", role="sim", reason="link_invalid", detail=detail)


class Interval(Fact):
    """Median of n values and the order-statistic interval around it (see `harness.stats`)."""

    n: int
    median: float
    low: float
    high: float
    coverage: float
    """Probability that the interval covers the true median, distribution-free; 0 for one value."""


class ObjectiveVerdict(Fact):
    """One objective against the interval of its metric."""

    metric: str
    demanded: str
    bound: float
    at_most: bool
    unit: str
    observed: Interval | None
    verdict: VerdictStatus


class Verdict(Fact):
    """The answer for one cell."""

    status: VerdictStatus
    reason: str
    """Reason code: objectives_met, milestone_2MB_missed, interval_straddles, unsupported_client, crashed_server …"""
    sentence: str
    objectives: tuple[ObjectiveVerdict, ...] = ()
    evidence: tuple[str, ...] = ()
    """Paths of the runs it rests on, relative to the store."""
