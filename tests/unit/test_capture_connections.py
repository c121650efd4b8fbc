from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.capture.capture import Capture, read_capture
from harness.capture.connections import _select_readable, find_connections, open_connections, open_packets
from harness.capture.key_log import Secret, read_key_log
from harness.capture.quic.invariants import VERSION_2
from harness.capture.quic.protection import Aead, Protection, decrypt
from harness.topology.lab_file import Endpoint, FlowAddresses
from tests.unit import packet_protection
from tests.unit.captures import CLIENT, SERVER, T0, Packet, frame, pcap
from tests.unit.packet_protection import integer, stream_frame

FLOW = FlowAddresses(flow=0, client=Endpoint(addresses=(CLIENT,)), server=Endpoint(addresses=(SERVER,)))
CLIENT_ID, SERVER_ID = b"client-8", b"the-server-s-17.."
DOWN, UP = (random.Random(seed).randbytes(32) for seed in (1, 2))
SECRETS = (Secret(b"r" * 32, "client", UP), Secret(b"r" * 32, "server", DOWN))


def long_header(target: bytes, source: bytes, first: int = 0xC0, version: int = 1) -> bytes:
    """An Initial packet of 1200 bytes, as far as it counts here."""
    ids = bytes([len(target)]) + target + bytes([len(source)]) + source
    return bytes([first]) + version.to_bytes(4, "big") + ids + b"\0\x44\x90"


def capture(folder: Path, packets: Iterable[tuple[bool, bytes]]) -> Capture:
    """Datagrams, to the client or not, one a millisecond."""
    rows = []
    for index, (to_client, payload) in enumerate(packets):
        size = 1200 if payload[0] & 0x80 else len(payload)
        packet = Packet(T0 + index * 1_000_000, to_client, payload, size)
        rows.append((packet.t_ns, frame(packet), packet.length))
    (folder / "a.pcap").write_bytes(pcap(rows))
    return read_capture(folder / "a.pcap", [FLOW])


HANDSHAKE = [
    (False, long_header(b"original", CLIENT_ID)),
    (True, long_header(CLIENT_ID, SERVER_ID)),
    (False, long_header(SERVER_ID, CLIENT_ID)),
]


def data(first: int, count: int, start: int = 0, length: int = 2) -> list[tuple[bool, bytes]]:
    sender = packet_protection.Sender(DOWN, Aead.AES_128_GCM, CLIENT_ID)
    return [
        (True, sender.packet(first + i, stream_frame(0, 900 * (start + i), bytes(900)), length)) for i in range(count)
    ]


def acknowledgements(largest: int, count: int) -> list[tuple[bool, bytes]]:
    sender = packet_protection.Sender(UP, Aead.AES_128_GCM, SERVER_ID)
    return [
        (False, sender.packet(i, b"".join(map(integer, (0x02, largest + i, 0, 0, 0))) + bytes(20), 1))
        for i in range(count)
    ]


def test_a_connection_and_both_directions_of_it(tmp_path: Path) -> None:
    packets = capture(tmp_path, [*HANDSHAKE, *data(0, 20), *acknowledgements(0, 10)])
    (connection,) = find_connections(packets)
    assert (connection.port, connection.version) == (50_000, 1)
    assert (connection.client_id, connection.server_id) == (CLIENT_ID, SERVER_ID)
    down = open_packets(packets, connection, "server", SECRETS)
    assert down is not None and down.undecrypted == 0 and down.aead is Aead.AES_128_GCM
    assert down.packets.number.tolist() == list(range(20))
    assert [frames.streams[0].offset for frames in down.frames] == [900 * i for i in range(20)]
    assert down.t_ns[0] == T0 + 3_000_000
    up = open_packets(packets, connection, "client", SECRETS)
    assert up is not None and [frames.acknowledged for frames in up.frames] == list(range(10))
    assert open_packets(packets, connection, "server", SECRETS[:1]) is None


def test_numbers_that_start_anywhere_are_found_from_acknowledgements(tmp_path: Path) -> None:
    base = 0x1A2B3C4D
    packets = capture(tmp_path, [*HANDSHAKE, *data(base, 30, length=1), *acknowledgements(base + 3, 10)])
    (connection,) = find_connections(packets)
    down = open_packets(packets, connection, "server", SECRETS)
    assert down is not None and down.packets.number[0] == base and len(down.packets) == 30
    # With the number as a whole in the first packet there is no need of them.
    packets = capture(tmp_path, [*HANDSHAKE, *data(base, 1, length=4), *data(base + 1, 30, 1, length=1)])
    alone = open_packets(packets, find_connections(packets)[0], "server", SECRETS)
    assert alone is not None and len(alone.packets) == 31
    # Without either it stays closed.
    packets = capture(tmp_path, [*HANDSHAKE, *data(base, 30, length=1)])
    assert open_packets(packets, find_connections(packets)[0], "server", SECRETS) is None


