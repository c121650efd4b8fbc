"""One client with one server: when, how much, which way; of which kind, and by which test case."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Annotated, Final, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from harness.errors import UnfitError
from harness.formatting import format_value
from harness.scenario.parameters import ROLES, ParameterValue, Role, WrittenValue, canonical_value
from harness.scenario.schema.base import NAME_OR_RELEASE, PATH_NAME, Part, short_or
from harness.scenario.schema.mobility import ClientMove, Move
from harness.scenario.schema.queue import MTU
from harness.scenario.schema.requests import Datagrams, Page, RepeatedRequests, ScheduledRequest, Video
from harness.units import Duration, Rate, Size

# --- Several files of one transfer.


#: Maximum number of files of one transfer: their names are words of one command line.
MAXIMUM_FILES = 5000
#: Maximum number of connections that a client makes at once.
MAXIMUM_CONNECTIONS = 100
#: The longest name of a file (POSIX's NAME_MAX).
_LONGEST_NAME = 255
#: Length of a file's name without padding: its number within the transfer, its size and its extension.
_OWN = len("0000-1023MB.bin")


class Files(Part):
    """So many files of one size."""

    count: Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_FILES)]
    """How many."""
    size: Size
    """Of each."""
    name_length: Annotated[int, Field(strict=True, ge=_OWN, le=_LONGEST_NAME)] | None = None
    """Characters of each name, which is filled up; by default as many as it needs."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.size.bytes:
            raise UnfitError("a file has at least one byte", "write size: 1 KiB, say")
        return self


# --- Traffic models: what a sender sends, and when.


#: Maximum datagrams per second of the generator in real time on one core: up to 30,000 it keeps time here.
GENERATOR_LIMIT = 20_000


class Bulk(Part):
    """As much as the transport takes."""

    model: Literal["bulk"] = "bulk"


def _something(value: Rate) -> Rate:
    if not value.value:
        raise UnfitError("traffic without a rate is none", "write '1 Mbit/s', say, or leave the flow out")
    return value


class ConstantRate(Part):
    """Equal amounts at equal times; what the transport does not take in time follows as soon as it does."""

    model: Literal["cbr"]
    rate: Rate
    """Of the payload."""
    packet: Size = Size.parse("1200 B")
    """UDP payload of a datagram; TCP cuts its own segments."""

    _rate = field_validator("rate")(_something)


class Poisson(Part):
    """Datagrams of one size with exponential gaps."""

    model: Literal["poisson"]
    rate: Rate
    """Mean rate of the UDP payload."""
    packet: Size = Size.parse("1200 B")
    """UDP payload of a datagram."""

    _rate = field_validator("rate")(_something)


