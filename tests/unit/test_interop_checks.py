"""Each check of a test case: a conversation that is as demanded, and mutated ones that it must catch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.analysis.interop import declared_checks
from harness.analysis.interop.evidence import Evidence, before_timeout
from harness.analysis.interop.registry import CheckResult, Failed, NotExercised, Passed, Undetermined
from harness.capture.quic.invariants import Form
from harness.outcome import Transfer
from harness.scenario.parameters import ROLES
from harness.scenario.schema import NEGOTIATED_PROTOCOL
from tests.unit import wire_packets
from tests.unit.captures import make_run
from tests.unit.wire_packets import AES_128, CHACHA, V2, Conversation, Trace, challenge, response, shake_hands

Conversed = Callable[[], Evidence]
_NAT = ("193.167.0.150", 10_000)
_PORT = ("193.167.0.100", 10_000)


def _plain(trace: Trace | None = None, **keys: Any) -> Evidence:
    trace, conversation = trace or Trace(), Conversation()
    shake_hands(trace, conversation, **keys)
    return trace.evidence(conversation)


def _chacha(suites: tuple[int, ...], suite: int = CHACHA) -> Evidence:
    trace, conversation = Trace(), Conversation(suite=suite)
    shake_hands(trace, conversation, suites=suites)
    return trace.evidence(conversation)


def _retry(token: bytes = b"proof", back: bytes = b"proof", anew: bool = False) -> Evidence:
    trace, conversation = Trace(), Conversation()
    trace.send(
        "client",
        conversation.long("client", "initial", wire_packets.crypto(wire_packets.client_hello(conversation.random))),
        size=1200,
    )
    trace.send("server", conversation.retry(token))
    if anew:
        conversation.numbers.clear()
    shake_hands(trace, conversation, token=back)
    return trace.evidence(conversation)


def _two(resumes: bool = True, **keys: Any) -> Evidence:
    trace, first, second = Trace(), Conversation(), Conversation(1)
    shake_hands(trace, first)
    shake_hands(trace, second, resumes=resumes, **keys)
    late = keys.get("early") and second.short("client", b"\x0a\x04\x20" + bytes(32))
    if late:
        trace.send("client", late)
    return trace.evidence(first, second)


def _early_and_retried(again: bool = True, anew: bool = False, early: bool = True) -> Evidence:
    """A second connection whose early data, if it sends any, are answered by a Retry."""
    trace, first, second = Trace(), Conversation(), Conversation(1)
    shake_hands(trace, first)
    data = b"\x0a\x00\x20" + bytes(32)
    hello = wire_packets.crypto(wire_packets.client_hello(second.random))
    trace.send("client", second.long("client", "initial", hello), size=1200)
    if early:
        trace.send("client", second.long("client", "0rtt", data))
    trace.send("server", second.retry(b"proof"))
    if anew:
        second.numbers.clear()
    if again:
        trace.send("client", second.long("client", "0rtt", data))
    shake_hands(trace, second, resumes=True, token=b"proof")
    return trace.evidence(first, second)


def _late(size: int) -> Evidence:
    trace, first, second = Trace(), Conversation(), Conversation(1)
    shake_hands(trace, first)
    shake_hands(trace, second, resumes=True, early=True)
    for _ in range(size // 1000):
        trace.send("client", second.short("client", b"\x0a\x04\x43\xe4" + bytes(996)))
    return trace.evidence(first, second)


def _rejected(again: bool = True, logs_early: bool = True) -> Evidence:
    """A second connection whose early data are not accepted, whether the client asks again or not."""
    trace, first, second = Trace(), Conversation(), Conversation(1, logs_early=logs_early)
    shake_hands(trace, first)
    shake_hands(trace, second, resumes=True, early=True, accepts=False)
    if again:
        trace.send("client", second.short("client", b"\x0a\x00\x20" + bytes(32)))
    return trace.evidence(first, second)


def _updated(client: int, server: int) -> Evidence:
    trace, conversation = Trace(), Conversation()
    shake_hands(trace, conversation)
    for turn in range(3):
        trace.send("client", conversation.short("client", wire_packets.PING, client * (turn > 0)))
        trace.send("server", conversation.short("server", wire_packets.PING, server * (turn > 0)))
    return trace.evidence(conversation)


def _marked(client: int = 2, server: int = 2, counts: bool = True) -> Evidence:
    trace, conversation = Trace(), Conversation()
    shake_hands(trace, conversation)
    replaced = Trace()
    for sender, datagram in trace.datagrams:
        replaced.send(sender, datagram.payload, ecn=client if sender == "client" else server)
    if not counts:
        replaced, conversation = Trace(), Conversation()
        for sender, packet in (
            (
                "client",
                conversation.long(
                    "client", "initial", wire_packets.crypto(wire_packets.client_hello(conversation.random))
                ),
            ),
            (
                "server",
                conversation.long(
                    "server", "initial", wire_packets.crypto(wire_packets.server_hello()) + wire_packets.ACK
                ),
            ),
            ("client", conversation.long("client", "initial", wire_packets.ACK_ECN)),
        ):
            replaced.send(sender, packet)
    return replaced.evidence(conversation)


def _congested(counted: int, marked: int = 2) -> Evidence:
    """The queue marks so many datagrams of the server, and the client's last ACK counts so many."""
    trace, conversation = Trace(), Conversation()
    shake_hands(trace, conversation)
    for _ in range(marked):
        trace.send("server", conversation.short("server", wire_packets.PING))
    acknowledgement = wire_packets.ACK_ECN[:-1] + bytes([counted])
    trace.send("client", conversation.short("client", acknowledgement))
    evidence = trace.evidence(conversation)
    *before, last, further = evidence.arrived["server"]
    congested = [replace(datagram, ecn=3) if marked else datagram for datagram in (last, further)]
    return replace(evidence, arrived={**evidence.arrived, "server": (*before, *congested)})


