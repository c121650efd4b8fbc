"""A small model of a run: packets through two modelled links, written as a run's artefacts.

The link here is written after the kernel's tbf (tokens counted up, one packet at a time), or after a device that
sends (busy until a time), not after the replay in harness.analysis.link_replay, so that the two check each other.
"""

from __future__ import annotations

import ipaddress
import json
import random
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.outcome import Cell, Image, Outcome, Run, Transfer
from harness.scenario.schema import Implementation, Scenario

T0 = 1_790_000_000_000_000_000
CLIENT, SERVER = "193.167.0.100", "193.167.100.100"
CLIENT6, SERVER6 = "fd00:cafe:cafe:0::100", "fd00:cafe:cafe:100::100"

INITIAL = bytes.fromhex("c000000001")
ZERO_RTT = bytes.fromhex("d000000001")
HANDSHAKE = bytes.fromhex("e000000001")


@dataclass(frozen=True)
class Packet:
    """A UDP datagram on its way."""

    t_ns: int
    to_client: bool
    payload: bytes
    size: int  # bytes of UDP payload
    flow: int = 0
    ipv6: bool = False

    @property
    def length(self) -> int:
        return self.size + (62 if self.ipv6 else 42)


@dataclass(frozen=True)
class Link:
    """One direction as it really is, which may be other than what was asked."""

    rate_bps: int = 10_000_000
    delay_ns: int = 50_000_000
    burst_bytes: int | None = 3028  # None: one packet is sent after the other
    limit_bytes: int = 100_000
    loss: float = 0.0
    unexplained_loss: float = 0.0  # share that nobody counts
    rate_after: tuple[int, int] | None = None  # (when, bit/s)
    late_ns: int = 0  # every packet this late, by turns 0…2·late


@dataclass
class Carried:
    """What came of the packets: moment of leaving, or None."""

    out_ns: list[int | None]
    queue_drops: list[int] = field(default_factory=list)  # moments
    loss_drops: list[int] = field(default_factory=list)


class _Road:
    """A link with what waits for it. Times are ns since the first packet: as floats, those since the epoch are good
    to 256 ns only."""

    def __init__(self, link: Link, packets: Sequence[Packet], seed: int) -> None:
        self.link, self.packets, self.dice, self.base = link, packets, random.Random(seed), packets[0].t_ns
        self.result = Carried([None] * len(packets))
        self.queue: deque[int] = deque()
        self.backlog, self.rate = 0, link.rate_bps
        self.bucket = link.burst_bytes or 0
        self.tokens, self.clock, self.sending = float(self.bucket), 0.0, 0.0
        self.last = 0

    def dequeue_head(self, moment: float) -> None:
        """The head of the queue leaves the link."""
        index, link = self.queue.popleft(), self.link
        self.last = index
        self.backlog -= self.packets[index].length
        if self.dice.random() < link.loss:
            self.result.loss_drops.append(self.base + round(moment))
        elif self.dice.random() >= link.unexplained_loss:
            late = self.dice.randrange(2 * link.late_ns) if link.late_ns else 0
            self.result.out_ns[index] = self.base + round(moment) + link.delay_ns + late

    def drain(self, now: float) -> None:
        """What leaves until now."""
        (self._send if self.link.burst_bytes is None else self._release_by_tokens)(now)

    def _send(self, now: float) -> None:
        while self.queue:
            packet = self.packets[self.queue[0]]
            begin = max(self.sending, packet.t_ns - self.base)
            if begin > now:
                return
            self.sending = begin + packet.length * 8e9 / self.rate
            self.dequeue_head(self.sending)

    def _release_by_tokens(self, now: float) -> None:
        while self.queue:
            size = self.packets[self.queue[0]].length
            wait = max(0.0, (size - self.tokens) * 8e9 / self.rate)
            if self.clock + wait > now:
                return
            self.tokens += wait * self.rate / 8e9 - size
            self.clock += wait
            self.dequeue_head(self.clock)

    def advance(self, now: float) -> None:
        """Time passes."""
        self.drain(now)
        # The head of the queue keeps its tokens; an idle link fills its bucket.
        self.tokens = min(self.bucket, self.tokens + (now - self.clock) * self.rate / 8e9)
        self.clock = now

    def change(self, moment: float, rate: int) -> None:
        """The rate is another from now on: a packet in service goes on with its remaining bytes, a bucket keeps its."""
        self.advance(moment)
        if self.sending > moment and self.result.out_ns[self.last] is not None:
            longer = round((self.sending - moment) * (self.rate / rate - 1))
            self.result.out_ns[self.last] = (self.result.out_ns[self.last] or 0) + longer
            self.sending += longer
        self.rate = rate

    def enqueue(self, index: int) -> None:
        """A packet comes."""
        packet = self.packets[index]
        now = packet.t_ns - self.base
        self.advance(now)
        if self.backlog + packet.length > self.link.limit_bytes:
            self.result.queue_drops.append(packet.t_ns)
            return
        self.queue.append(index)
        self.backlog += packet.length
        self.drain(now)


