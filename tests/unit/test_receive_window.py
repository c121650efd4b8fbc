"""TCP's receive window as every segment of the receiver says it, and when a sender had used it up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.analysis.time_breakdown import rules
from harness.analysis.time_breakdown.inputs import receive_window
from harness.analysis.time_breakdown.partition import partition, state_durations
from harness.analysis.time_breakdown.rules import notes_of
from harness.analysis.time_breakdown.transfer import Credit
from harness.capture.capture import SYN, read_capture
from harness.capture.matching import match
from tests.unit.captures import T0, pcap
from tests.unit.shared_flows import Segment, segment_frame
from tests.unit.simulated_transfers import MS, SIZE, conversation
from tests.unit.test_tcp_info import FLOWS

#: Where both ends' numbers begin; the server's go round within its data.
CLIENT, SERVER = 1_000, 2**32 - 1_500
#: The window scale option with a shift of 7, and an end of options (RFC 7323 §2.2).
SCALE = bytes.fromhex("03030700")


def _credit(folder: Path, *, client: bytes, server: bytes) -> Credit | None:
    """Of a connection on a path without delay: the client's window is 20 as its header has it, then 10."""
    up = Segment(0, False, b"", 0, sequence=CLIENT + 1, acknowledgement=SERVER + 1, window=20)
    down = Segment(0, True, b"", 1_000, sequence=SERVER + 1, identification=1)
    packets = [
        Segment(0, False, b"", 0, sequence=CLIENT, flags=SYN, options=client, window=64_240),
        Segment(0, True, b"", 0, sequence=SERVER, flags=SYN | 0x10, options=server, window=65_160),
        up, down, replace(down, sequence=SERVER + 1_001, identification=2),
        replace(up, acknowledgement=(SERVER + 2_001) % 2**32, window=10),
    ]  # fmt: skip
    file = folder / "a.pcap"
    file.write_bytes(pcap((T0 + at * MS, segment_frame(segment), segment.length) for at, segment in enumerate(packets)))
    capture = read_capture(file, FLOWS)
    return receive_window(match(capture, capture, True), match(capture, capture, False), lambda t_ns: t_ns - T0)


def test_the_window_is_scaled_where_both_ends_say_so(tmp_path: Path) -> None:
    credit = _credit(tmp_path, client=SCALE, server=SCALE)
    assert credit is not None
    assert credit.granted_ns.tolist() == [2 * MS, 5 * MS]
    assert credit.limit.tolist() == [20 << 7, 2_000 + (10 << 7)]
    assert credit.used_ns.tolist() == [3 * MS, 4 * MS]
    assert credit.used.tolist() == [1_000, 2_000]


@pytest.mark.parametrize(("client", "server"), [(SCALE, b""), (b"", SCALE), (b"", b"")])
def test_the_window_is_not_scaled_where_an_end_does_not_say_so(tmp_path: Path, client: bytes, server: bytes) -> None:
    credit = _credit(tmp_path, client=client, server=server)
    assert credit is not None
    assert credit.limit.tolist() == [20, 2_010]


def test_a_connection_whose_opening_was_not_captured_has_no_credit(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    segment = Segment(0, True, b"", 1_000)
    file.write_bytes(pcap([(T0, segment_frame(segment), segment.length)]))
    capture = read_capture(file, FLOWS)
    assert receive_window(match(capture, capture, True), match(capture, capture, False), lambda t_ns: t_ns - T0) is None


def test_a_sender_that_has_used_up_the_window_waits_for_it_and_not_for_its_own() -> None:
    """TCP without a trace, as over HTTPS: it was taken for limited by its congestion window, or for idle."""
    windowed = conversation(credit=40, reports_window=False)
    assert windowed.credits is not None
    (credit,) = windowed.credits
    windowed = replace(windowed, credits=(replace(credit, name="receive window"),))
    seconds = {state: ns / 1e9 for state, ns in state_durations(*partition(windowed)).items()}
    assert seconds["flow_control"] > 2.5
    assert seconds.get("window_limited", 0) == seconds.get("buffer_limited", 0) == seconds.get("sender_idle", 0) == 0
    assert notes_of(windowed)["flow_control"] == f"receive window of {40 * SIZE / 1e3:.0f} kB"


def test_a_window_that_is_never_used_up_limits_nothing() -> None:
    windowed = conversation(threshold=50, reports_window=False)
    assert not len(rules.flow_control(windowed))
    assert np.isin("window_limited", list(state_durations(*partition(windowed))))
