"""What happened to one run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from harness.outcome.base import CaptureName, ContentsDigest, Fact, Finite, Place
from harness.outcome.cell import Cell, Cpu
from harness.scenario.parameters import ParameterValue, Role

Status = Literal[
    "completed", "unsupported", "timed_out", "idle_timeout", "handshake_timeout", "ack_timeout", "stateless_reset",
    "connection_closed", "connection_reset", "crashed", "wrong_file", "log_overflow", "infrastructure",
]  # fmt: skip

#: A transfer that failed: its time was over, or its connection ended first (`harness.outcome.connection_end`). Nobody
#: broke, and nothing is missing that could be measured.
FAILED_TRANSFER: frozenset[Status] = frozenset(
    {
        "timed_out", "idle_timeout", "handshake_timeout", "ack_timeout", "stateless_reset", "connection_closed",
        "connection_reset",
    }
)  # fmt: skip

#: Reasons of the ground's that come and go: the same run, made again, may well not meet them.
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
    artefacts: dict[Place, str] = {}
    """SHA-256 of all else that it is measured from, by place in its folder; older harnesses recorded none."""
    trail: str = ""
    """Of the left capture (see `harness.capture.fingerprint`): where another run parts from this one can be told by it.
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