def carry(link: Link, packets: Sequence[Packet], seed: int = 1) -> Carried:
    """Send packets, in order of time, through a link."""
    road, coming = _Road(link, packets, seed), link.rate_after
    for index, packet in enumerate(packets):
        if coming is not None and coming[0] <= packet.t_ns:
            road.change(coming[0] - road.base, coming[1])
            coming = None
        road.enqueue(index)
    road.drain(float("inf"))
    return road.result


@cache
def _address(first: str, flow: int) -> bytes:
    """Of one end of a flow, as it stands in a header."""
    return (ipaddress.ip_address(first) + flow).packed


def frame(packet: Packet, ttl: int = 64) -> bytes:
    """Ethernet, IP and UDP headers and the payload's head, cut to 96 bytes."""
    ends = (CLIENT6, SERVER6) if packet.ipv6 else (CLIENT, SERVER)
    client, server = (_address(end, packet.flow) for end in ends)
    source, target = (server, client) if packet.to_client else (client, server)
    ports = (443, 50000) if packet.to_client else (50000, 443)
    udp = struct.pack(">HHHH", *ports, packet.size + 8, ttl)  # a checksum that differs on both sides
    if packet.ipv6:
        ip = struct.pack(">IHBB", 0x60000000, packet.size + 8, 17, ttl) + source + target
    else:
        ip = struct.pack(">BBHHHBBH", 0x45, 0, packet.size + 28, 0, 0x4000, ttl, 17, ttl) + source + target
    ethernet = bytes(12) + (b"\x86\xdd" if packet.ipv6 else b"\x08\x00")
    body = packet.payload + bytes(max(0, min(packet.size, 96) - len(packet.payload)))
    return (ethernet + ip + udp + body)[:96]