class UniformGaps(Part):
    """Datagrams with sizes and gaps drawn from uniform distributions."""

    model: Literal["uniform"]
    packet: tuple[Size, Size]
    """UDP payload of a datagram: smallest, largest."""
    gap: tuple[Duration, Duration]
    """Time between two datagrams: shortest, longest."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.packet[0].bytes > self.packet[1].bytes or self.gap[0].value > self.gap[1].value:
            raise UnfitError("ranges go from the smallest to the largest value", "exchange the two")
        if not self.gap[1].value:
            raise UnfitError("a gap is longer than nothing", "write gap: [10 ms, 20 ms]")
        return self

    @property
    def rate(self) -> Rate:
        """Mean rate of the UDP payload."""
        size, gap = sum(bound.bytes for bound in self.packet) / 2, sum(bound.seconds for bound in self.gap) / 2
        return Rate(round(size * 8 / gap))


Traffic = Annotated[Bulk | ConstantRate | Poisson | UniformGaps, Field(discriminator="model")]


# --- flow


#: The keys of a flow that say when its client asks for what.
_SCHEDULES: Final = ("page", "requests", "video")

#: Maximum number of flows of a scenario: twice the target of 250 (issue 42). A bridge has room for 1023 ports
#: (BR_MAX_PORTS, net/bridge/br_private.h), and the address plan for 650 flows.
MAXIMUM_FLOWS = 500
FlowKind = Literal["quic", "tcp", "udp"]
#: Kind of a flow in a lab. A download uses a protocol that both implementations speak: QUIC, or HTTPS over TCP.
LabFlowKind = Literal["quic", "https", "tcp", "udp"]
#: Default implementation of TCP and UDP flows: the protocols of this kernel, driven by a generator.
GENERATOR = "linux"


class Flow(Part):
    """One client and one server, each a host of its own. Data flows from the server to the client unless told."""

    count: Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_FLOWS)] = 1
    """How many flows like this one there are: clients with a server each."""
    every: Duration = Duration(0)
    """Of several, each starts so long after the one before it; by default all start at once."""
    kind: FlowKind = "quic"
    """quic: a download, over HTTPS and TCP where its implementations speak that. tcp, udp: a generator's traffic."""
    download: Size | None = None
    """Size of the file, or of what a TCP flow transfers in its direction; or stop."""
    upload: Size | None = None
    """Instead of `download`, for data from the client to the server: size of the file that the client sends."""
    files: tuple[Files, ...] = ()
    """Several files instead of one: all in one connection, unless the scenario's testcase says otherwise."""
    connections: Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_CONNECTIONS)] = 1
    """How many connections the client makes at once, which share its files: each gets every so manieth of them."""
    page: Page | None = None
    """Instead of a download, a page: objects, some of which come after others."""
    requests: RepeatedRequests | None = None
    """Instead of a download, requests of one size at equal times."""
    video: Video | None = None
    """Instead of a download, the segments of a video, one after the other."""
    datagrams: Datagrams | None = None
    """Instead of a download, datagrams at equal times (RFC 9221)."""
    session: bool = False
    """Instead of a download, a WebTransport session that transfers nothing."""
    start: Duration = Duration(0)
    """When the client starts, counted from the moment the path is up."""
    stop: Duration | None = None
    """When the flow is cut off, on the clock of `start`; what it transfers has no end of its own."""
    repeat_after: Duration | None = None
    """Download once more in a new connection, this long after the first ended (session tickets kept)."""
    traffic: Annotated[Traffic, Field(json_schema_extra=short_or("'bulk': as much as the transport takes"))] = Bulk()
    """What the sender sends, and when: 'bulk', or a model with its figures."""
    direction: Literal["to_client", "to_server"] = "to_client"
    """Where data goes, where `upload` does not say it: of several files, of what is cut off, of traffic."""
    client: Annotated[str, Field(pattern=NAME_OR_RELEASE)] | None = None
    """The implementation at the client, instead of the matrix's."""
    server: Annotated[str, Field(pattern=NAME_OR_RELEASE)] | None = None
    """The implementation at the server, instead of the matrix's."""
    access_delay: Duration = Duration(0)
    """Further one-way delay of this flow alone, in both directions, beyond the bottleneck."""
    path: Annotated[str, Field(pattern=PATH_NAME)] | None = None
    """The path its client starts on, where the scenario has several; by default the first."""
    moves: tuple[Move, ...] = ()
    """How its client's address changes under the transfer, in order of time."""
    parameters: dict[str, WrittenValue] = {}
    """Endpoint parameters of this flow alone, as client.NAME or server.NAME."""

    @model_validator(mode="after")
    def _possible_count(self) -> Self:
        if not self.every.value:
            return self
        if self.count == 1:
            raise UnfitError("one flow has no other to start after", "write count: 10, say, or leave out every")
        if self.moves:
            raise UnfitError(
                "moves count from the first datagram of the run: flows that move start together", "leave out every"
            )
        last = self.start.value + (self.count - 1) * self.every.value
        if self.stop is not None and self.stop.value <= last:
            raise UnfitError(
                f"the last of {self.count} flows starts at {Duration(last)}, and they stop at {self.stop}",
                "write a later stop, or a shorter time between starts",
            )
        return self

    @property
    def each(self) -> tuple[Flow, ...]:
        """The flows that this one stands for."""
        if self.count == 1:
            return (self,)
        single = {"count": 1, "every": Duration(0)}
        starts = (Duration(self.start.value + number * self.every.value) for number in range(self.count))
        return tuple(self.model_copy(update={**single, "start": start}) for start in starts)

    @field_validator("traffic", mode="before")
    @classmethod
    def _short_traffic(cls, value: object) -> object:
        if not isinstance(value, str | dict | Part):
            raise UnfitError(
                f"{format_value(value)} is not traffic: write 'bulk', or a model with its keys", "traffic: bulk"
            )
        return {"model": value} if isinstance(value, str) else value

    @field_validator("parameters")
    @classmethod
    def _canonical(cls, value: dict[str, ParameterValue]) -> dict[str, ParameterValue]:
        return {name: canonical_value(name, item) for name, item in value.items()}

    @model_validator(mode="after")
    def _possible_extent(self) -> Self:
        if self.upload is not None and (self.download is not None or self.direction != "to_client"):
            taken = "download" if self.download is not None else "direction"
            raise UnfitError(f"upload is a size and a direction: {taken} says it once more", f"leave out {taken}")
        if not (self.groups or self.datagrams or self.session) and (self.amount is None) == (self.stop is None):
            raise UnfitError(
                "give exactly one of download, upload (sizes) and stop (a time)",
                "write download: 10 MB, upload: 10 MB, or stop: 30 s",
            )
        if self.stop is not None and self.stop.value <= self.start.value:
            raise UnfitError(f"stops at {self.stop}, before it starts at {self.start}", "write a later stop")
        if self.stop is not None and self.repeat_after is not None:
            raise UnfitError(
                "what is cut off at a time is not repeated: leave out stop or repeat_after",
                "leave out stop or repeat_after",
            )
        return self

    @model_validator(mode="after")
    def _possible_traffic(self) -> Self:
        if self.kind == "quic":
            if not isinstance(self.traffic, Bulk):
                raise UnfitError(
                    "QUIC endpoints transfer files: their flows are in bulk", "leave out traffic, or write kind: tcp"
                )
            if self.download is not None and self.direction != "to_client":
                raise UnfitError("what goes to the server is no download", f"write upload: {self.download}")
            return self
        if self.repeat_after is not None:
            raise UnfitError(f"a flow of {self.kind} is not repeated: leave out repeat_after", "leave out repeat_after")
        if self.kind == "udp" and self.amount is not None:
            raise UnfitError(
                "a flow of udp has a stop, no size: what is lost is not sent again, so it has no end",
                "write stop: 30 s, say",
            )
        if self.kind == "tcp":
            if self.amount is not None and not self.amount.bytes:
                raise UnfitError("a flow of tcp with a size transfers something", "write '1 MB', say")
            if not isinstance(self.traffic, Bulk | ConstantRate):
                raise UnfitError("the traffic of a tcp flow is bulk or cbr", "write traffic: bulk")
        elif isinstance(self.traffic, Bulk):
            raise UnfitError(
                "the traffic of a udp flow is cbr, poisson or uniform",
                "write traffic: {model: poisson, rate: 1 Mbit/s}",
            )
        else:
            self._within_the_generator(self.traffic)
        return self

    @model_validator(mode="after")
    def _possible_files(self) -> Self:
        if self.connections > 1 and not self.files:
            raise UnfitError(
                "several connections of a client share its files, and the flow has none to share",
                f"write files: [{{count: {self.connections}, size: 1 MB}}], or count: for as many clients",
            )
        if self.connections > 1 and (self.moves or self.sender == "client"):
            raise UnfitError(
                "several connections of a client stay where they are, and download", "leave out connections"
            )
        given = [name for name in ("files", *_SCHEDULES, "datagrams", "session") if getattr(self, name)]
        if not given:
            return self
        (name, *further) = given
        if further:
            raise UnfitError(f"{name} and {further[0]} of one flow", f"leave out {further[0]}, or write another flow")
        if self.amount is not None or self.stop is not None:
            what = "several files have" if name == "files" else f"{name} has"
            raise UnfitError(f"{what} no other size, and no stop", "leave out download, upload and stop")
        if self.kind != "quic":
            what = "sends no datagrams of QUIC" if self.datagrams else "transfers no files"
            raise UnfitError(f"a flow of {self.kind} {what}", f"leave out {name}, or write kind: quic")
        if self.repeat_after is not None:
            raise UnfitError("several files are not downloaded again", "leave out repeat_after")
        if self.sender == "client" and name != "files":
            others = {"datagrams": "are the server's", "session": "transfers nothing"}
            raise UnfitError(f"{name} {others.get(name, 'asks the server for files')}", "leave out direction")
        count = sum(group.count for group in self.files)
        if self.connections > max(1, count):
            raise UnfitError(
                f"{self.connections} connections share {count} files",
                f"write files: [{{count: {self.connections}, size: 1 MB}}], say; count: for as many clients",
            )
        if count > MAXIMUM_FILES:
            raise UnfitError(f"{count} files, and a transfer has room for {MAXIMUM_FILES}", "write fewer")
        return self

    @model_validator(mode="after")
    def _moves_in_order(self) -> Self:
        if not self.moves:
            return self
        if self.kind != "quic":
            raise UnfitError(
                f"a flow of {self.kind} stays where it is: QUIC connections alone outlive their address",
                "leave out moves, or write kind: quic",
            )
        if self.repeat_after is not None and any(move.how in get_args(ClientMove) for move in self.moves):
            raise UnfitError(
                "what a client is to do itself is told to one connection: a flow that moves is not repeated",
                "leave out repeat_after, or have the path move it (nat-address)",
            )
        if self.start.value:
            raise UnfitError(
                "moves count from the first datagram of the run: a flow that moves starts with it", "leave out start"
            )
        for before, after in pairwise(self.moves):
            if after.at.value == before.at.value:
                raise UnfitError(f"two moves at once, at {after.at}", "give each a time of its own")
            if after.at.value < before.at.value:
                raise UnfitError(
                    f"moves must be in order of time: {after.at} stands behind {before.at}", "put the earlier one first"
                )
            if before.acts.value >= after.at.value:
                raise UnfitError(
                    f"the gap of the move at {before.at} lasts beyond the next one, at {after.at}",
                    "write a shorter gap, or a later move",
                )
        return self

    def _within_the_generator(self, traffic: ConstantRate | Poisson | UniformGaps) -> None:
        sizes = traffic.packet if isinstance(traffic, UniformGaps) else (traffic.packet,)
        smallest, largest = min(size.bytes for size in sizes), max(size.bytes for size in sizes)
        if not smallest >= 16 or largest > MTU - 48:
            raise UnfitError(f"a datagram of the generator has a payload of 16 to {MTU - 48} B", "write packet: 1200 B")
        frequency = traffic.rate.value / 8 / (sum(size.bytes for size in sizes) / len(sizes))
        if frequency > GENERATOR_LIMIT:
            raise UnfitError(
                f"{traffic.rate} are {frequency:.0f} datagrams/s, and the generator sends at most {GENERATOR_LIMIT}",
                "write a lower rate, or larger packets",
            )

    def implementation(self, role: Role) -> str | None:
        """The implementation this flow names for a role; None where it is the matrix's."""
        named = self.client if role == "client" else self.server
        return named if named is not None or self.kind == "quic" else GENERATOR

    @property
    def schedule(self) -> tuple[ScheduledRequest, ...]:
        """When its client asks for what, where the flow has a page, requests or a video; else empty."""
        source = self.page or self.requests or self.video
        return () if source is None else source.schedule()

    @property
    def groups(self) -> tuple[Files, ...]:
        """Its files, where it has several: of each size how many, in the order in which they are asked for."""
        sizes = ((size, len([*items])) for size, items in groupby(request.size for request in self.schedule))
        return self.files or tuple(Files(size=size, count=count) for size, count in sizes)

    @property
    def file(self) -> Size | None:
        """The file of a QUIC flow that is transferred to its end; None for what is cut off at a time or generated."""
        return self.amount if self.kind == "quic" else None

    @property
    def amount(self) -> Size | None:
        """What it transfers until it ends by itself: QUIC's file, or the size of TCP; None where a time ends it."""
        return self.upload if self.upload is not None else self.download

    @property
    def carried(self) -> Size | None:
        """What one transfer of it carries: `amount`, or all of its files together; None where a time ends it."""
        groups = self.groups
        return Size(sum(group.count * group.size.bytes for group in groups)) if groups else self.amount

    @property
    def sender(self) -> Role:
        """Who sends the data."""
        return "client" if self.upload is not None or self.direction == "to_server" else "server"


