"""The answer that tells the simulator that h2o over TCP is ready: Version Negotiation (RFC 8999 §6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import image_module

version_negotiation = image_module("h2o-https/answer_versions.py").version_negotiation
connection_ids = st.binary(max_size=20)


def _long_header(version: bytes, destination: bytes, source: bytes) -> bytes:
    return b"\xc3" + version + bytes([len(destination)]) + destination + bytes([len(source)]) + source + b"payload"


@given(st.binary(min_size=4, max_size=4).filter(any), connection_ids, connection_ids)
def test_the_answer_has_the_connection_ids_the_other_way_round(version: bytes, left: bytes, right: bytes) -> None:
    answer = version_negotiation(_long_header(version, left, right))
    assert answer is not None
    assert answer[0] & 0x80 and answer[1:5] == bytes(4)
    assert answer[5:] == bytes([len(right)]) + right + bytes([len(left)]) + left + bytes.fromhex("1a2a3a4a")


@pytest.mark.parametrize(
    "packet", [b"", b"\xc3\0\0\0", b"\x43" + bytes(30), _long_header(bytes(4), b"12345678", b"1234")],
    ids=["empty", "cut off", "short header", "an answer"],
)  # fmt: skip
def test_nothing_else_is_answered(packet: bytes) -> None:
    assert version_negotiation(packet) is None


@given(st.binary(max_size=40))
def test_no_packet_ends_it(packet: bytes) -> None:
    version_negotiation(b"\xc3" + packet)
