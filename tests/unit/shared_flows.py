"""A run of two flows made by hand: every moment is written down here, so every figure can be worked out on paper.

Flow 0 is UDP from 0 to 1 s: one datagram of 1000 B enters the link 50 ms into each tenth of a second, waits 25 ms in
the queue and takes 10 ms to the other side; the sixth is dropped. Flow 1 is TCP from 0.2 to 1 s (its client starts
50 ms late): in each tenth from 0.3 s on two segments of 500 B enter, 1 and 3 ms into it, and wait 24 and 42 ms.
"""

from __future__ import annotations

import ipaddress
import json
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.outcome import Run, Transfer
from tests.unit.captures import CLIENT, CLIENT6, SERVER, SERVER6, T0, Packet, frame, make_run, pcap

MS = 1_000_000


@dataclass(frozen=True)
class Segment(Packet):
    """A TCP segment."""

    sequence: int = 0
    acknowledgement: int = 0
    flags: int = 0x10
    identification: int = 0
    options: bytes = b""
    window: int = 512
    port: int = 5202
    """The client's."""

    @property
    def length(self) -> int:
        return self.size + (74 if self.ipv6 else 54) + len(self.options)


def segment_frame(segment: Segment, ttl: int = 64) -> bytes:
    """Its headers, cut to 96 bytes; hop limit and checksums as they differ on both sides of a router."""
    ends = (CLIENT6, SERVER6) if segment.ipv6 else (CLIENT, SERVER)
    client, server = (ipaddress.ip_address(end) + segment.flow for end in ends)
    source, target = (server, client) if segment.to_client else (client, server)
    ports = (5201, segment.port) if segment.to_client else (segment.port, 5201)
    offset = (20 + len(segment.options)) // 4
    tcp = struct.pack(
        ">HHIIBBHHH",
        *ports,
        segment.sequence,
        segment.acknowledgement,
        offset << 4,
        segment.flags,
        segment.window,
        ttl,
        0,
    )
    size = 20 + len(segment.options) + segment.size
    if segment.ipv6:
        ip = struct.pack(">IHBB", 0x60000000, size, 6, ttl) + source.packed + target.packed
        ethernet = bytes(12) + b"\x86\xdd"
    else:
        head = (0x45, 0, size + 20, segment.identification, 0x4000, ttl, 6, ttl)
        ip = struct.pack(">BBHHHBBH", *head) + source.packed + target.packed
        ethernet = bytes(12) + b"\x08\x00"
    return (ethernet + ip + tcp + segment.options + segment.payload + bytes(segment.size))[:96]


def any_frame(packet: Packet, ttl: int = 64) -> bytes:
    return segment_frame(packet, ttl) if isinstance(packet, Segment) else frame(packet, ttl)


@dataclass(frozen=True)
class Passing:
    """A packet with the moments at which it entered and left the simulator, ms; None where it was dropped."""

    packet: Packet
    entered: float
    left: float | None


def write_captures(folder: Path, passing: list[Passing]) -> None:
    """Both captures of what passed."""
    sim = folder / "sim"
    sim.mkdir(parents=True, exist_ok=True)
    for name in ("left", "right"):
        seen = []
        for item in passing:
            near = item.packet.to_client == (name == "right")
            moment = item.entered if near else item.left
            if moment is not None:
                head = any_frame(item.packet, 64 if near else 63)
                seen.append((T0 + round(moment * MS), head, item.packet.length))
        (sim / f"trace_node_{name}.pcap").write_bytes(pcap(sorted(seen, key=lambda captured: captured[0])))


def ends(flow: int) -> dict[str, Any]:
    """Addresses of a flow in lab.json."""
    return {
        side: {"addresses": [str(ipaddress.ip_address(address) + flow) for address in addresses]}
        for side, addresses in (("client", (CLIENT, CLIENT6)), ("server", (SERVER, SERVER6)))
    }


def link(name: str, **fields: Any) -> dict[str, Any]:
    """One direction of lab.json: 10 Mbit/s, 10 ms, 100 kB."""
    return {
        "device": name, "egress": "left" if name == "to_client" else "right", "rate_bps": 10_000_000,
        "delay_ns": 10 * MS, "burst_bytes": 3028, "limit_bytes": 100_000, **fields,
    }  # fmt: skip


def write_lab(folder: Path, flows: list[dict[str, Any]], **fields: Any) -> None:
    """lab.json and what the simulator says."""
    (folder / "sim").mkdir(parents=True, exist_ok=True)
    links = {name: link(name) for name in ("to_client", "to_server")}
    entries = [{"flow": number, **ends(number), **flow} for number, flow in enumerate(flows)]
    lab = {"schema": 1, "flows": entries, "links": links, "changes": [], **fields}
    (folder / "lab.json").write_text(json.dumps(lab))
    (folder / "sim/events.jsonl").write_text(json.dumps({"event": "first_datagram", "t": T0 / 1e9}) + "\n")
    (folder / "sim/capture.json").write_text('{"left":{"dropped":0},"right":{"dropped":0}}')