def _over(ip: int) -> Evidence:
    trace, conversation = Trace(), Conversation()
    trace.send(
        "client",
        conversation.long("client", "initial", wire_packets.crypto(wire_packets.client_hello(conversation.random))),
        ip=6,
    )
    trace.send(
        "server", conversation.long("server", "initial", wire_packets.crypto(wire_packets.server_hello())), ip=ip
    )
    return trace.evidence(conversation)


def _amplified(times: float, proof: str = "handshake") -> Evidence:
    """A server that sends so many times what came before the client's address is validated."""
    trace, conversation = Trace(), Conversation()
    trace.send(
        "client",
        conversation.long("client", "initial", wire_packets.crypto(wire_packets.client_hello(conversation.random))),
        size=1200,
    )
    trace.send("client", conversation.long("client", "initial", wire_packets.PING), size=1200, lost=True)
    left = round(1200 * times)
    while left > 0:
        trace.send(
            "server",
            conversation.long("server", "initial", wire_packets.crypto(wire_packets.server_hello())),
            size=min(left, 1200),
        )
        left -= 1200
    if proof == "handshake":
        trace.send("client", conversation.long("client", "handshake", wire_packets.ACK), size=1200)
    elif proof == "identifier":
        conversation.known = conversation.server_id
        trace.send("client", conversation.long("client", "initial", wire_packets.ACK), size=1200)
    for _ in range(5):
        trace.send("server", conversation.short("server", wire_packets.PING), size=1200)
    return trace.evidence(conversation)


def _moved(to: tuple[str, int] = _NAT, asks: bool = True, answers: bytes = b"12345678", lost: bool = False) -> Evidence:
    trace, conversation = Trace(), Conversation()
    shake_hands(trace, conversation)
    trace.send("client", conversation.short("client", wire_packets.PING), client=to)
    asked = challenge(b"12345678") if asks else wire_packets.PING
    trace.send("server", conversation.short("server", asked), client=to, lost=lost)
    trace.send("server", conversation.short("server", challenge(b"12345678")), client=to)
    trace.send("client", conversation.short("client", response(answers)), client=to)
    return trace.evidence(conversation)


def _migrated(server_id: bytes | None = b"second-0", asks: bool = True, stays: bool = False) -> Evidence:
    trace, conversation = Trace(), Conversation()
    shake_hands(trace, conversation)
    new_connection_id = b"\x18\x01\x00\x08second-0" + bytes(16)
    trace.send("server", conversation.short("server", new_connection_id))
    there = wire_packets.SERVER if stays else ("193.167.100.101", 443)
    asked = challenge(b"12345678") if asks else wire_packets.PING
    trace.send("client", conversation.short("client", asked, server_id=server_id), server=there)
    trace.send("server", conversation.short("server", response(b"12345678")), server=there)
    return trace.evidence(conversation)


def _negotiated(of: bytes | None = None, answers: bool = True) -> Evidence:
    trace, conversation = Trace(), Conversation()
    trace.send(
        "client",
        conversation.long("client", "initial", wire_packets.crypto(wire_packets.client_hello(conversation.random))),
        size=1200,
    )
    if answers:
        trace.send("server", wire_packets.version_negotiation(conversation.client_id, of or conversation.chosen_id))
    return trace.evidence(conversation)


