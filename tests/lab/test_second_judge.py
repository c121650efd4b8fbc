"""An independent dissector beside the checks: what tshark counts in a run's captures, the checks have counted, too."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.analysis.interop.evidence import NEAR_ENDPOINT, Evidence, read_evidence
from harness.analysis.interop.registry import FOLDER
from harness.capture.artefacts import CAPTURE, KEYS, Artefacts, endpoint_path
from harness.capture.capture import NOT_ECT
from harness.capture.files import read_bytes
from harness.capture.quic.invariants import VERSION_2, Form
from harness.formatting import format_count
from harness.outcome import MeasuredRun, Run
from harness.report.interop_logs import endpoint_frames
from harness.scenario.parameters import ROLES
from tests.lab.conftest import Harness, build_image

HERE = Path(__file__).parent / "tshark"
#: Pair → cases that have, together, a Retry, two key phases, marks, early data, and two versions. A Retry is answered by
#: quinn: picoquic sends another ClientHello then, whose secrets tshark 4.4 does not look for.
PAIRS = {
    ("picoquic", "quinn"): ("zerortt", "ecn"),
    ("quinn", "picoquic"): ("retry", "keyupdate"),
    ("picoquic", "picoquic"): ("v2", "ecn"),
}
#: Types of long header packets in version 1 and in version 2 (RFC 9000 §17.2, RFC 9369 §3.2).
_LONG = {
    1: (Form.INITIAL, Form.ZERO_RTT, Form.HANDSHAKE, Form.RETRY),
    VERSION_2: (Form.RETRY, Form.INITIAL, Form.ZERO_RTT, Form.HANDSHAKE),
}
#: Bytes of the tag of AEAD algorithms (RFC 9001 §5.3).
_TAG = 16


@dataclass
class Counts:
    """What of a run is counted by both."""

    forms: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(sender, type of packet) → packets."""
    versions: Counter[tuple[str, int]] = field(default_factory=Counter)
    """(sender, version) → packets with long headers."""
    handshakes: set[str] = field(default_factory=set)
    """Source connection IDs of the server's Initial packets that have CRYPTO data."""
    phases: Counter[tuple[str, int]] = field(default_factory=Counter)
    """(sender, key phase bit) → 1-RTT packets."""
    marks: Counter[tuple[str, int]] = field(default_factory=Counter)
    """(sender, ECN field) → datagrams."""
    early: int = 0
    """Bytes of payload in 0-RTT packets, without tags."""
    late: int = 0
    """Bytes of payload in the client's 1-RTT packets, without tags."""


def _checks_count(evidence: Evidence) -> Counts:
    counts = Counts()
    datagrams: dict[tuple[str, int], int] = {}
    for packet in evidence.sent:
        counts.forms[packet.sender, packet.form.name] += 1
        datagrams[packet.sender, packet.datagram.number] = packet.datagram.ecn
        if packet.form is Form.SHORT:
            counts.phases[packet.sender, packet.phase % 2] += 1
        else:
            counts.versions[packet.sender, packet.header.version] += 1
        if packet.form is Form.INITIAL and packet.sender == "server" and packet.frames and packet.frames.crypto:
            counts.handshakes.add(packet.header.source_id.hex())
        if packet.sender == "client":
            size = len(packet.plaintext or packet.header.data)
            counts.early += size if packet.form is Form.ZERO_RTT else 0
            counts.late += size if packet.form is Form.SHORT else 0
    for (sender, _), mark in datagrams.items():
        counts.marks[sender, mark] += 1
    return counts


def _dissected(capture: Path, keys: Path, source: str, image: str) -> Iterator[ElementTree.Element]:
    """Packets of a sender as tshark has them: PDML elements with their protocols."""
    command = [
        "docker", "run", "--rm", "--network", "none", "--volume", f"{capture.parent}:/captures:ro",
        "--volume", f"{keys.parent}:/keys:ro", image,
        "-r", f"/captures/{capture.name}", "-o", f"tls.keylog_file:/keys/{keys.name}",
        "-Y", f"quic and ip.src == {source}", "-T", "pdml", "-J", "ip quic",
    ]  # fmt: skip
    process = subprocess.run(command, check=True, capture_output=True, timeout=120)
    return ElementTree.fromstring(process.stdout).iter("packet")