def write_counters(folder: Path, drops: dict[float, int], **overrides: int) -> None:
    """Samples every 100 ms: the bottleneck's running total of drops, given from which s on."""
    lines = []
    for tenth in range(-2, 15):
        count = max([total for since, total in drops.items() if since <= tenth / 10], default=0)
        disciplines = [
            {"kind": "tbf", "dev": "to_client", "root": True, "drops": count},
            {"kind": "red", "dev": "to_client", "parent": "1:", "drops": count, **overrides},
            {"kind": "tbf", "dev": "to_server", "root": True, "drops": 0},
            {"kind": "netem", "dev": "left", "root": True, "drops": 0},
            {"kind": "netem", "dev": "right", "root": True, "drops": 0},
        ]
        lines.append(json.dumps({"t": T0 / 1e9 + tenth / 10, "qdiscs": disciplines}))
    (folder / "sim/counters.jsonl").write_text("\n".join(lines))


def udp(number: int, to_client: bool = True, size: int = 1000, flow: int = 0) -> Packet:
    """A datagram of the generator: a header of its own, then zeros."""
    return Packet(0, to_client, struct.pack(">QQ", number, to_client), size, flow)


def data(number: int, size: int = 500, flow: int = 1) -> Segment:
    """A segment of the server."""
    return Segment(0, True, b"", size, flow, sequence=1 + 500 * number, identification=number)


def passing() -> list[Passing]:
    """What passed in the run of this module."""
    items = [Passing(udp(0, to_client=False, size=100), 0, 10)]
    for tenth in range(10):
        came = 100 * tenth + 50
        items.append(Passing(udp(tenth), came, None if tenth == 5 else came + 35))
    items.append(Passing(Segment(0, False, b"", 0, 1, flags=0x02), 250, 260))
    for tenth in range(3, 10):
        items.append(Passing(data(2 * tenth), 100 * tenth + 1, 100 * tenth + 35))
        items.append(Passing(data(2 * tenth + 1), 100 * tenth + 3, 100 * tenth + 55))
    items.append(Passing(Segment(0, False, b"", 0, 1, acknowledgement=7001), 1200, 1210))
    return items


#: A row of tcp.csv every 20 ms from 260 ms on: the window doubles at 600 ms, recovery lasts from 500 to 600 ms.
TCP_HEADER = (
    "t_ns,cwnd,mss,srtt_us,rttvar_us,min_rtt_us,unacked,lost,bytes_acked,bytes_sent,bytes_retrans,total_retrans,"
    "ca_state,delivery_rate,notsent_bytes,total_rto,total_rto_time_ms"
)


def tcp_rows() -> list[str]:
    rows = [TCP_HEADER]
    for ms in range(260, 1200, 20):
        cwnd, state = (10 if ms < 600 else 20), (3 if 500 <= ms < 600 else 0)
        acked = 10 * (ms - 260)
        rows.append(f"{T0 + ms * MS},{cwnd},500,50000,1000,20000,8,2,{acked},9000,1000,4,{state},70000,0,1,200")
    return rows


SCENARIO: dict[str, Any] = {
    "path": {
        "forward": {"rate": "10 Mbit/s", "delay": "10 ms", "queue": "100 kB"},
        "return": {"rate": "10 Mbit/s", "delay": "10 ms", "queue": "100 kB"},
    },
    "flows": [
        {"kind": "udp", "stop": "1 s", "traffic": {"model": "cbr", "rate": "80 kbit/s"}},
        {"kind": "tcp", "start": "200 ms", "stop": "1 s", "parameters": {"server.congestion_control": "reno"}},
    ],
}


def transfer(flow: int) -> Transfer:
    """A flow without a file, as the engine saw it."""
    return Transfer(
        flow=flow, index=0, size=0, intact=True, started_ns=T0 - 300 * MS, ended_ns=T0 + 1300 * MS, exit_code=0
    )


def write_two_flows(folder: Path) -> Run:
    """Write the run of this module."""
    flows = [
        {"kind": "udp", "label": "UDP (cbr)", "stop": 1.0},
        {"kind": "tcp", "label": "TCP (reno)", "start": 0.2, "stop": 1.0},
    ]
    write_captures(folder, passing())
    write_lab(folder, flows)
    write_counters(folder, {0.6: 1})
    sender = folder / "flow1/server"
    sender.mkdir(parents=True, exist_ok=True)
    (sender / "tcp.csv").write_text("\n".join(tcp_rows()) + "\n")
    (sender / "iperf3.json").write_text(
        json.dumps({"intervals": [{"sum": {"bytes": 5000, "seconds": 0.5}}, {"sum": {"bytes": 4000, "seconds": 0.25}}]})
    )
    (folder / "growth.csv").write_text("t_ns,flow,transfer,bytes\n")
    (folder / "cpu.csv").write_text("t_ns,container,cpu_ns,rcvbuf_errors\n")
    return make_run(scenario=SCENARIO, transfers=(transfer(0), transfer(1)))


def write_three_flows(folder: Path) -> Run:
    """Write that run with flow 1 once more as flow 2, of which its sender tells nothing."""
    run = write_two_flows(folder)
    again = [replace(item, packet=replace(item.packet, flow=2)) for item in passing() if item.packet.flow == 1]
    write_captures(folder, [*passing(), *again])
    second = {"kind": "tcp", "start": 0.2, "stop": 1.0}
    write_lab(folder, [{"kind": "udp", "stop": 1.0}, second, second])
    scenario = make_run(scenario={**SCENARIO, "flows": [*SCENARIO["flows"], SCENARIO["flows"][1]]}).cell.scenario
    cell = run.cell.model_copy(update={"scenario": scenario})
    return run.model_copy(update={"cell": cell, "transfers": (*run.transfers, transfer(2))})