def test_what_is_not_of_the_connection_stays_closed(tmp_path: Path) -> None:
    dice = random.Random(3)
    noise = [(True, b"\x40" + dice.randbytes(60)) for _ in range(8)]
    mixed = [*data(0, 100), *noise, *data(100, 100, 100)]
    packets = capture(tmp_path, [*HANDSHAKE, *mixed])
    down = open_packets(packets, find_connections(packets)[0], "server", SECRETS)
    assert down is not None and down.undecrypted == len(noise)
    assert [frames.streams[0].offset for frames in down.frames] == [900 * i for i in range(200)]


def test_connections_of_one_port_are_told_apart_by_their_connection_ids(tmp_path: Path) -> None:
    """A client may use one socket for all its connections, whose packets then alternate on one port."""
    ids, secrets = (CLIENT_ID, b"client-9"), (SECRETS[1], Secret(b"s" * 32, "server", UP))
    handshakes = [
        packet
        for client_id, server_id in zip(ids, (SERVER_ID, b"the-server-s-18.."), strict=True)
        for packet in [
            (False, long_header(b"first-" + client_id, client_id)),
            (True, long_header(client_id, server_id)),
            (False, long_header(server_id, client_id)),
        ]
    ]
    senders = [
        packet_protection.Sender(secret.secret, Aead.AES_128_GCM, client_id)
        for client_id, secret in zip(ids, secrets, strict=True)
    ]
    alternating = [
        (True, sender.packet(number, stream_frame(0, 900 * number, bytes(900)), 2))
        for number in range(20)
        for sender in senders
    ]
    packets = capture(tmp_path, [*handshakes, *alternating])
    opened = open_connections(packets, find_connections(packets), "server", secrets)
    assert [sent.connection.client_id for sent in opened] == list(ids)
    assert [sent.secret for sent in opened] == list(secrets)
    assert [sent.packets.number.tolist() for sent in opened] == [list(range(20))] * 2
    assert [sent.undecrypted for sent in opened] == [0, 0]


def test_connections_are_told_apart(tmp_path: Path) -> None:
    other = b"another!"
    second = [(False, long_header(b"again", other, 0xD0, VERSION_2)), (True, long_header(other, b"", 0xD0, VERSION_2))]
    packets = capture(tmp_path, [*HANDSHAKE, *second, *data(0, 20)])
    connections = find_connections(packets)
    assert [(connection.client_id, connection.version) for connection in connections] == [
        (CLIENT_ID, 1),
        (other, VERSION_2),
    ]
    assert open_packets(packets, connections[0], "server", SECRETS) is not None
    assert open_packets(packets, connections[1], "server", SECRETS) is None


@pytest.mark.parametrize("aead", list(Aead))
def test_chance_opens_few_packets(tmp_path: Path, aead: Aead) -> None:
    """What the docstring of open_packets says of a wrong secret, counted."""
    dice = random.Random(4)
    noise = [(True, b"\x40" + dice.randbytes(1200)) for _ in range(3000)]
    seen = capture(tmp_path, [*HANDSHAKE, *noise])
    size = packet_protection.secret_size(aead)
    heads = packet_protection.heads([payload for _, payload in noise])
    packets, _ = _select_readable(decrypt(heads, Protection(bytes(size), aead, 1, 8)))
    assert 0 < len(packets) < 0.03 * len(noise)
    assert open_packets(seen, find_connections(seen)[0], "server", [Secret(bytes(32), "server", bytes(size))]) is None


def test_a_key_log(tmp_path: Path) -> None:
    good = f"SERVER_TRAFFIC_SECRET_0 {'01' * 32} {'02' * 48}"
    lines = [
        "# comment", good, good, f"CLIENT_TRAFFIC_SECRET_0 {'01' * 32} {'03' * 32}", "EXPORTER_SECRET 00 00",
        f"SERVER_TRAFFIC_SECRET_0 {'01' * 32} zz", f"SERVER_TRAFFIC_SECRET_0 {'01' * 32} 0203", "cut sho",
    ]  # fmt: skip
    (tmp_path / "keys.log").write_text("\n".join(lines))
    assert read_key_log(tmp_path / "keys.log") == [
        Secret(b"\x01" * 32, "server", b"\x02" * 48), Secret(b"\x01" * 32, "client", b"\x03" * 32),
    ]  # fmt: skip
