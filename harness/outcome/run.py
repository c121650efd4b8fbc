"""A cell, one run of it, what came of the run, and the verdict on the cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.scenario.parameters import ParameterValue, Role
from harness.scenario.schema import Implementation, Scenario

# --- Common parts of all records.


#: A cell's key; empty if it is not computed yet.
Key = Annotated[str, Field(pattern=r"^([0-9a-f]{16})?$")]
#: The digest of an image's contents, which is also the name of a file in a store.
CONTENTS_DIGEST = r"^[0-9a-z][0-9a-z-]{0,63}$"
ContentsDigest = Annotated[str, Field(pattern=CONTENTS_DIGEST)]
#: Name of a capture of a run: left, right; for other simulators 'sim-NAME left'.
CaptureName = Annotated[str, Field(pattern=r"^(sim-[a-z0-9][a-z0-9-]{0,31} )?(left|right)$")]
_PART = r"([^./\x00][^/\x00]*|\.[^./\x00][^/\x00]*|\.\.[^/\x00]+)"
#: The path of a file in a run's folder, which must not lead out of the folder.
Place = Annotated[str, Field(pattern=rf"^{_PART}(/{_PART})*$", max_length=4096)]
#: A number that may be infinite, but not NaN.
Number = Annotated[float, Field(ge=-math.inf)]
#: A finite number.
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Fact(BaseModel):
    """A frozen record; unknown keys of a later minor version are ignored on reading."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        # Validators are made on first use.
        defer_build=True,
        # A transfer that never ended counts as infinitely long, and JSON has no infinite numbers.
        ser_json_inf_nan="strings",
    )


# --- The cell of the matrix that was run: scenario, implementations, and versions of code and images.


EngineName = Literal["compose", "virtual"]
#: What a stored run keeps of the files that it was measured from. `captures`: all but qlogs; `figures`: none. Figures,
#: series, the link proof and the digests of all these files are always kept.
Evidence = Literal["full", "captures", "figures"]


@dataclass(frozen=True)
class EngineProperties:
    """What code asks of an engine, in place of its name."""

    virtual_time: bool
    """Whether its labs have a clock of their own. Then nothing else on the machine changes a run."""
    deterministic: bool
    """Whether the runs of one cell with one seed give the same bytes."""
    needs_docker: bool
    """Whether its runs need a Docker daemon."""

    @property
    def time(self) -> str:
        """The kind of time, in words."""
        return "virtual time" if self.virtual_time else "real time"


#: Every engine. Nothing else knows what engines are called.
ENGINES: Mapping[EngineName, EngineProperties] = {
    "compose": EngineProperties(virtual_time=False, deterministic=False, needs_docker=True),
    "virtual": EngineProperties(virtual_time=True, deterministic=True, needs_docker=False),
}


Cpu = Literal["lab", "host"]
SimKernel = Literal["auto", "host", "lab"]


class Image(Fact):
    """Where an endpoint's bits come from."""

    reference: str
    """Tag or published name the container is started from."""
    identity: str
    """Digest of what it was made from: of the build context, or of the published image."""
    id: str = ""
    """Image ID on the machine that ran it."""
    label: str = Field(default="", exclude_if=lambda label: not label)
    """A published image's own version and revision, as its labels have them. No part of any key."""

    @property
    def name(self) -> str:
        """The name for people: tag, and label where there is one."""
        return f"{self.reference} ({self.label})" if self.label else self.reference


class Contestant(Fact):
    """An implementation that a flow names for itself."""

    implementation: Implementation
    image: Image


class Cell(Fact):
    """One point of the matrix. Two cells with the same key are the same experiment."""

    key: Key
    """BLAKE2b of what its runs depend on, 16 hexadecimal digits (`harness.store.identity`)."""
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
    """Digest of the lab that the cell amounts to (`harness.store.identity.lab_digest`)."""
    engine_code: str = ""
    """Digest of the engine's code (`harness.engine.code_digest`)."""
    host_cpu: bool = False
    """In virtual time: endpoints are to see the host's processor, also where the lab's own could be had."""
    others: dict[str, Contestant] = {}
    """Who else plays in it, by name: the implementations that flows name for themselves."""

    @property
    def virtual_time(self) -> bool:
        """Whether its engine's labs have a clock of their own."""
        return ENGINES[self.engine].virtual_time

    @property
    def deterministic(self) -> bool:
        """Whether its runs with one seed give the same bytes."""
        return ENGINES[self.engine].deterministic

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