def _closed_early() -> Evidence:
    """A server that shakes hands once, and closes what it never answered."""
    trace, answered, unanswered = Trace(), Conversation(), Conversation(1)
    shake_hands(trace, answered)
    trace.send(
        "client",
        unanswered.long("client", "initial", wire_packets.crypto(wire_packets.client_hello(unanswered.random))),
        size=1200,
    )
    trace.send("server", unanswered.long("server", "initial", b"\x1c\x02\x00\x00"))
    return trace.evidence(answered, unanswered)


def _served(**keys: Any) -> Evidence:
    transfer = Transfer(flow=0, index=0, size=10, started_ns=0, ended_ns=1, **keys)
    trace, conversation = Trace(), Conversation()
    shake_hands(trace, conversation)
    return trace.evidence(conversation, run=make_run(transfers=[transfer]))


#: (check, what is demanded) → what is as demanded; and what is not, with words that must be said of it.
CASES: dict[tuple[str, Any], tuple[list[Conversed], list[tuple[Conversed, str]]]] = {
    ("handshakes", 1): (
        [_plain, _retry, _closed_early],
        [(_two, "2 handshakes, asked 1"), (lambda: Trace().evidence(Conversation()), "0 handshakes")],
    ),
    ("handshakes", 2): ([_two], [(_plain, "1 handshake, asked 2")]),
    ("version", "1"): ([_plain], [(lambda: _plain(version=V2), "version 2")]),
    ("version", "2"): (
        [lambda: _plain(version=V2)],
        [(_plain, "no Initial packet of the server has version 2"),
         (lambda: _plain(version=V2, handshake_version=1), "Handshake packet of the server with version 1")],
    ),
    ("client_hellos", 2): ([lambda: _plain(again=2)], [(_plain, "1 ClientHello, asked at least 2")]),
    ("retry", "used"): (
        [_retry],
        [(_plain, "sent no Retry"), (lambda: _retry(token=b"", back=b""), "without a token"),
         (lambda: _retry(back=b"other"), "a token that no Retry had"), (lambda: _retry(back=b""), "has a Retry's token"),
         (lambda: _retry(anew=True), "packet number 0 again")],
    ),
    ("retry", "never"): ([_plain], [(_retry, "the server sent a Retry")]),
    ("version_negotiation", True): (
        [_negotiated], [(lambda: _negotiated(of=b"anything"), "another connection ID"),
                        (lambda: _negotiated(answers=False), "no Version Negotiation")],
    ),
    ("cipher", "chacha20"): (
        [lambda: _chacha((CHACHA,))],
        [(lambda: _chacha((AES_128, CHACHA)), "0x1301, 0x1303"), (lambda: _chacha((CHACHA,), AES_128), "did not take")],
    ),
    ("resumed", True): (
        [_two], [(lambda: _two(resumes=False), "its certificate again"), (_plain, "1 connections")],
    ),
    ("early_data", 5000): (
        [lambda: _two(early=True)],
        [(_two, "no 0-RTT packet"), (lambda: _late(6000), "asked at most 5000"), (_rejected, "did not accept")],
    ),
    ("early_data_again", True): (
        [_early_and_retried],
        [(_two, "no 0-RTT packet"), (lambda: _two(early=True), "none of 0 Retry packets answered"),
         (lambda: _early_and_retried(early=False), "none of 1 Retry packet answered"),
         (lambda: _early_and_retried(again=False), "no early data behind the Retry"),
         (lambda: _early_and_retried(anew=True), "packet number 0 again")],
    ),
    ("early_data_rejected", True): (
        [_rejected, lambda: _rejected(logs_early=False)],
        [(lambda: _two(early=True), "accepted the early data"), (lambda: _rejected(again=False), "did not ask again")],
    ),
    ("key_update", True): (
        [lambda: _updated(1, 1)],
        [(lambda: _updated(1, 0), "the server never updated"), (lambda: _updated(0, 1), "the client never updated"),
         (lambda: _updated(0, 0), "nobody updated")],
    ),
    ("stream_limit", 1000): ([_plain], [(lambda: _plain(streams=1001), "initial_max_streams_bidi 1001")]),
    ("server_crypto", 7500): (
        [lambda: _plain(certificate_size=8000)], [(_plain, "asked at least 7500")],
    ),
    ("amplification", 3): (
        [lambda: _amplified(3), lambda: _amplified(2.1, "identifier")],
        [(lambda: _amplified(4), "4800 B sent, and 1200 B had come"), (lambda: _amplified(3.01), "B sent, and 1200 B had come"),
         (lambda: _amplified(2, "none"), "4800 B sent")],
    ),
    ("ecn", True): (
        [_marked, lambda: _marked(1, 1)],
        [(lambda: _marked(client=0), "the client marked no"), (lambda: _marked(server=0), "the server marked no"),
         (lambda: _marked(server=3), "left with CE"), (lambda: _marked(counts=False), "no ACK of the server")],
    ),
    ("congestion_counted", True): (
        [lambda: _congested(1), lambda: _congested(2)],
        [(lambda: _congested(0), "the client counted 0 of 2 packets"), (lambda: _congested(3), "counted 3 of 2 packets")],
    ),
    ("ip", "6"): ([lambda: _over(6)], [(lambda: _over(4), "over IPv4")]),
    ("rebound", "port"): (
        [lambda: _moved(_PORT), _moved],
        [(_plain, "a single path"), (lambda: _moved(asks=False), "has no PATH_CHALLENGE"),
         (lambda: _moved(answers=b"87654321"), "nobody answered"),
         (lambda: _moved(answers=b"87654321", lost=True), "was lost on its way")],
    ),
    ("rebound", "address"): ([_moved], [(lambda: _moved(_PORT), "a single address")]),
    ("migrated", True): (
        [_migrated],
        [(lambda: _migrated(server_id=None), "the old connection ID"), (lambda: _migrated(asks=False), "no PATH_CHALLENGE"),
         (lambda: _migrated(stays=True), "a single path")],
    ),
    ("files", True): (
        [lambda: _served(received=10, intact=True)],
        [(lambda: _served(received=9, intact=False), "9 of 10 B"), (_plain, "there was no transfer")],
    ),
    ("application_protocol", True): (
        [lambda: replace(_plain(), negotiated=dict.fromkeys(ROLES, NEGOTIATED_PROTOCOL))],
        [(_plain, "the client wrote no application protocol down"),
         (lambda: replace(_plain(), negotiated=dict.fromkeys(ROLES, "lab-a")), "the client has 'lab-a'")],
    ),
}  # fmt: skip


