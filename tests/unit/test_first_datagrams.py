"""What the simulator sees of a client's first datagram, and that the kernel lets nothing else through."""

from __future__ import annotations

import errno
import socket
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.agent import Agent
from simulator.plan import Plan
from simulator.wire import READY_PORT, let_through, opening, opening_filter

PORT = 443
CLIENT = {4: "193.167.0.100", 6: "fd00:cafe:cafe:0::100"}
UDP, TCP = 17, 6


def frame(version: int, protocol: int, to: int, payload: bytes, options: int = 0, source: int = 50000) -> bytes:
    """An Ethernet frame of the client's."""
    transport = struct.pack("!HHHH", source, to, 8 + len(payload), 0) + payload
    if version == 4:
        head = bytes([0x45 + options // 4, 0]) + bytes(7) + bytes([protocol]) + bytes(2)
        head += socket.inet_aton(CLIENT[4]) + bytes(4) + bytes(options)
        return bytes(12) + b"\x08\x00" + head + transport
    head = b"\x60" + bytes(5) + bytes([protocol, 64]) + socket.inet_pton(socket.AF_INET6, CLIENT[6]) + bytes(16)
    return bytes(12) + b"\x86\xdd" + head + transport


def initial(identity: bytes = b"12345678") -> bytes:
    return b"\xc3\x00\x00\x00\x01" + bytes([len(identity)]) + identity + bytes(1200)


def tcp(flags: int) -> bytes:
    """What follows ports and sequence number of a TCP header."""
    return bytes(4) + b"\x50" + bytes([flags]) + bytes(6)


SHORT = b"\x43" + bytes(40)


@pytest.fixture(scope="module")
def kernel() -> tuple[socket.socket, socket.socket]:
    """Two ends of a pipe of datagrams, of which one has the filter."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    let_through(far, opening_filter(PORT))
    far.setblocking(False)
    near.setblocking(False)
    return near, far


def passes(kernel: tuple[socket.socket, socket.socket], data: bytes) -> bool:
    near, far = kernel
    near.send(data)
    try:
        return far.recv(4096) == data
    except BlockingIOError:
        return False


FRAMES = [
    (frame(4, UDP, PORT, initial()), True),
    (frame(6, UDP, PORT, initial()), True),
    (frame(4, UDP, PORT, initial(), options=8), True),
    (frame(4, UDP, PORT, SHORT), False),
    (frame(6, UDP, PORT, SHORT), False),
    (frame(4, UDP, 444, initial()), False),
    (frame(4, TCP, PORT, tcp(0x02)), True),
    (frame(6, TCP, PORT, tcp(0x02)), True),
    (frame(6, TCP, PORT, tcp(0x12)), False),
    (frame(4, TCP, PORT, tcp(0x10)), False),
    (frame(4, TCP, READY_PORT, tcp(0x02)), False),
    (frame(4, 1, PORT, initial()), False),
    (bytes(12) + b"\x08\x06" + bytes(40), False),
    (b"", False),
]


@pytest.mark.parametrize(("data", "opens"), FRAMES)
def test_only_what_opens_connections_is_heard(
    kernel: tuple[socket.socket, socket.socket], data: bytes, opens: bool
) -> None:
    assert (opening(data, PORT) is not None) is opens
    assert passes(kernel, data) is opens or not data


@given(st.sampled_from(FRAMES), st.integers(0, 120), st.lists(st.tuples(st.integers(12, 90), st.integers(0, 255))))
def test_the_kernel_lets_through_whatever_is_looked_for(
    kernel: tuple[socket.socket, socket.socket], sample: tuple[bytes, bool], cut: int, changed: list[tuple[int, int]]
) -> None:
    data = bytearray(sample[0][: max(cut, 1)] or b"x")
    for place, value in changed:
        if place < len(data):
            data[place] = value
    if opening(bytes(data), PORT) is not None:
        assert passes(kernel, bytes(data))
    else:
        passes(kernel, bytes(data))


@pytest.mark.parametrize("version", [4, 6])
def test_connections_are_told_apart(version: int) -> None:
    def opened_connection(identity: bytes = b"12345678", source: int = 50000) -> tuple[str, bytes]:
        connection = opening(frame(version, UDP, PORT, initial(identity), source=source), PORT)
        assert connection is not None
        return connection

    assert opened_connection()[0] == str(CLIENT[version]).replace(":0::", "::")
    assert opened_connection() == opened_connection()
    assert len({opened_connection(), opened_connection(b"other"), opened_connection(source=50001)}) == 3


def test_the_agent_tells_of_each_connection_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.agent.subprocess.Popen", lambda *words, **overrides: None)
    plan = Plan("auto", {}, [], [], [], [], 1.0, PORT, 0.1, 64)
    heard: list[str] = []
    agent = Agent(plan, {}, tmp_path, tmp_path / "stop", opened=heard.append)

    class Sniff:
        """A packet socket with what came by."""

        filters = 0
        frames = [(item, (0, 0, 0)) for item in (
            frame(4, TCP, READY_PORT, tcp(0x02)), frame(4, UDP, PORT, initial()), frame(4, UDP, PORT, initial()),
            frame(4, UDP, PORT, SHORT), frame(6, UDP, PORT, initial(b"second")),
        )] + [(frame(4, UDP, PORT, initial(b"mine")), (0, 0, socket.PACKET_OUTGOING))]  # fmt: skip

        def recvfrom(self, size: int) -> tuple[bytes, tuple[int, int, int]]:
            if not self.frames:
                raise BlockingIOError(errno.EAGAIN, "nothing")
            data, address = self.frames.pop(0)
            return data[:size], address

        def setsockopt(self, *given: object) -> None:
            self.filters += 1

    sniff = Sniff()
    agent._hear(sniff)  # type: ignore[arg-type]
    assert heard == [CLIENT[4], CLIENT[6].replace(":0::", "::")]
    assert sniff.filters == 1
    text = (tmp_path / "events.jsonl").read_text()
    assert (text.count("first_datagram"), text.count('"opened"')) == (1, 2)