# --- Test cases of endpoints, as the contract of the interop runner names them.


TestcaseName = Literal[
    "handshake",
    "transfer",
    "chacha20",
    "keyupdate",
    "retry",
    "resumption",
    "zerortt",
    "http3",
    "multiconnect",
    "v2",
    "ecn",
    "connectionmigration",
    "versionnegotiation",
]
TESTCASES: Final[tuple[TestcaseName, ...]] = get_args(TestcaseName)
#: Test cases over WebTransport, beside `handshake`: how files go, and whether the client receives or sends them.
WebTransportTestcaseName = Literal[
    "transfer-unidirectional-receive",
    "transfer-unidirectional-send",
    "transfer-bidirectional-receive",
    "transfer-bidirectional-send",
    "transfer-datagram-receive",
    "transfer-datagram-send",
]
WEBTRANSPORT_TESTCASES: Final[tuple[WebTransportTestcaseName, ...]] = get_args(WebTransportTestcaseName)
#: Test cases that only one role gets; the other one gets `transfer`. Over WebTransport whoever receives asks for files.
ONE_SIDED: Final[dict[str, Role]] = {
    "keyupdate": "client",
    "connectionmigration": "server",
    **{name: "server" if name.endswith("-send") else "client" for name in WEBTRANSPORT_TESTCASES},
}
#: Role → the application protocols that it offers for a WebTransport session, the preferred one first.
SESSION_PROTOCOLS: Final[dict[Role, tuple[str, ...]]] = {
    "client": ("lab-a", "lab-b", "lab-c", "lab-d", "lab-e"),
    "server": ("lab-v", "lab-d", "lab-x", "lab-b", "lab-z"),
}
#: The client's first that the server has, too.
NEGOTIATED_PROTOCOL: Final = next(name for name in SESSION_PROTOCOLS["client"] if name in SESSION_PROTOCOLS["server"])
#: The lab's own, which servers alone get. An image that does not know the word ends with 127.
ServerTestcaseName = TestcaseName | WebTransportTestcaseName | Literal["zerortt-rejected"]


class Refusal(Part):
    """Test cases that an image ends with 127 for, and why."""

    testcases: Annotated[tuple[TestcaseName, ...], Field(min_length=1)]
    """Those, by their TESTCASE."""
    roles: Annotated[tuple[Role, ...], Field(min_length=1)] = ROLES
    """In which roles; both without."""
    why: Annotated[str, Field(min_length=1)]
    """What the stack's public API lacks, in half a sentence."""


def asked_of(role: Role) -> tuple[TestcaseName, ...]:
    """The test cases that a role may be told."""
    return tuple(name for name in TESTCASES if ONE_SIDED.get(name, role) == role)