def _check_result(name: str, asked: Any, converse: Conversed) -> CheckResult:
    return declared_checks()[name].judge(converse(), asked)


def test_every_check_has_a_conversation_that_it_passes_and_one_that_it_catches() -> None:
    assert {name for name, _ in CASES} == set(declared_checks())
    assert all(good and bad for good, bad in CASES.values())


@pytest.mark.parametrize(
    ("case", "converse"), [(case, converse) for case, (good, _) in CASES.items() for converse in good]
)
def test_what_is_as_demanded_passes(case: tuple[str, Any], converse: Conversed) -> None:
    check_result = _check_result(*case, converse)
    assert isinstance(check_result, Passed), check_result


@pytest.mark.parametrize(
    ("case", "converse", "sentence"),
    [(case, converse, text) for case, (_, bad) in CASES.items() for converse, text in bad],
)
def test_what_is_not_is_caught(case: tuple[str, Any], converse: Conversed, sentence: str) -> None:
    check_result = _check_result(*case, converse)
    assert isinstance(check_result, Failed), check_result
    assert sentence in check_result.sentence


def test_another_client_hello_behind_a_retry_is_read_and_told() -> None:
    """picoquic's client does so, against RFC 9000 §17.2.5.3; its secrets are those of the second."""
    trace, conversation = Trace(), Conversation()
    hello = wire_packets.client_hello(conversation.random)
    trace.send("client", conversation.long("client", "initial", wire_packets.crypto(hello)), size=1200)
    trace.send("server", conversation.retry(b"proof"))
    conversation.random = bytes(32)
    shake_hands(trace, conversation, token=b"proof")
    evidence = trace.evidence(conversation)
    assert all(packet.plaintext is not None for packet in evidence.sent if packet.form is not Form.RETRY)
    check_result = _check_result("retry", "used", lambda: evidence)
    assert isinstance(check_result, Passed) and check_result.sentence.endswith(
        "another ClientHello, which RFC 9000 §17.2.5.3 forbids"
    )
    check_result = _check_result("retry", "used", _retry)
    assert isinstance(check_result, Passed) and "another" not in check_result.sentence


