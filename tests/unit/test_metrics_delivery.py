"""Milestones of clients whose file grows in lumps: packets that a sender protected, captured, and opened again."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from harness.analysis.delivery import PACKETS
from harness.analysis.metrics import measure
from harness.analysis.run_view import RunView
from harness.capture.quic.protection import Aead
from harness.outcome import MeasuredRun, Run
from tests.measurements import warning_texts
from tests.unit.captures import Link, Recipe, Traffic, write_run
from tests.unit.packet_protection import Sender, integer, secret_size, stream_frame

#: Bytes of body in a packet; packets after which what was lost is sent again.
PART, ROUND = 1160, 150
SIZE = 2_500_000
LOSSY = Link(loss=0.01)
LUMPS = Recipe(
    actual=LOSSY,
    packets=2800,
    load=0.9,
    size=SIZE,
    counter_step=2_000_000,
    scenario={"flows": [{"download": "2.5 MB"}]},
)


@dataclass
class Server:
    """Fills a download's packets: the file in order, and what was lost once more."""

    aead: Aead = Aead.AES_128_GCM
    prefix: bytes = b""
    """What stands on the stream before the body."""
    update_every: int = 1000
    hidden_every: int = 0
    """Each so many packets, a part of the stream goes behind another frame, out of the capture's sight."""
    arrived: dict[int, int] = field(default_factory=dict)
    """Part → when it came, ns."""
    sent: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Packet number → offset and length of its STREAM frames."""

    @property
    def secret(self) -> bytes:
        return random.Random(7).randbytes(secret_size(self.aead))

    def fill(self, traffic: Traffic) -> Traffic:
        sender, down = Sender(self.secret, self.aead), list(traffic.down)
        new, parts = 0, -(-(SIZE + len(self.prefix)) // PART)
        again: list[tuple[int, int]] = []
        data = self.prefix + bytes(SIZE)
        for number, index in enumerate(range(2, len(down))):
            moment = traffic.down_carried.out_ns[index]
            if again and again[0][0] <= number:
                part = again.pop(0)[1]
            elif new < parts:
                part, new = new, new + 1
            else:  # all is sent: PING frames
                packet = sender.packet(number, b"\x01" * 40, 2, number // self.update_every)
                down[index] = replace(down[index], payload=packet, size=len(packet))
                continue
            if moment is None:
                again.append((number + ROUND, part))
            else:
                self.arrived.setdefault(part, moment)
            start, end = part * PART, min((part + 1) * PART, len(data))
            frame = self.frame(data, start, end)
            self.sent[number] = [(start, end - start)]
            if self.hidden_every and number % self.hidden_every == 0:
                frame = stream_frame(3, 0, bytes(48)) + frame
            packet = sender.packet(number, frame, 2, number // self.update_every)
            down[index] = replace(down[index], payload=packet[:54], size=len(packet))
        return replace(traffic, down=down)

    def frame(self, data: bytes, start: int, end: int) -> bytes:
        """STREAM frames with these bytes of all that is served."""
        return stream_frame(0, start, data[start:end], end == len(data))

    def truth(self, size: int, zero_ns: int) -> float:
        """When the parts that hold the first bytes of the body had come, s."""
        last = (len(self.prefix) + size - 1) // PART
        return (max(self.arrived[part] for part in range(last + 1)) - zero_ns) / 1e9

    def write_keys(self, folder: Path, role: str = "client") -> None:
        place = folder / f"flow0/{role}"
        place.mkdir(parents=True, exist_ok=True)
        lines = [f"{label} {'ab' * 32} {secret.hex()}" for label, secret in (
            ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", bytes(32)), ("CLIENT_TRAFFIC_SECRET_0", bytes(secret_size(self.aead))),
            ("SERVER_TRAFFIC_SECRET_0", bytes(range(32))), ("SERVER_TRAFFIC_SECRET_0", self.secret),
        )]  # fmt: skip
        (place / "keys.log").write_text("# of a test\n" + "\n".join(lines) + "\nCLIENT_TRAFFIC_SECRET_0 ab\n")


def measured(folder: Path, server: Server, recipe: Recipe = LUMPS) -> tuple[MeasuredRun, int]:
    """A run with that server, and its time zero, ns."""
    run, zero_ns = recorded(folder, server, recipe)
    return measure(folder, run), zero_ns


def recorded(folder: Path, server: Server, recipe: Recipe = LUMPS) -> tuple[Run, int]:
    """The same without measuring, of a client whose socket never was full."""
    run = write_run(folder, replace(recipe, fill=server.fill))
    (folder / "cpu.csv").unlink()
    zero_ns = RunView(folder, run).windows[0].zero_ns
    assert zero_ns is not None
    return run, zero_ns


def headers(fields: int = 40) -> bytes:
    """HEADERS and DATA frame headers of HTTP/3, before a body in one DATA frame."""
    return integer(0x01) + integer(fields) + bytes(fields) + integer(0x00) + integer(SIZE)


@pytest.mark.parametrize(("aead", "role"), list(zip(Aead, ("client", "server") * 2, strict=True)))
def test_a_lumpy_client_has_the_milestones_of_its_packets(tmp_path: Path, aead: Aead, role: str) -> None:
    server = Server(aead, prefix=headers())
    server.write_keys(tmp_path, role)
    measured_run, zero_ns = measured(tmp_path, server)
    measurement = next(item for item in measured_run.measurements if item.name == "milestone_1MB")
    assert measurement.vantage == PACKETS["client"]
    assert measurement.value == pytest.approx(server.truth(1_000_000, zero_ns), abs=0.002)
    assert measured_run.value("completion", 0) is not None


def test_without_keys_there_is_no_milestone_and_it_says_why(tmp_path: Path) -> None:
    measured_run, _ = measured(tmp_path, Server(prefix=headers()))
    assert measured_run.value("milestone_1MB", 0) is None
    assert any(
        "lumps of 2.0 MB" in text and "neither endpoint wrote down its TLS secrets" in text
        for text in warning_texts(measured_run)
    )


def test_other_connections_keys_do_not_open_it(tmp_path: Path) -> None:
    Server(Aead.AES_256_GCM).write_keys(tmp_path)
    measured_run, _ = measured(tmp_path, Server(prefix=headers()))
    assert measured_run.value("milestone_1MB", 0) is None
    assert any("open no packet of the capture" in text for text in warning_texts(measured_run))


def test_another_stream_is_not_the_file(tmp_path: Path) -> None:
    server = Server(prefix=bytes(400_000))
    server.write_keys(tmp_path)
    measured_run, _ = measured(tmp_path, server)
    assert measured_run.value("milestone_1MB", 0) is None
    assert any(
        "the largest stream in the captured packets has 2900000 B" in text for text in warning_texts(measured_run)
    )


def test_frames_out_of_sight_leave_a_caution_unless_the_server_s_qlog_tells(tmp_path: Path) -> None:
    server = Server(prefix=headers(), hidden_every=90)
    server.write_keys(tmp_path)
    measured_run, zero_ns = measured(tmp_path, server)
    assert measured_run.value("milestone_1MB", 0) is None
    assert any("its packets tell" in text for text in warning_texts(measured_run)), warning_texts(measured_run)
    lines = [
        {"time": number, "name": "transport:packet_sent", "data": {
            "header": {"packet_type": "1RTT", "packet_number": number},
            "frames": [{"frame_type": "stream", "stream_id": 3, "offset": 0, "length": 48}] * (number % 90 == 0)
            + [{"frame_type": "stream", "stream_id": 0, "offset": a, "length": n} for a, n in frames],
        }} for number, frames in server.sent.items()
    ]  # fmt: skip
    folder = tmp_path / "flow0/server/qlog"
    folder.mkdir(parents=True)
    (folder / "one.sqlog").write_text("\x1e{}\n" + "\n".join("\x1e" + json.dumps(line) for line in lines) + "\n")
    again, _ = measured(tmp_path, Server(prefix=headers(), hidden_every=90))
    assert again.value("milestone_1MB", 0) == pytest.approx(server.truth(1_000_000, zero_ns), abs=0.002)


def test_what_a_full_socket_dropped_had_not_come(tmp_path: Path) -> None:
    server = Server(prefix=headers())
    server.write_keys(tmp_path)
    measured_run = measure(tmp_path, write_run(tmp_path, replace(LUMPS, fill=server.fill)))
    assert measured_run.value("milestone_1MB", 0) is None
    assert any("its packets tell" in text for text in warning_texts(measured_run)), warning_texts(measured_run)


def test_a_file_that_tells_is_what_counts(tmp_path: Path) -> None:
    server = Server(prefix=headers())
    server.write_keys(tmp_path)
    measured_run, _ = measured(tmp_path, server, replace(LUMPS, counter_step=1))
    measurement = next(item for item in measured_run.measurements if item.name == "milestone_1MB")
    assert measurement.vantage == "client file"


def test_a_file_that_is_sized_in_advance_has_the_times_of_its_packets(tmp_path: Path) -> None:
    server = Server(prefix=headers())
    server.write_keys(tmp_path)
    run, zero_ns = recorded(tmp_path, server)
    (tmp_path / "growth.csv").write_text(
        f"t_ns,flow,transfer,bytes\n{zero_ns + 290_000_000},0,0,0\n{zero_ns + 300_000_000},0,0,{SIZE}\n"
    )
    measured_run = measure(tmp_path, run)
    for name, size in (("milestone_1MB", 1_000_000), ("milestone_2MB", 2_000_000), ("completion", SIZE)):
        assert measured_run.value(name, 0) == pytest.approx(server.truth(size, zero_ns), abs=0.002)
