"""The specification of a lab: everything that an engine needs to bring a cell up."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from harness.netem import PathProgram
from harness.scenario.parameters import ParameterValue, Role
from harness.scenario.schema import MTU, Container, Cpu, LabFlowKind, MoveKind
from harness.topology.addresses import Side

#: Port of the servers, of UDP, and of TCP where they serve files over it.
SERVER_PORT = 443
#: How long the simulator waits for the servers to answer, seconds.
SERVER_WAIT = 15.0
#: The same in real time on a loaded machine. The compose engine takes 45 s for a simulator's failure.
LOADED_WAIT = 35.0
#: Period of the simulator's counters, seconds.
SAMPLE = 0.1
#: Seconds after its stop in which a flow that ends by itself must end: its last data is still in flight.
DRAIN = 10.0
#: Seconds from when the path is up to a client's first datagram: its wait for the simulator, and its start.
CLIENT_START = 5.0
#: Seconds from the last byte of a client's file to the client's end, where its time limit has passed by then. Closing a
#: connection takes three times the probe timeout (RFC 9000 §10.2): 5.4 s and more where a round trip takes 0.6 s.
CLIENT_END = 10.0


class Spec(BaseModel):
    """A frozen part of a lab."""

    model_config = ConfigDict(frozen=True, defer_build=True, extra="forbid")


class Interface(Spec):
    """An interface in a network."""

    network: str
    ipv4: str
    ipv6: str
    further: tuple[str, ...] = ()
    """Its addresses in the networks of further flows on the same wire, IPv4 and IPv6."""

    @property
    def addresses(self) -> tuple[str, str]:
        """IPv4 and IPv6."""
        return self.ipv4, self.ipv6

    @property
    def prefixed(self) -> list[str]:
        """The addresses with the lengths of their networks' prefixes."""
        return [f"{address}/{64 if ':' in address else 24}" for address in (self.ipv4, self.ipv6, *self.further)]


class Host(Spec):
    """One endpoint: the settings of a container, or of a namespace with that image as its root."""

    name: str
    """client0, server0, …"""
    role: Role
    flow: int
    image: str
    interfaces: tuple[Interface, ...]
    """A client has one for each path it is on at some time, that of the first one first."""
    hosts: dict[str, tuple[str, ...]]
    """Entries of /etc/hosts: name → addresses."""
    environment: dict[str, str]
    sysctls: dict[str, str] = {}
    """Settings of the kernel in its network namespace: name → value."""
    container: Container = Container()
    """The container settings that its image needs."""
    cpu: Cpu | None = None
    """What computing costs it in virtual time."""

    @property
    def ipv4(self) -> str:
        """The IPv4 address of its first interface."""
        return self.interfaces[0].ipv4

    @property
    def ipv6(self) -> str:
        """The IPv6 address of its first interface."""
        return self.interfaces[0].ipv6

    @property
    def addresses(self) -> list[str]:
        """The IPv4 and IPv6 addresses of all its interfaces."""
        return [address for interface in self.interfaces for address in interface.addresses]


class Network(Spec):
    """A network of clients, on one path; that of the servers; or one between two segments in a row."""

    side: Side | None
    """None between two segments."""
    ipv4: str
    ipv6: str
    further: tuple[str, ...] = ()
    """The networks of further flows on the same wire, IPv4 and IPv6."""


class Route(Spec):
    """The route to a network that a station is not in."""

    network: str
    """IPv4 or IPv6, with the length of its prefix."""
    side: Side
    """Where it begins."""
    via: str
    """Address of the next hop there."""


class ProxyHost(Spec):
    """A proxy between two segments: it forwards in both directions as a router, except for the TCP that it splits."""

    name: str
    """proxy0, proxy1, … from the clients' end."""
    left: Interface
    right: Interface
    routes: tuple[Route, ...]
    sysctls: dict[str, str]
    """Settings of the kernel in its network namespace: name → value."""
    initial_cwnd: int
    initial_rwnd: int
    """Of the connections it opens and answers, packets."""
    congestion_control: str

    @property
    def interfaces(self) -> dict[Side, Interface]:
        """By side."""
        return {"left": self.left, "right": self.right}


class Simulator(Spec):
    """A path between its clients' network and the servers', or one segment of a path in a row of segments."""

    name: str
    """sim; of the further ones sim-NAME, by the path. Its artefacts are in a folder of that name."""
    path: str
    """Its name in the scenario; '' where it has none."""
    left: Interface
    right: Interface
    program: PathProgram
    memory_mib: int
    """Of its own kernel, where it has one."""
    routes: tuple[Route, ...] = ()
    """Routes to the networks behind the next segments."""

    @property
    def interfaces(self) -> dict[Side, Interface]:
        """By side."""
        return {"left": self.left, "right": self.right}


