"""A made-up run whose client moves: packets with protection on two paths, keys, and the server's qlog.

Data goes at 1252 B every 2 ms: by the cellular path, with 20 ms each way, until the client moves to the campus' at 500 ms,
with 5 ms each way.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.capture.quic.protection import Aead
from harness.outcome import Run, Transfer
from tests.unit.captures import (
    CLIENT,
    CLIENT6,
    SERVER,
    SERVER6,
    T0,
    Link,
    Packet,
    asked_link,
    frame,
    make_run,
    pcap,
)
from tests.unit.packet_protection import Sender, stream_frame

MS = 1_000_000
CAMPUS, CAMPUS6 = "193.167.25.100", "fd00:cafe:cafe:25::100"
CLIENT_ID, SERVER_ID, NEXT_ID = b"client-8", b"server-8", b"server-9"
DOWN, UP = (random.Random(seed).randbytes(32) for seed in (1, 2))
RANDOM = b"r" * 32
#: One way, ms.
DELAY = {"cellular": 20, "campus": 5}
MOVE, PORT, NAT_PORT = 500, 50_000, 10_000
CHALLENGE, RESPONSE = b"\x1a", b"\x1b"
PING = b"\x01" + bytes(20)
SIZE = 1200

#: (ms after the server's first event, figures)
RecoveryMetrics = Sequence[tuple[float, Mapping[str, float]]]


@dataclass
class Wire:
    """What the simulators capture."""

    frames: dict[tuple[str, str], list[tuple[int, bytes, int]]] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        for simulator in ("sim", "sim-campus"):
            (folder / simulator).mkdir(parents=True, exist_ok=True)
            for side in ("left", "right"):
                rows = sorted(self.frames.get((simulator, side), []), key=lambda row: row[0])
                (folder / simulator / f"trace_node_{side}.pcap").write_bytes(pcap(rows))


@dataclass
class Story:
    """What happened to a connection; times are ms after the client's first datagram."""

    how: str = "migrate"
    until: int = 900
    """When the server sends its last data."""
    retransmissions: tuple[int, ...] = ()
    """When it sends its first packet's data once more."""
    obeys: bool = True
    """Whether the client does what it was told."""
    logs_secrets: bool = True
    cut_off: bool = False
    """Whether the scenario cuts the flow off at a time."""
    wire: Wire = field(default_factory=Wire)
    arrivals: list[tuple[float, str]] = field(default_factory=list)
    """When each packet of data came to the client, and by which path."""

    def __post_init__(self) -> None:
        self._down, self._up = Sender(DOWN, Aead.AES_128_GCM, CLIENT_ID), Sender(UP, Aead.AES_128_GCM, SERVER_ID)
        self._later = Sender(UP, Aead.AES_128_GCM, NEXT_ID)
        self._numbers = {True: 0, False: 0}
        self.simulate()

    @property
    def switch(self) -> int:
        """When the server's first data goes to the new address."""
        return {"migrate": MOVE + 16, "interface": MOVE + 6, "nat-port": MOVE + 22}[self.how]

    def send(self, at: float, to_client: bool, payload: bytes, path: str, *, new: bool = False) -> None:
        """One packet by a path, from or to the client's new address or its old one."""
        gone = self.how == "interface" and path == "cellular" and at + DELAY[path] * to_client >= MOVE
        forgotten = self.how == "nat-port" and to_client and not new and at + DELAY[path] >= MOVE
        sender = self._down if to_client else (self._later if new and self.how != "nat-port" else self._up)
        data = sender.packet(self._numbers[to_client], payload)
        self._numbers[to_client] += 1
        packet = Packet(0, to_client, data[:54], len(data))
        sides = ("right", "left") if to_client else ("left", "right")
        times = (at, None if gone or forgotten else at + DELAY[path])
        for side, time in zip(sides, times, strict=True):
            if time is not None:
                port = NAT_PORT if new and self.how == "nat-port" and side == "right" else PORT
                self.capture(path, side, time, packet, port)
        if to_client and len(payload) >= SIZE and times[1] is not None:
            self.arrivals.append((times[1], path))

    def capture(self, path: str, side: str, at: float, packet: Packet, port: int = PORT) -> None:
        head = frame(packet)
        if path == "campus":
            old, new = (bytes(map(int, text.split("."))) for text in (CLIENT, CAMPUS))
            head = head.replace(old, new, 1)
        place = 36 if packet.to_client else 34
        head = head[:place] + port.to_bytes(2, "big") + head[place + 2 :]
        rows = self.wire.frames.setdefault(("sim" if path == "cellular" else "sim-campus", side), [])
        rows.append((T0 + round(at * MS), head, packet.length))

    def simulate(self) -> None:
        """The whole of it."""
        ids = bytes([8]) + b"original" + bytes([8]) + CLIENT_ID
        hello = Packet(0, False, b"\xc0\0\0\0\x01" + ids + b"\0\x44\x90", 1200)
        answer = Packet(
            0, True, b"\xc0\0\0\0\x01" + bytes([8]) + CLIENT_ID + bytes([8]) + SERVER_ID + b"\0\x44\x90", 1200
        )
        for packet, at in ((hello, 0), (answer, 20)):
            for side, later in (("right", 20 * (not packet.to_client)), ("left", 20 * packet.to_client)):
                self.capture("cellular", side, at + later, packet)
        campus = "cellular" if self.how == "nat-port" else "campus"
        offset = 0
        events: list[tuple[float, str, bool]] = []
        for at in range(60, self.until, 2):
            new = self.obeys and at >= self.switch
            events.append((at, "again" if at in self.retransmissions else "data", new))
        if self.obeys:
            events += self._moving()
        for moment, what, new in sorted(events, key=lambda event: event[0]):
            path = campus if new else "cellular"
            if what == "data" or what == "again":
                start = 0 if what == "again" else offset
                self.send(moment, True, stream_frame(0, start, bytes(SIZE)), path, new=new)
                offset += SIZE * (what == "data")
                self.send(moment + DELAY[path], False, b"\x02\x05\x00\x00\x00" + bytes(20), path, new=new)
            else:
                to_client = what.startswith("server")
                self.send(moment, to_client, {
                    "server answers": RESPONSE + b"asked..1" + CHALLENGE + b"asked..2", "server asks": CHALLENGE + b"asked..2",
                    "asks": CHALLENGE + b"asked..1" + bytes(1100), "answers": RESPONSE + b"asked..2" + PING, "goes on": PING,
                }[what], path, new=new)  # fmt: skip

    def _moving(self) -> list[tuple[float, str, bool]]:
        if self.how == "migrate":
            return [(500, "asks", True), (505, "server answers", True), (510, "answers", True)]
        if self.how == "interface":
            return [(500, "goes on", True), (505, "server asks", True), (510, "answers", True)]
        # The next acknowledgement is the first that is rewritten.
        return [(500.5, "goes on", True), (520.5, "server asks", True), (540.5, "answers", True)]

    def write(self, folder: Path, metrics_updates: RecoveryMetrics = ()) -> Run:
        """The run's artefacts, and the run."""
        self.wire.write(folder)
        move = {"at": MOVE / 1e3, "how": self.how, "path": "cellular", "addresses": [CLIENT, CLIENT6], "port": NAT_PORT}
        if self.how != "nat-port":
            move |= {"path": "campus", "addresses": [CAMPUS, CAMPUS6], "port": None}
        ends = {"client": {"addresses": [CLIENT, CLIENT6, CAMPUS, CAMPUS6]}, "server": {"addresses": [SERVER, SERVER6]}}
        links = {path: self._links(path) for path in DELAY}
        paths = [
            {"path": "cellular", "simulator": "sim", "networks": ["193.167.0.0/24", "fd00:cafe:cafe::/64"],
             "links": links["cellular"]},
            {"path": "campus", "simulator": "sim-campus", "networks": ["193.167.25.0/24", "fd00:cafe:cafe:25::/64"],
             "links": links["campus"]},
        ]  # fmt: skip
        lab = {
            "flows": [{"flow": 0, **ends, "path": "cellular", "moves": [move]}],
            "links": links["cellular"],
            "paths": paths,
        }
        (folder / "lab.json").write_text(json.dumps(lab))
        server = folder / "flow0/server"
        server.mkdir(parents=True, exist_ok=True)
        labels = (("CLIENT", UP), ("SERVER", DOWN))
        if self.logs_secrets:
            lines = [f"{who}_TRAFFIC_SECRET_0 {RANDOM.hex()} {secret.hex()}" for who, secret in labels]
            (server / "keys.log").write_text("\n".join(lines) + "\n")
        if metrics_updates:
            write_qlog(server / "qlog", metrics_updates)
        sim = {path: {"rate": "100 Mbit/s", "delay": f"{delay} ms"} for path, delay in DELAY.items()}
        how = {"at": f"{MOVE} ms", "how": self.how} | ({} if self.how == "nat-port" else {"to": "campus"})
        scenario: dict[str, Any] = {
            "path": None, "paths": {path: {"forward": link, "return": link} for path, link in sim.items()},
            "flows": [{**({"stop": "1 s"} if self.cut_off else {"download": "1 MB"}), "moves": [how]}], "milestones": ["1 MB"],
        }  # fmt: skip
        transfer = Transfer(
            flow=0, index=0, size=10**6, received=10**6, intact=True, started_ns=T0 - 100 * MS,
            ended_ns=T0 + (self.until + 50) * MS, exit_code=0,
        )  # fmt: skip
        return make_run(scenario=scenario, transfers=(transfer,), sim_kernel="lab")

    def _links(self, path: str) -> dict[str, Any]:
        link = Link(rate_bps=100_000_000, delay_ns=DELAY[path] * MS)
        return {name: asked_link(name, link) for name in ("to_client", "to_server")}


def write_qlog(folder: Path, metrics_updates: RecoveryMetrics) -> None:
    """A trace of the server, which begins when the client's first datagram has come."""
    folder.mkdir()
    header = {"file_schema": "urn:ietf:params:qlog:file:sequential", "trace": {"common_fields": {
        "time_format": "relative_to_epoch", "reference_time": (T0 + 20 * MS) / MS}}}  # fmt: skip
    events = [{"time": 0, "name": "quic:packet_received", "data": {"header": {"dcid": b"original".hex()}}}]
    events += [
        {"time": at, "name": "quic:recovery_metrics_updated", "data": dict(figures)} for at, figures in metrics_updates
    ]
    rows = "".join(f"\x1e{json.dumps(event)}\n" for event in [header, *events])
    (folder / f"{b'original'.hex()}.sqlog").write_text(rows)