def pcap(packets: Iterable[tuple[int, bytes, int]], order: str = "<", nanoseconds: bool = True) -> bytes:
    """A classic pcap of (time, head, length on the wire)."""
    unit = 1 if nanoseconds else 1000
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 96, 1)]
    record = struct.Struct(order + "IIII")
    for t_ns, head, length in packets:
        parts.append(record.pack(t_ns // 10**9, t_ns % 10**9 // unit, len(head), length))
        parts.append(head)
    return b"".join(parts)


@dataclass
class Traffic:
    """A download: both directions' packets as sent, and what became of them."""

    down: list[Packet]
    up: list[Packet]
    down_carried: Carried
    up_carried: Carried

    def side(self, left: bool) -> list[tuple[int, Packet, int]]:
        """Frames at one interface in order of time: (time, packet, TTL)."""
        entering, leaving, carried = (
            (self.up, self.down, self.down_carried) if left else (self.down, self.up, self.up_carried)
        )
        seen = [(packet.t_ns, packet, 64) for packet in entering]
        seen += [(t, packet, 63) for t, packet in zip(carried.out_ns, leaving, strict=True) if t is not None]
        return sorted(seen, key=lambda item: item[0])


def short(number: int, size: int, t_ns: int, to_client: bool, flow: int = 0) -> Packet:
    """A 1-RTT packet with a payload of its own."""
    return Packet(t_ns, to_client, _payload((number << 2) + 2 * to_client + flow * 7**9), size, flow)


@cache
def _payload(seed: int) -> bytes:
    return b"\x40" + random.Random(seed).randbytes(53)


def download(
    to_client: Link, to_server: Link, packets: int = 3000, load: float = 1.3, zero: int = T0, number: int = 0,
    ticket: bool = False,
) -> Traffic:  # fmt: skip
    """Handshake, request, data at `load` times 10 Mbit/s, an acknowledgement for every second packet."""
    rtt = to_client.delay_ns + to_server.delay_ns
    up = [Packet(zero, False, INITIAL + bytes([8]) + number.to_bytes(8, "big") + bytes(3) + b"\x44\x00", 1200)]
    if ticket:
        up.append(Packet(zero + 1000, False, ZERO_RTT + bytes([8]) + number.to_bytes(8, "big") + b"\x00\x41\x00", 300))
    hello = zero + to_server.delay_ns + 100_000
    down = [Packet(hello, True, INITIAL + number.to_bytes(8, "big"), 1200)]
    down.append(Packet(hello + 50_000, True, HANDSHAKE + number.to_bytes(8, "big"), 1100))
    finished = zero + rtt + 2_000_000
    up.append(Packet(finished, False, HANDSHAKE + bytes([8]) + number.to_bytes(8, "big") + b"\x00\x40\x30", 65))
    up.append(short(number * 10**6, 120, finished + 200_000, False))
    start = finished + to_server.delay_ns + 3_000_000
    gap = 1294 * 8e9 / 10_000_000 / load
    down += [short(number * 10**6 + i, 1252, round(start + i * gap), True) for i in range(packets)]
    down_carried = carry(to_client, down, seed=number + 1)
    arrived = sorted(t for t in down_carried.out_ns[2:] if t is not None)
    up += [short(number * 10**6 + i + 1, 40, t + 100_000, False) for i, t in enumerate(arrived[::2])]
    return Traffic(down, up, down_carried, carry(to_server, up, seed=number + 2))


def counters(traffics: Sequence[Traffic], count_drops: bool = True) -> list[dict[str, Any]]:
    """Samples every 100 ms of the four devices' root disciplines."""
    times = [t for traffic in traffics for left in (True, False) for t, _, _ in traffic.side(left)]
    moments = range(min(times) - 200_000_000, max(times) + 300_000_000, 100_000_000)

    def drops(moment: int, kind: str, direction: str) -> int:
        if not count_drops:
            return 0
        return sum(
            sum(t <= moment for t in getattr(getattr(traffic, f"{direction}_carried"), kind)) for traffic in traffics
        )

    def qdisc(device: str, kind: str, moment: int, what: str, direction: str) -> dict[str, Any]:
        count = drops(moment, what, direction)
        return {"kind": kind, "handle": "1:", "dev": device, "root": True, "drops": count, "packets": 1, "bytes": 2}

    return [
        {
            "t": moment / 1e9,
            "qdiscs": [
                qdisc("to_client", "tbf", moment, "queue_drops", "down"),
                {"kind": "bfifo", "parent": "1:", "dev": "to_client", "drops": 7},
                qdisc("to_server", "tbf", moment, "queue_drops", "up"),
                qdisc("left", "netem", moment, "loss_drops", "down"),
                qdisc("right", "netem", moment, "loss_drops", "up"),
                {"kind": "ingress", "dev": "left", "parent": "ffff:fff1"},
            ],
        }
        for moment in moments
    ]


def growth(traffic: Traffic, size: int, transfer: int = 0, lump: int = 1) -> list[tuple[int, int, int, int]]:
    """Rows of growth.csv: the file follows the arrived packets, 1200 bytes each, written in lumps."""
    arrivals = sorted(t for t in traffic.down_carried.out_ns[2:] if t is not None)
    rows, written, before = [], 0, 0
    for moment in range(arrivals[0] - 20_000_000, arrivals[-1] + 20_000_000, 10_000_000):
        while written < len(arrivals) and arrivals[written] <= moment:
            written += 1
        now = min(size, written * 1200 // lump * lump) if written < len(arrivals) else size
        if now != before:
            rows += [(moment - 10_000_000, 0, transfer, before), (moment, 0, transfer, now)]
        before = now
    return rows


SCENARIO: dict[str, Any] = {
    "title": "test",
    "path": {
        "forward": {"rate": "10 Mbit/s", "delay": "50 ms", "queue": "100 kB"},
        "return": {"rate": "10 Mbit/s", "delay": "50 ms", "queue": "100 kB"},
    },
    "flows": [{"download": "3 MB"}],
    "milestones": ["1 MB", "2 MB", "10 MB"],
}


def make_run(status: str = "completed", scenario: dict[str, Any] | None = None, **fields: Any) -> Run:
    """A run without artefacts."""
    image = Image(reference="x", identity="x")
    implementation = Implementation(name="one", image="x")
    cell = Cell(
        key="0" * 16, scenario=Scenario.model_validate({**SCENARIO, **(scenario or {})}), client=implementation, server=implementation,
        client_image=image, server_image=image, sim_image=image, engine="compose", sim_kernel="auto",
        parameters={}, seed=1,
    )  # fmt: skip
    outcome = fields.pop("outcome", None) or Outcome(status=status)
    return Run(cell=cell, repetition=0, outcome=outcome, started_at="2026-11-21T00:00:00Z", **fields)


def asked_link(name: str, link: Link) -> dict[str, Any]:
    """One direction of lab.json."""
    egress = "left" if name == "to_client" else "right"
    return {
        "device": name, "ingress": "", "egress": egress, "rate_bps": link.rate_bps, "delay_ns": link.delay_ns,
        "jitter_ns": 0, "burst_bytes": link.burst_bytes, "limit_bytes": link.limit_bytes, "limit_packets": None,
        "discipline": "droptail", "mean_loss": link.loss,
    }  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """What to write into a run's folder: what was asked, and what the links really are."""

    configured: Link = Link()
    configured_up: Link = Link()
    actual: Link | None = None
    actual_up: Link | None = None
    packets: int = 3000
    load: float = 1.3
    size: int = 3_000_000
    count_drops: bool = True
    counter_step: int = 1
    repeat: bool = False
    changes: tuple[dict[str, Any], ...] = ()
    change_events: tuple[dict[str, Any], ...] = ()
    scenario: dict[str, Any] = field(default_factory=dict)
    fill: Callable[[Traffic], Traffic] = lambda traffic: traffic
    """Puts what packets hold into them, once it is known which arrive."""


def write_run(folder: Path, recipe: Recipe) -> Run:
    """Write the artefacts of a run, and return the run."""
    down, up = recipe.actual or recipe.configured, recipe.actual_up or recipe.configured_up
    traffics = [download(down, up, recipe.packets, recipe.load)]
    if recipe.repeat:
        later = max(t for t, _, _ in traffics[0].side(True)) + 3_000_000_000
        traffics.append(download(down, up, recipe.packets, recipe.load, later, number=1, ticket=True))
    traffics = [recipe.fill(traffic) for traffic in traffics]
    sim = folder / "sim"
    sim.mkdir(parents=True, exist_ok=True)
    for name, left in (("left", True), ("right", False)):
        seen = [item for traffic in traffics for item in traffic.side(left)]
        data = pcap((t, frame(packet, ttl), packet.length) for t, packet, ttl in sorted(seen, key=lambda item: item[0]))
        (sim / f"trace_node_{name}.pcap").write_bytes(data)
    _write_small(folder, recipe, traffics)
    transfers = []
    for index, traffic in enumerate(traffics):
        ended = max(t for t, _, _ in traffic.side(True)) + 50_000_000
        started = traffic.up[0].t_ns - 300_000_000
        transfers.append(
            Transfer(flow=0, index=index, size=recipe.size, received=recipe.size, intact=True, started_ns=started,
                     ended_ns=ended, exit_code=0)
        )  # fmt: skip
    return make_run(scenario=recipe.scenario, transfers=tuple(transfers), sim_kernel="lab 7.2.12")


def _write_small(folder: Path, recipe: Recipe, traffics: Sequence[Traffic]) -> None:
    ends = [{"addresses": [CLIENT, CLIENT6]}, {"addresses": [SERVER, SERVER6]}]
    links = {
        "to_client": asked_link("to_client", recipe.configured),
        "to_server": asked_link("to_server", recipe.configured_up),
    }
    lab = {
        "schema": 1, "flows": [{"flow": 0, "client": ends[0], "server": ends[1]}], "links": links,
        "changes": list(recipe.changes),
    }  # fmt: skip
    (folder / "lab.json").write_text(json.dumps(lab))
    lines = [json.dumps(sample) for sample in counters(traffics, recipe.count_drops)]
    (folder / "sim/counters.jsonl").write_text("\n".join(lines))
    events = [{"event": "kernel", "kernel": "lab", "release": "7.2.12"}, {"event": "first_datagram", "t": T0 / 1e9}]
    (folder / "sim/events.jsonl").write_text("\n".join(json.dumps(event) for event in (*events, *recipe.change_events)))
    sides = {side: {"captured": 1, "received": 1, "dropped": 0} for side in ("left", "right")}
    (folder / "sim/capture.json").write_text(json.dumps(sides))
    rows = [row for i, traffic in enumerate(traffics) for row in growth(traffic, recipe.size, i, recipe.counter_step)]
    table = ["t_ns,flow,transfer,bytes", *(",".join(map(str, row)) for row in rows)]
    (folder / "growth.csv").write_text("\n".join(table) + "\n")
    cpu = ["t_ns,container,cpu_ns,rcvbuf_errors"]
    for step in range(20):
        t_ns = T0 - 400_000_000 + step * 500_000_000
        cpu += [f"{t_ns},sim,{step * 10**8},", f"{t_ns},client0,{step * 2 * 10**8},{step // 5}"]
    (folder / "cpu.csv").write_text("\n".join(cpu) + "\n")


__all__ = ["Link", "Packet", "Recipe", "Traffic", "carry", "download", "frame", "make_run", "pcap", "replace", "short"]