def _tshark_counts(artefacts: Artefacts, folder: Path, image: str) -> Counts:
    lab = artefacts.lab
    assert lab is not None
    (flow,) = lab.flows
    keys = folder / KEYS
    keys.write_bytes(b"".join(
        read_bytes(file) for role in ROLES if (file := artefacts.path(f"{endpoint_path(0, role)}/{KEYS}")) is not None
    ))  # fmt: skip
    counts = Counts()
    for side, sender in NEAR_ENDPOINT.items():
        stored = artefacts.path(CAPTURE[side])
        assert stored is not None
        capture = folder / f"{side}.pcap"
        capture.write_bytes(endpoint_frames(read_bytes(stored)))
        source = getattr(flow, sender).addresses[0]
        for frame in _dissected(capture, keys, source, image):
            counts.marks[sender, int(_shown(frame, "ip.dsfield.ecn") or NOT_ECT)] += 1
            for packet in frame.findall("proto[@name='quic']"):
                _count_packet(counts, sender, packet)
    return counts


def _count_packet(counts: Counts, sender: str, packet: ElementTree.Element) -> None:
    if _shown(packet, "quic.header_form") is None:
        return  # what fills a datagram up behind its last packet
    if _shown(packet, "quic.header_form") == "0":
        counts.forms[sender, Form.SHORT.name] += 1
        counts.phases[sender, int(_shown(packet, "quic.key_phase") == "True")] += 1
        header = 1 + _size(packet, "quic.dcid") + _size(packet, "quic.packet_number")
        counts.late += int(packet.get("size", 0)) - header - _TAG if sender == "client" else 0
        return
    version = int(_shown(packet, "quic.version") or "0", 0)
    # Wireshark has the types of version 2 in a field of their own.
    kind = _shown(packet, "quic.long.packet_type") or _shown(packet, "quic.long.packet_type_v2") or ""
    form = _LONG[version][int(kind, 0)]
    counts.forms[sender, form.name] += 1
    counts.versions[sender, version] += 1
    if form is Form.INITIAL and sender == "server" and packet.find(".//field[@name='quic.crypto.offset']") is not None:
        counts.handshakes.add((_shown(packet, "quic.scid") or "").replace(":", ""))
    if form is Form.ZERO_RTT and sender == "client":
        counts.early += _size(packet, "quic.payload") - _TAG


def _size(packet: ElementTree.Element, name: str) -> int:
    return int(_attribute(packet, name, "size") or 0)


def _attribute(element: ElementTree.Element, name: str, attribute: str) -> str | None:
    pdml_field = element.find(f".//field[@name='{name}']")
    return None if pdml_field is None else pdml_field.get(attribute)


def _shown(element: ElementTree.Element, name: str) -> str | None:
    return _attribute(element, name, "show")


@pytest.fixture(scope="module")
def tshark() -> str:
    return build_image("quic-lab-test/tshark:1", HERE)


@pytest.mark.parametrize("pair", PAIRS, ids="→".join)
def test_tshark_counts_what_the_checks_count(
    warm: Harness, harness: Harness, tshark: str, pair: tuple[str, str], tmp_path: Path
) -> None:
    client, server = pair
    names = [f"{FOLDER}{case}" for case in PAIRS[pair]]
    words = ("--clients", client, "--servers", server, "--engine", "virtual", "--repeat", "1", "--evidence", "full")
    harness.cells(*names, *words)
    files = sorted(harness.store.glob("runs/*/0/run.json"))
    assert len(files) == len(names)
    for file in files:
        artefacts = Artefacts(file.parent, Run.model_validate_json(file.read_bytes()))
        folder = tmp_path / artefacts.run.cell.key
        folder.mkdir()
        theirs, ours = _tshark_counts(artefacts, folder, tshark), _checks_count(read_evidence(artefacts))
        assert theirs == ours, artefacts.run.cell.scenario.name
        measured = MeasuredRun.model_validate_json((file.parent / "measured.json").read_bytes())
        sentences = {check.check: check.sentence for check in measured.checks}
        expected = {name: sentence for name, sentence in _sentences(theirs).items() if name in sentences}
        assert expected
        assert all(sentences[name].startswith(sentence) for name, sentence in expected.items()), (sentences, expected)


def _sentences(counts: Counts) -> dict[str, str]:
    """What the checks say of a run of these counts, by check; of those alone that tell figures."""
    phases = ", ".join(
        f"{role} {counts.phases[role, 0]} packets before and {counts.phases[role, 1]} after" for role in ROLES
    )
    return {
        "version": "version 2" if counts.versions["server", VERSION_2] else "version 1",
        "handshakes": f"{format_count(len(counts.handshakes), 'handshake')}, asked ",
        "key_update": phases,
        "early_data": f"{counts.early} B of early data, {counts.late} B in 1-RTT packets, asked at most ",
        "retry": "the client came back with the token of " if counts.forms["server", "RETRY"] else "no Retry",
    }