# --- run


Status = Literal[
    "completed",
    "unsupported",
    "timed_out",
    "idle_timeout",
    "handshake_timeout",
    "ack_timeout",
    "stateless_reset",
    "connection_closed",
    "connection_reset",
    "crashed",
    "wrong_file",
    "log_overflow",
    "infrastructure",
]

#: Statuses of a failed transfer: it timed out, or its connection ended first (`harness.outcome.measured`). No program
#: crashed, and everything could be measured.
FAILED_TRANSFER: frozenset[Status] = frozenset(
    {
        "timed_out",
        "idle_timeout",
        "handshake_timeout",
        "ack_timeout",
        "stateless_reset",
        "connection_closed",
        "connection_reset",
    }
)

#: Transient reasons of infrastructure failures: the same run, made again, may not have them.
PASSING = frozenset({"link_invalid", "starved", "killed", "out_of_memory", "paused"})


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

    @property
    def failed_transfer(self) -> bool:
        """Whether the transfer did not come to its end, and no program failed."""
        return self.status in FAILED_TRANSFER

    @property
    def passing(self) -> bool:
        """Whether something spoilt the run that the same run, made again, may well not meet."""
        return self.status == "infrastructure" and self.reason in PASSING


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


#: Version of the format of a run's record. Other versions are not read.
RUN_SCHEMA = 2


class Run(Fact):
    """One execution of a cell: immutable, written when it is finished."""

    schema_: Annotated[int, Field(alias="schema")] = RUN_SCHEMA
    cell: Cell
    repetition: Annotated[int, Field(ge=0)]
    outcome: Outcome
    started_at: str
    """ISO 8601, UTC."""
    transfers: tuple[Transfer, ...] = ()
    phases: dict[str, Finite] = {}
    """Wall seconds per phase: create, ready, transfer, wait, collect, remove …"""
    wall: Finite = 0.0
    """Wall seconds of the whole run, without measuring."""
    virtual: Finite | None = None
    """Seconds the lab's own clock ran, for a run in virtual time."""
    sim_kernel: str = ""
    """The kernel whose queues were used: 'host 6.18.44' or 'lab 7.2.12'."""
    cpu: Cpu | None = None
    """In virtual time: whose processor the endpoints saw, the lab's fixed one or the host's."""
    lab_kernel: str = ""
    """In virtual time: SHA-256 of the lab kernel's file."""
    captures: dict[CaptureName, str] = {}
    """SHA-256 of the captures, by side: left, right."""
    evidence: Evidence = "full"
    """What of the files that it was measured from is kept. A run in virtual time can be made again with all of them."""
    artefacts: dict[Place, str] = {}
    """SHA-256 of all else that it is measured from, by place in its folder; older harnesses recorded none."""
    trail: str = ""
    """Of the left capture (see `harness.capture.divergence`): where another run parts from this one can be told by it.
    """
    random: dict[str, RandomBytes] = {}
    """In virtual time: the random bytes each endpoint was given."""
    effective: dict[str, ParameterValue] = {}
    """Parameters as set, those chosen by the harness included."""
    image_ids: dict[str, str] = {}
    """Image ID per role and for the simulator."""
    contents: dict[str, ContentsDigest] = {}
    """Digest of what was really in each image (see `harness.engine.images.contents`), by the names of `image_ids`."""
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


# --- The verdict on a cell.


VerdictStatus = Literal["pass", "fail", "measured", "inconclusive", "unsupported", "error"]
"""measured: nothing was demanded, and the figures are there."""


class Interval(Fact):
    """Median of n values and the order-statistic interval around it (see `harness.stats.intervals`)."""

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
    """Reason code: objectives_met, milestone_2MB_missed, interval_straddles, no_objectives, unsupported_client,
    crashed_server …"""
    sentence: str
    objectives: tuple[ObjectiveVerdict, ...] = ()
    evidence: tuple[str, ...] = ()
    """Paths of the runs it rests on, relative to the store."""
