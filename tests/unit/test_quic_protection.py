from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.capture.quic.invariants import VERSION_2
from harness.capture.quic.protection import (
    Aead,
    Protection,
    candidate_aeads,
    count_plausible,
    decode_number,
    decode_numbers,
    decrypt,
    derive_keys,
    expand_label,
    header_masks,
    keystream,
    next_secret,
)
from tests.unit.packet_protection import SIZES, Sender, heads, secret_size

VERSION_1 = 1
SALTS = {
    VERSION_1: bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a"),
    VERSION_2: bytes.fromhex("0dede3def700a6db819381be6e269dcbf9bd2ed9"),
}
DESTINATION = bytes.fromhex("8394c8f03e515708")
#: RFC 9001 §A.1, RFC 9369 §A.1: sender → secret, key, IV, key of header protection of Initial packets.
INITIAL = [
    (
        VERSION_1, "client in", "c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea",
        "1f369613dd76d5467730efcbe3b1a22d", "fa044b2f42a3fd3b46fb255c", "9f50449e04a0e810283a1e9933adedd2",
    ),
    (
        VERSION_1, "server in", "3c199828fd139efd216c155ad844cc81fb82fa8d7446fa7d78be803acdda951b",
        "cf3a5331653c364c88f0f379b6067e37", "0ac1493ca1905853b0bba03e", "c206b8d9b9f0f37644430b490eeaa314",
    ),
    (
        VERSION_2, "client in", "14ec9d6eb9fd7af83bf5a668bc17a7e283766aade7ecd0891f70f9ff7f4bf47b",
        "8b1a0bc121284290a29e0971b5cd045d", "91f73e2351d8fa91660e909f", "45b95e15235d6f45a6b19cbcb0294ba9",
    ),
]  # fmt: skip
#: RFC 9001 §A.5 and RFC 9369 §A.5: a packet of ChaCha20-Poly1305 with number 654360564 and a PING frame.
CHACHA20 = bytes.fromhex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b")
NUMBER = 654360564
SHORT = {
    VERSION_1: "4cfe4189655e5cd55c41f69080575d7999c25a5bfb",
    VERSION_2: "5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba",
}
UPDATED = {
    VERSION_1: "1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9",
    VERSION_2: "c69374c49e3d2a9466fa689e49d476db5d0dfbc87d32ceeaa6343fd0ae4c7d88",
}


@pytest.mark.parametrize(("version", "label", "secret", "key", "iv", "header"), INITIAL)
def test_keys_of_the_standards(version: int, label: str, secret: str, key: str, iv: str, header: str) -> None:
    initial = hmac.digest(SALTS[version], DESTINATION, hashlib.sha256)
    assert expand_label(initial, label, 32).hex() == secret
    keys = derive_keys(bytes.fromhex(secret), Aead.AES_128_GCM, version)
    assert (keys.key.hex(), keys.iv.hex(), keys.header.hex()) == (key, iv, header)


@pytest.mark.parametrize(
    ("header", "sample", "mask"),
    [
        (INITIAL[0][5], "d1b1c98dd7689fb8ec11d242b123dc9b", "437b9aec36"),
        (INITIAL[1][5], "2cd0991cd25b0aac406a5816b6394100", "2ec0d8356a"),
    ],
)
def test_masks_of_the_standard(header: str, sample: str, mask: str) -> None:
    keys = derive_keys(bytes(32), Aead.AES_128_GCM, VERSION_1)
    keys = type(keys)(keys.aead, keys.key, keys.iv, bytes.fromhex(header))
    samples = np.frombuffer(bytes.fromhex(sample), np.uint8)[None, :]
    assert header_masks(keys, samples).tobytes().hex() == mask


@pytest.mark.parametrize("version", [VERSION_1, VERSION_2])
def test_a_packet_of_the_standard(version: int) -> None:
    assert next_secret(CHACHA20, version).hex() == UPDATED[version]
    protection = Protection(CHACHA20, Aead.CHACHA20_POLY1305, version, 0, largest=NUMBER - 1)
    packets = decrypt(heads([bytes.fromhex(SHORT[version])]), protection)
    assert packets.number.tolist() == [NUMBER]
    assert packets.plaintext[0, : packets.captured[0]].tobytes() == b"\x01"
    # With the other version's labels it is not opened.
    other = Protection(CHACHA20, Aead.CHACHA20_POLY1305, VERSION_1 + VERSION_2 - version, 0, largest=NUMBER - 1)
    wrong = decrypt(heads([bytes.fromhex(SHORT[version])]), other)
    assert wrong.number.tolist() != [NUMBER]


