"""Who marks, who counts the marks back, and who stops: the metrics of ECN validation (RFC 9000 §13.4)."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from harness.analysis.metrics import measure
from harness.analysis.metrics.ecn import STOPPED, Marking, acknowledgements, marking
from harness.capture.quic.frames import read_frames
from harness.outcome import MeasuredRun
from tests.unit.captures import Recipe, write_run
from tests.unit.packet_protection import integer
from tests.unit.test_capture_streams import opened

NOT_ECT, ECT_1, ECT_0, CE = range(4)
#: DSCP AF41, which is no part of the ECN field.
DSCP = 34 << 2
#: Where the byte of DSCP and ECN stands in a frame with IPv4.
_AT = 15


def _classes(*codepoints: int) -> np.ndarray:
    return np.array([DSCP | codepoint for codepoint in codepoints], np.uint8)


def _marking(*codepoints: int, gap_ns: int = 1_000_000) -> Marking:
    """Of datagrams so far apart."""
    return marking(np.arange(len(codepoints)) * gap_ns, _classes(*codepoints))


def test_what_a_sender_marked() -> None:
    marks = _marking(NOT_ECT, ECT_0, ECT_0, ECT_1, CE, NOT_ECT)
    assert (marks.ect_0, marks.ect_1, marks.capable, marks.datagrams, marks.last) == (2, 1, 3, 6, 3)
    nothing = _marking(NOT_ECT, CE)
    assert (nothing.capable, nothing.last, nothing.has_stopped) == (0, -1, False)


@pytest.mark.parametrize("behind", [STOPPED - 1, STOPPED])
def test_so_many_unmarked_datagrams_are_the_end_of_marking(behind: int) -> None:
    assert _marking(*[ECT_0] * 5, *[NOT_ECT] * behind).has_stopped == (behind == STOPPED)


@pytest.mark.parametrize(
    ("behind", "gap_ns", "stopped"),
    [(2, 500_000_000, True), (2, 499_000_000, False), (1, 8_000_000_000, False)],
)
def test_in_a_handshake_that_does_not_end_several_are_enough(behind: int, gap_ns: int, stopped: bool) -> None:
    assert _marking(*[ECT_0] * 3, *[NOT_ECT] * behind, gap_ns=gap_ns).has_stopped == stopped


def test_a_pause_between_test_and_verdict_is_not_the_end_of_marking() -> None:
    marks = _marking(*[ECT_0] * 10, *[NOT_ECT] * 100, *[ECT_0] * 50)
    assert not marks.has_stopped and marks.capable == 60


def _measured(folder: Path, down: list[int], up: list[int]) -> MeasuredRun:
    """A download whose first packets have these codepoints where they are sent, and none behind the path."""
    run = write_run(folder, Recipe(packets=400, size=400_000, load=0.8))
    for side, port, codepoints in (("right", 443, down), ("left", 50000, up)):
        file = folder / "sim" / f"trace_node_{side}.pcap"
        data, at, number = bytearray(file.read_bytes()), 24, 0
        while at < len(data):
            (length,) = struct.unpack_from("<I", data, at + 8)
            frame = at + 16
            if struct.unpack_from(">H", data, frame + 34)[0] == port:
                data[frame + _AT] = DSCP | (codepoints[number] if number < len(codepoints) else NOT_ECT)
                number += 1
            at = frame + length
        file.write_bytes(bytes(data))
    return measure(folder, run)


def test_the_senders_own_side_counts_and_not_what_the_path_made_of_it(tmp_path: Path) -> None:
    # The server tests with ten and stops; the client marks with ECT(1) to its end.
    measured = _measured(tmp_path, [ECT_0] * 10, [ECT_1] * 1000)
    values = {item.name: item.value for item in measured.measurements if item.name.startswith(("ect", "ecn"))}
    assert values["ect_share_to_client"] == pytest.approx(10 / 402)
    assert values["ect_share_to_server"] == 1
    assert (values["ect1_share_to_client"], values["ect1_share_to_server"]) == (0, 1)
    assert values["ecn_stop_datagrams_to_client"] == 10
    # Two packets of the handshake, the first after 50.1 ms, and eight of data from 155 ms on, at 80 % of 10 Mbit/s.
    assert values["ecn_stop_time_to_client"] == pytest.approx(0.155 - 0.0501 + 7 * 1294 * 8 / 8e6)
    assert not {"ecn_stop_datagrams_to_server", "ecn_stop_time_to_server"} & set(values)


def test_a_sender_without_ecn_has_a_share_of_none_and_nothing_else(tmp_path: Path) -> None:
    measured = _measured(tmp_path, [], [])
    values = {item.name: item.value for item in measured.measurements if item.name.startswith(("ect", "ecn"))}
    assert values == {"ect_share_to_client": 0, "ect_share_to_server": 0}


def _acked(*counts: int, kind: int = 3) -> bytes:
    """An ACK frame of packet 9, with these counts."""
    return b"".join(map(integer, (kind, 9, 0, 0, 9, *counts)))


def test_counts_are_the_last_that_were_read_of_packets_with_acknowledgements() -> None:
    # The newest counts come first; one packet has an ACK frame without counts, one has none, one is cut off before them.
    packets = opened(
        (1, _acked(7, 0, 2)), (2, _acked(5, 1, 1)), (3, _acked(kind=2)), (4, b"\x01"), (5, b"\x01" * 34 + _acked(9, 9, 9)),
    )  # fmt: skip
    assert acknowledgements([packets]) == (4, 3, [(7, 0, 2), (5, 1, 1)])


def test_counts_behind_a_frame_that_was_cut_off_are_not_made_up() -> None:
    whole = _acked(300, 0, 16384)
    assert read_frames(whole, len(whole)).ecn_counts == (300, 0, 16384)
    for captured in range(len(whole)):
        assert read_frames(whole[:captured], len(whole)).ecn_counts is None