def test_a_client_with_a_token_is_sent_no_retry() -> None:
    trace, first, second = Trace(), Conversation(), Conversation(1)
    shake_hands(trace, first)
    shake_hands(trace, second, resumes=True, early=True, token=b"of NEW_TOKEN")
    check_result = _check_result("early_data_again", True, lambda: trace.evidence(first, second))
    assert isinstance(check_result, NotExercised) and "NEW_TOKEN" in check_result.sentence


def test_a_queue_that_marked_nothing_says_nothing_of_counting() -> None:
    check_result = _check_result("congestion_counted", True, lambda: _congested(0, marked=0))
    assert isinstance(check_result, NotExercised) and check_result.sentence == "no datagram arrived with CE"


@pytest.mark.parametrize("times", [0.04, 1, 2])
def test_a_limit_that_stopped_nobody_says_nothing(times: float) -> None:
    """A server that had room for a datagram when the address was validated was not at the limit."""
    check_result = _check_result("amplification", 3, lambda: _amplified(times, "identifier"))
    assert isinstance(check_result, NotExercised) and "before the limit made it stop" in check_result.sentence


def test_a_rebinding_that_the_runner_fails_says_whether_the_rfc_holds() -> None:
    late = _check_result("rebound", "port", lambda: _moved(asks=False))
    assert isinstance(late, Failed) and "has no PATH_CHALLENGE; RFC 9000 §9.3 holds" in late.sentence
    never = _check_result("rebound", "port", lambda: _moved(answers=b"87654321"))
    assert isinstance(never, Failed) and "1 path of 1 never validated" in never.sentence


def test_what_a_server_sends_when_it_is_stopped_is_no_evidence() -> None:
    """A close after the time-out was named as the first wrong packet."""
    trace, conversation = Trace(), Conversation()
    shake_hands(trace, conversation)
    evidence = trace.evidence(conversation)
    late = replace(evidence.sent[-1], datagram=replace(evidence.sent[-1].datagram, t_ns=evidence.sent[0].t_ns + 60))
    assert before_timeout((*evidence.sent, late), 60) == tuple(
        datagram for datagram in evidence.sent if datagram.t_ns < late.t_ns
    )
    assert before_timeout((*evidence.sent, late), None) == (*evidence.sent, late)


def test_every_check_says_what_exercises_it() -> None:
    for check in declared_checks().values():
        assert check.exercised_by, check.name


def test_nothing_is_rejected_where_no_early_data_were_sent() -> None:
    for converse in (_plain, _two):
        check_result = _check_result("early_data_rejected", True, converse)
        assert isinstance(check_result, NotExercised) and "no 0-RTT packet" in check_result.sentence


def test_the_first_wrong_packet_is_named() -> None:
    check_result = _check_result("amplification", 3, lambda: _amplified(4))
    assert isinstance(check_result, Failed)
    assert check_result.packet is not None
    # One Initial that came, one that was lost, three datagrams that were allowed.
    assert (check_result.packet.sender, check_result.packet.datagram.number) == ("server", 6)


@pytest.mark.parametrize(
    "name",
    ["key_update", "resumed", "early_data", "early_data_rejected", "stream_limit", "server_crypto", "rebound", "ecn"],
)
def test_what_needs_secrets_is_unknown_without_them_but_never_passed(name: str) -> None:
    trace, conversation, second_conversation = (
        Trace(),
        Conversation(logs_secrets=False),
        Conversation(1, logs_secrets=False),
    )
    shake_hands(trace, conversation)
    shake_hands(trace, second_conversation, resumes=True, early=True)
    trace.send("server", conversation.short("server", challenge(b"12345678")), client=_PORT)
    asked = {"rebound": "port", "early_data": 5000, "stream_limit": 1000, "server_crypto": 7500}.get(name, True)
    check_result = declared_checks()[name].judge(trace.evidence(conversation, second_conversation), asked)
    assert declared_checks()[name].needs_keys
    assert isinstance(check_result, Undetermined | Failed), check_result


def test_packets_of_every_kind_are_opened_and_nothing_else_is() -> None:
    evidence = _late(2000)
    assert all(packet.plaintext is not None for packet in evidence.sent)
    assert [connection.suite for connection in evidence.connections] == [AES_128, AES_128]
    trace, conversation = Trace(), Conversation()
    packet = bytearray(
        conversation.long("client", "initial", wire_packets.crypto(wire_packets.client_hello(conversation.random)))
    )
    packet[-1] ^= 1
    trace.send("client", bytes(packet))
    assert trace.evidence(conversation).sent[0].plaintext is None
