"""A case: what to emulate, what to do, what to demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, StrictInt, StrictStr, field_validator, model_validator

from harness.errors import UnfitError
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import ROLES, ParameterValue, Role, WrittenNumber, WrittenValue, canonical_value
from harness.scenario.schema.base import NAME_OR_RELEASE, PATH_NAME, SCENARIO_NAME, Part
from harness.scenario.schema.cpu import Cpu
from harness.scenario.schema.flow import (
    MAXIMUM_FLOWS,
    ONE_SIDED,
    WEBTRANSPORT_TESTCASES,
    Flow,
    ServerTestcaseName,
    TestcaseName,
    WebTransportTestcaseName,
)
from harness.scenario.schema.objective import Objective
from harness.scenario.schema.path import Path
from harness.scenario.schema.segments import AnyPath, Proxy, Segment, boundaries, end_to_end
from harness.scenario.schema.study import Experiment
from harness.units import Duration, Size

#: Maximum number of flows where there are several paths, or segments in a row: those of the first network of a side
#: (harness.topology.addresses). The further networks are behind the simulator of one path.
MAXIMUM_FLOWS_OF_SEVERAL = 50
#: Maximum repetitions of a cell: intervals are narrow long before.
MAXIMUM_REPETITIONS = 1000
#: Maximum number of different access delays of a scenario's flows: the classes of sch_prio, less the default one.
MAXIMUM_ACCESS_DELAYS = 14


#: Maximum number of paths of a scenario: each has its own simulator, and the address plan has room for so many.
MAXIMUM_PATHS = 4
#: Maximum number of random values of one path: every corner of their ranges must be a possible path.
MAXIMUM_DRAWN = 6

#: Maximum number of certificates of a chain: OpenSSL verifies 100, GnuTLS 16 (DEFAULT_MAX_VERIFY_DEPTH).
MAXIMUM_CERTIFICATES = 16
#: The demand of a check: a count, a word, or true if it has no value.
CheckValue = StrictBool | StrictInt | StrictStr
PathName = Annotated[str, Field(pattern=PATH_NAME)]
Range = tuple[WrittenNumber, WrittenNumber]


class Scenario(Part):
    """A case: the path to emulate, the transfers to make, the demands on them."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    """Version of this format."""
    name: Annotated[str, Field(pattern=SCENARIO_NAME)] = "unnamed"
    """Folder and file name below scenarios/; filled in by the catalogue."""
    title: str
    """One line for people."""
    description: str = ""
    """What the case stands for, and what was chosen where its source is silent."""
    references: tuple[str, ...] = ()
    """Where the case and its numbers come from."""
    path_: Annotated[AnyPath | None, Field(alias="path")] = None
    """The emulated path, where there is one; or its segments in a row, from the servers' end to the clients'."""
    paths: Annotated[dict[PathName, Path], Field(max_length=MAXIMUM_PATHS)] = {}
    """Several, by name, instead of `path`: each between its own clients and all servers. Flows start on the first."""
    flows: Annotated[tuple[Flow, ...], Field(min_length=1, max_length=MAXIMUM_FLOWS)]
    """The clients, each with its server; all share the path. 500 at most, 50 with several paths or segments, and 50 in
    real time; `count` stands for several equal ones."""
    clients: tuple[Annotated[str, Field(pattern=NAME_OR_RELEASE)], ...] = ()
    """Who the clients are where the command line names nobody; everybody by default."""
    servers: tuple[Annotated[str, Field(pattern=NAME_OR_RELEASE)], ...] = ()
    """Who the servers are where the command line names nobody; everybody by default."""
    protocol: Literal["auto", "h3", "hq-interop", "h2", "webtransport"] = "auto"
    """Application protocol; auto takes the first of h3, hq-interop and h2 (over TCP) that both ends speak. webtransport
    has test cases of its own."""
    testcase: TestcaseName | WebTransportTestcaseName | None = None
    """What the endpoints are asked to do, as TESTCASE of the interop runner's contract; it decides the application
    protocol. By default a transfer over what both speak."""
    server_testcase: ServerTestcaseName | None = None
    """What the servers are asked to do where it is something else: `retry` beside a client's `zerortt`. By default the
    same. `zerortt-rejected` is the lab's own: the server takes early data in no connection after the first."""
    checks: dict[str, CheckValue] = {}
    """NAME → value: what must be on the wire, judged from the decrypted captures (harness report interop --checks)."""
    certificates: Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_CERTIFICATES)] = 1
    """How many certificates the servers present, their own included; with several their own has 5 kB of names, too."""
    ip_version: Literal[4, 6, 46] = 4
    """IP version of the transfers; with 46 the server's name has addresses of both."""
    timeout: Duration = Duration.parse("120 s")
    """How long one transfer may take, from its client's first datagram to its last byte."""
    repetitions: Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_REPETITIONS)] = 1
    """How often each cell runs unless the command line says otherwise."""
    milestones: tuple[Size, ...] = tuple(Size.parse(size) for size in ("2 MB", "10 MB", "100 MB"))
    """Amounts of the file whose arrival is timed."""
    objectives: tuple[Objective, ...] = ()
    """Demands; a source's open ones are absent, not invented."""
    parameters: dict[str, WrittenValue] = {}
    """Endpoint parameters, as client.NAME or server.NAME, of each flow that can be told and has none of its own."""
    cpu: dict[Role, Cpu] = {}
    """What computing costs the clients, and the servers, in virtual time; by default nothing. In real time it costs
    what it costs."""
    vary: dict[str, tuple[WrittenNumber, ...]] = {}
    """A sweep: NAME → values. NAME is client.X, server.X, X alone for both roles, or path.forward.rate and its like."""
    draw: dict[str, Range] = {}
    """NAME → [least, most]: a value drawn evenly from the range, anew for each repetition, by the seed of its run. NAME
    is path.forward.rate and its like."""
    combine: Literal["product", "zip"] = "product"
    """How several sweeps go together: every value with every other, or the first with the first and so on."""
    study: Experiment | None = None
    """Instead of a sweep: factors, and a design that says which of their combinations each pair runs."""

    @field_validator("flows")
    @classmethod
    def _each(cls, value: tuple[Flow, ...]) -> tuple[Flow, ...]:
        flows = tuple(flow for entry in value for flow in entry.each)
        if len(flows) > MAXIMUM_FLOWS:
            raise UnfitError(f"{len(flows)} flows, and a lab has room for {MAXIMUM_FLOWS}", "write a smaller count")
        return flows

    @field_validator("parameters")
    @classmethod
    def _canonical(cls, value: dict[str, ParameterValue]) -> dict[str, ParameterValue]:
        return {name: canonical_value(name, item) for name, item in value.items()}

    @model_validator(mode="after")
    def _some_path(self) -> Self:
        if (self.path_ is None) == (not self.paths):
            raise UnfitError(
                "give exactly one of path (one path) and paths (several, by name)", "leave one of the two out"
            )
        reference, *paths = self.every_path.values()
        if any(path.mtu != reference.mtu for path in paths):
            raise UnfitError("the paths share the servers' network, and with it their MTU", "give all the same mtu")
        return self

    def with_objectives(self, objectives: Sequence[Objective]) -> Scenario:
        """The scenario with other objectives in place of its own. UnfitError for one that it has no figure for."""
        self._require_figures(objectives)
        return self.model_copy(update={"objectives": tuple(objectives)})

    def _require_figures(self, objectives: Sequence[Objective]) -> None:
        labels = {f"milestone_{size.label()}" for size in self.milestones_within()}
        for objective in objectives:
            name = MetricName.parse(objective.metric)
            if name.metric.startswith("milestone_") and name.metric not in labels:
                raise UnfitError(
                    f"objective on {objective.metric}, but the milestones are {', '.join(sorted(labels)) or 'none'}",
                    "name a milestone that a flow's download has",
                )
            if name.transfer == "repeat" and all(flow.repeat_after is None for flow in self.flows):
                raise UnfitError(
                    f"objective on {objective.metric}, but no flow has repeat_after", "give a flow repeat_after: 1 s"
                )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self._require_figures(self.objectives)
        if len(self.flows) > MAXIMUM_FLOWS_OF_SEVERAL and (self.paths or self.in_sequence):
            kind = "segments" if self.in_sequence else "paths"
            raise UnfitError(
                f"{len(self.flows)} flows, and a lab with several {kind} has addresses for {MAXIMUM_FLOWS_OF_SEVERAL}",
                "write one path, or fewer flows",
            )
        delays = {flow.access_delay for flow in self.flows} - {Duration(0)}
        if len(delays) > MAXIMUM_ACCESS_DELAYS:
            raise UnfitError(
                f"{len(delays)} different access delays, but a path has room for {MAXIMUM_ACCESS_DELAYS}",
                "give some flows the same",
            )
        for number, flow in enumerate(self.flows):
            if flow.stop is not None and flow.stop.value - flow.start.value > self.timeout.value:
                raise UnfitError(
                    f"flow {number} runs until {flow.stop}, longer than the timeout of {self.timeout}",
                    "write a longer timeout",
                )
        return self

    @model_validator(mode="after")
    def _one_sweep(self) -> Self:
        if self.study is not None and self.vary:
            raise UnfitError("a study has its own factors", "leave vary out, or write its names below study.factors")
        return self

    @model_validator(mode="after")
    def _asked(self) -> Self:
        if self.testcase is not None and self.protocol not in ("auto", "webtransport"):
            raise UnfitError("a testcase decides the protocol", "leave out protocol")
        if self.server_testcase is not None and (
            self.testcase is None or (self.testcase == "http3") != (self.server_testcase == "http3")
        ):
            raise UnfitError(
                "a test case of the servers needs one of the clients, over the same application protocol",
                "write testcase: zerortt and server_testcase: retry, for example",
            )
        if self.checks and self.testcase is None:
            raise UnfitError("checks are of a testcase", "write testcase: transfer, say")
        corrupting = any(
            link.corrupt is not None for path in self.every_path.values() for link in (path.forward, path.return_)
        )
        if corrupting and self.ip_version != 4:
            raise UnfitError("datagrams without a checksum are of IPv4: corrupt needs it", "leave out ip_version")
        return self

    @model_validator(mode="after")
    def _over_webtransport(self) -> Self:
        if self.protocol != "webtransport":
            if self.testcase in WEBTRANSPORT_TESTCASES or any(flow.session for flow in self.flows):
                what = "a session" if self.testcase not in WEBTRANSPORT_TESTCASES else self.testcase
                raise UnfitError(f"{what} is of WebTransport", "write protocol: webtransport")
            return self
        if self.testcase != "handshake" and self.testcase not in WEBTRANSPORT_TESTCASES:
            names = ", ".join(("handshake", *WEBTRANSPORT_TESTCASES))
            raise UnfitError("WebTransport has test cases of its own", f"write testcase: with one of {names}")
        for number, flow in enumerate(self.flows):
            if self.testcase == "handshake":
                fits, hint = flow.session, "write session: true, and nothing else"
            else:
                sends = ONE_SIDED[self.testcase] == "server"
                fits = bool(flow.files) and (flow.sender == "client") == sends
                hint = f"write files:{', and direction: to_server' if sends else ''}"
            if not fits or flow.kind != "quic":
                raise UnfitError(f"flow {number} is not what {self.testcase} over WebTransport transfers", hint)
        return self

    def testcase_of(self, role: Role) -> ServerTestcaseName | None:
        """TESTCASE of a role, of flows over QUIC; None where the application protocol decides it."""
        asked = (self.server_testcase or self.testcase) if role == "server" else self.testcase
        return asked if asked is None or ONE_SIDED.get(asked, role) == role else "transfer"

    @property
    def steps(self) -> tuple[Segment | Proxy, ...]:
        """The segments of a path in a row and what stands between them, from the servers' end; none of another path."""
        return self.path_ if isinstance(self.path_, tuple) else ()

    @property
    def in_sequence(self) -> bool:
        """Whether the path is several segments in a row."""
        return isinstance(self.path_, tuple)

    @property
    def proxies(self) -> tuple[Proxy | None, ...]:
        """What stands between the segments, from the clients' end: a proxy, or None for a router."""
        return boundaries(self.steps)[::-1]

    @property
    def every_path(self) -> dict[str, Path]:
        """The paths by name, the one that flows start on first; a path alone has the name ''.

        Of a path in a row its segments, from the clients' end.
        """
        if self.in_sequence:
            return {step.name: step for step in reversed(self.steps) if isinstance(step, Segment)}
        return {"": self.path_} if isinstance(self.path_, Path) else dict(self.paths)

    @property
    def path(self) -> Path:
        """The path that flows start on unless they say another; of a path in a row what it is from end to end."""
        if self.in_sequence:
            return end_to_end(list(self.every_path.values()))
        return next(iter(self.every_path.values()))

    def with_paths(self, paths: Mapping[str, Path]) -> Scenario:
        """The same with other paths, by the names of `every_path`."""
        if self.in_sequence:
            steps = tuple(paths[step.name] if isinstance(step, Segment) else step for step in self.steps)
            return self.model_copy(update={"path_": steps})
        if self.path_ is not None:
            return self.model_copy(update={"path_": paths[""]})
        return self.model_copy(update={"paths": {name: paths[name] for name in self.paths}})

    def start(self, flow: Flow) -> str:
        """The name of the path that a flow starts on."""
        return flow.path if flow.path is not None else next(iter(self.every_path))

    def latest_end(self, flow: Flow) -> Duration:
        """The latest time at which a flow can still be running, on the same clock as its start."""
        if flow.stop is not None:
            return flow.stop
        first_end = flow.start + self.timeout
        return first_end if flow.repeat_after is None else first_end + flow.repeat_after + self.timeout

    @property
    def horizon(self) -> Duration:
        """When no flow can still be running: no change that repeats comes then or later."""
        return max(self.latest_end(flow) for flow in self.flows)

    def milestones_within(self) -> list[Size]:
        """The milestones that the largest of the flows' amounts has."""
        sizes = [flow.amount for flow in self.flows if flow.amount is not None]
        return [size for size in self.milestones if sizes and size <= max(sizes)]

    @property
    def has_series(self) -> bool:
        """Whether its runs are measured over time too: several flows, or one without files to download to its end."""
        return len(self.flows) > 1 or any(flow.file is None and not flow.groups for flow in self.flows)

    @property
    def open_roles(self) -> set[Role]:
        """Roles that the matrix's implementations play in some flow; the others are all named by the flows."""
        return {role for role in ROLES for flow in self.flows if flow.implementation(role) is None}