class LabMove(Spec):
    """A client's address changes."""

    # It stands in lab.json, where a later version may add to it.
    model_config = ConfigDict(frozen=True, defer_build=True, extra="ignore")

    at: float
    """Seconds after the first datagram of the run."""
    how: MoveKind
    path: str
    """The path that the client is on from then on."""
    gap: float = 0.0
    """Seconds until the client itself acts."""
    addresses: tuple[str, str]
    """The client's addresses, IPv4 and IPv6, as the server sees them from then on."""
    port: int | None = None
    """Its source port; None where the client or the path chooses it."""


class LabFile(Spec):
    """One of several files that a server serves."""

    name: str
    size: int
    """Bytes."""
    text: str = ""
    """What it begins with, in front of blanks; without it its bytes are random."""
    is_image: bool = False
    """Its random bytes are those of a chunk of a PNG image, which a browser passes over."""


class LabFlow(Spec):
    """The configuration of one flow: its client's transfers."""

    flow: int
    client: str
    server: str
    kind: LabFlowKind = "quic"
    label: str = ""
    """Its name for people: implementations and congestion control, as far as they were named."""
    file: str
    """The file that is transferred; empty where there is none."""
    size: int
    """Of the file, bytes, or of all files; 0 where there is none."""
    folder: str = ""
    """For several files, the served folder that has these files only."""
    files: tuple[LabFile, ...] = ()
    """Where there are several; `file` is empty then."""
    start: float
    stop: float | None = None
    """When it is cut off."""
    repeat_after: float | None
    sender: Role = "server"
    access_delay_ns: int = 0
    """One-way delay of this flow alone, in both directions, on top of the link's."""

    path: str = ""
    """The path that its client starts on."""
    moves: tuple[LabMove, ...] = ()
    """In order of time; those that come again each time."""

    @property
    def cut_off(self) -> bool:
        """Whether the engine ends it at its stop. A generator ends by itself."""
        return self.kind in ("quic", "https") and self.stop is not None

    @property
    def uploads(self) -> bool:
        """Whether its client sends files, which its server keeps."""
        return self.kind in ("quic", "https") and self.sender == "client"


class Lab(Spec):
    """Everything an engine needs to bring a cell up."""

    name: str
    networks: dict[str, Network]
    """left, right; left-NAME of further paths."""
    simulators: tuple[Simulator, ...]
    """One for each path, that which flows start on first; of segments in a row one for each, from the clients' end."""
    proxies: tuple[ProxyHost, ...] = ()
    """Between segments, from the clients' end."""
    whole: PathProgram | None = None
    """For segments in a row, the program of the whole path, for its figures only: no simulator runs it."""
    hosts: tuple[Host, ...]
    flows: tuple[LabFlow, ...]
    sim_image: str
    sim_kernel: str
    mtu: int = MTU
    """IP MTU of every interface, bytes."""
    seed: int
    """Seed of netem's loss, and of the random numbers of a kernel in virtual time."""
    certificates: int = 1
    """The number of certificates that servers present."""
    whole_frames: bool = False
    """Captures keep whole frames, to be decrypted."""
    host_cpu: bool = False
    """In virtual time: endpoints see the host's processor."""
    timeout: float
    """Seconds one transfer may take."""
    server_wait: float = SERVER_WAIT
    """Seconds the servers may take to answer. It is not of the cell: a run on a loaded machine gets more."""
    effective: dict[str, ParameterValue]

    def host(self, name: str) -> Host:
        """The host of that name."""
        return next(host for host in self.hosts if host.name == name)

    def time_limit(self, flow: LabFlow) -> float:
        """Seconds from a client's first datagram within which its transfer must end."""
        return self.timeout if flow.stop is None else flow.stop - flow.start + DRAIN

    def patience(self, flow: LabFlow) -> float:
        """Seconds from a client's start to its first datagram; 0 where datagrams do not show that, as in plain UDP."""
        return 0.0 if flow.kind == "udp" else CLIENT_START

    def simulator(self, path: str) -> Simulator:
        """The simulator of a path, by its name."""
        return next(simulator for simulator in self.simulators if simulator.path == path)

    @property
    def stations(self) -> tuple[Simulator | ProxyHost, ...]:
        """The simulators and proxies of segments in a row, from the clients' end; empty for other labs."""
        by_network = {proxy.left.network: proxy for proxy in self.proxies}
        stations: list[Simulator | ProxyHost] = []
        for simulator in self.simulators if self.whole is not None else ():
            stations.append(simulator)
            if simulator.right.network in by_network:
                stations.append(by_network[simulator.right.network])
        return tuple(stations)

    @property
    def programs(self) -> tuple[PathProgram, ...]:
        """The program of every path."""
        return tuple(simulator.program for simulator in self.simulators)