@pytest.mark.parametrize("aead", list(Aead))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_a_sender_protects_is_read(aead: Aead, data: st.DataObject) -> None:
    secret = data.draw(st.binary(min_size=secret_size(aead), max_size=secret_size(aead)))
    connection_id = data.draw(st.binary(max_size=20))
    first = data.draw(st.integers(0, 1 << 20))
    sender = Sender(secret, aead, connection_id)
    payloads = data.draw(st.lists(st.binary(min_size=4, max_size=90), min_size=1, max_size=12))
    updates = sorted(data.draw(st.lists(st.integers(0, 3), min_size=len(payloads), max_size=len(payloads))))
    # From one phase to the next one bit changes, so none may be left out.
    updates = [sorted(set(updates)).index(update) for update in updates]
    order = data.draw(st.permutations(range(len(payloads))))
    protected = [sender.packet(first + i, payloads[i], 2, updates[i]) for i in order]
    assert aead in candidate_aeads(secret)
    packets = decrypt(heads(protected), Protection(secret, aead, 1, len(connection_id), largest=first - 1))
    assert packets.row.tolist() == list(range(len(protected)))
    assert packets.number.tolist() == [first + i for i in order]
    assert packets.phase.tolist() == [updates[i] for i in order]
    for plain, seen, size, i in zip(packets.plaintext, packets.captured, packets.size, order, strict=True):
        assert size == len(payloads[i])
        assert seen == min(size, 54 - 1 - len(connection_id) - 2)
        assert plain[:seen].tobytes() == payloads[i][:seen]


@pytest.mark.parametrize("aead", list(Aead))
@settings(max_examples=25, deadline=None)
@given(key=st.binary(min_size=48, max_size=48), numbers=st.integers(1, 64))
def test_header_protection_alone_rules_out_no_secret_that_opens_packets(aead: Aead, key: bytes, numbers: int) -> None:
    sender = Sender(bytes(secret_size(aead)), aead)
    protected = heads([sender.packet(number, bytes(40), 2) for number in range(numbers)])
    for secret in (sender.secret, key[: secret_size(aead)]):
        protection = Protection(secret, aead, VERSION_1, 0)
        assert len(decrypt(protected, protection)) <= count_plausible(protected, protection) <= numbers
    assert count_plausible(protected, Protection(sender.secret, aead, VERSION_1, 0)) == numbers


@pytest.mark.parametrize("aead", list(Aead))
def test_a_keystream_of_several_blocks(aead: Aead) -> None:
    secret = bytes(range(secret_size(aead)))
    keys = derive_keys(secret, aead, VERSION_1)
    assert len(keys.key) == SIZES[aead]
    zeros = Sender(secret, aead).packet(7, bytes(100), 1)[2:102]
    assert keystream(keys, np.array([7], np.int64), 100).tobytes() == zeros


def test_packets_that_are_cut_too_short_are_left_out() -> None:
    sender = Sender(bytes(32), Aead.AES_128_GCM, bytes(17))
    protected = [sender.packet(number, b"\x01" * 60, 2) for number in range(3)]
    short = heads(protected, 37)
    assert len(decrypt(short, Protection(sender.secret, sender.aead, 1, 17))) == 0
    assert len(decrypt(heads(protected, 38), Protection(sender.secret, sender.aead, 1, 17))) == 3


def test_the_example_of_a_packet_number() -> None:
    # RFC 9000 §A.3.
    assert decode_number(0xA82F30EA, 0x9B32, 16) == 0xA82F9B32


@given(st.integers(0, (1 << 62) - 1), st.integers(1, 4), st.data())
def test_a_packet_number_near_the_last_is_decoded(largest: int, size: int, data: st.DataObject) -> None:
    """RFC 9000 §A.2: enough bytes for twice the distance to what was acknowledged."""
    window = 1 << (8 * size)
    low, high = max(0, largest + 2 - window // 2), min((1 << 62) - 1, largest + window // 2)
    number = data.draw(st.integers(low, high))
    assert decode_number(largest, number % window, 8 * size) == number


def test_a_number_out_of_all_relation_is_none() -> None:
    truncated, length = np.array([5, 1 << 31, 6, -1, 7], np.int64), np.array([1, 4, 1, 1, 1], np.int64)
    assert decode_numbers(truncated, length).tolist() == [5, -1, 6, -1, 7]


@given(
    st.integers(0, 1 << 20),
    st.none() | st.integers(-300, 300),
    st.lists(
        st.tuples(st.integers(-40, 300) | st.integers(-200, 90_000), st.integers(1, 4), st.booleans()), max_size=30
    ),
)
def test_numbers_at_once_are_those_one_by_one(
    first: int, before: int | None, steps: list[tuple[int, int, bool]]
) -> None:
    """Each by the largest of those before it (RFC 9000 §A.3): in order or not, near or far, of any length, or none."""
    largest = -1 if before is None else max(0, first + before)
    truncated, length, number = [first], [4], first
    for step, size, readable in steps:
        number = max(0, number + step)
        truncated.append(number % (1 << (8 * size)) if readable else -1)
        length.append(size)
    at_once = decode_numbers(np.array(truncated, np.int64), np.array(length, np.int64), largest)
    expected = list[int]()
    for short, size in zip(truncated, length, strict=True):
        decoded = decode_number(largest, short, 8 * size) if short >= 0 else -1
        expected.append(decoded)
        largest = max(largest, decoded)
    assert at_once.tolist() == expected
