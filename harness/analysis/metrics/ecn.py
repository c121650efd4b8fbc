"""ECN in QUIC: who marks its datagrams, who counts the marks back, and who stops marking (RFC 9000 §13.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.connection import TransferConnection
from harness.analysis.direction import SIDES
from harness.analysis.metric_registry import Finding, Metric, declare, measures
from harness.analysis.metrics.kinds import transfer_measurement
from harness.analysis.run_view import RunView
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import ECT_0, ECT_1, Bytes, ecn
from harness.capture.connections import SentPackets
from harness.capture.quic.frames import ACK, ACK_ECN
from harness.outcome import Absence
from harness.scenario.parameters import Role, peer_role

Ints = npt.NDArray[np.int64]

#: A sender has stopped for good if so many of its datagrams follow the last ECN-capable one. A test of a path sends as
#: many ECN-capable ones (RFC 9000 §A.4); fewer may be a probe of the path's MTU, or the end of the connection. Where a
#: handshake does not come to its end there are few: then several are enough that go on for as long as a first probe
#: timeout, about 1 s (RFC 9002 §6.2.2).
STOPPED, SEVERAL, STOPPED_NS = 10, 2, 1_000_000_000

_SENDER: dict[str, Role] = {"to_client": "server", "to_server": "client"}
_SIDE: dict[Role, str] = {"client": "left capture", "server": "right capture"}
_COUNTS = "the receiver's ACK frames of 1-RTT packets in the left capture, decrypted; RFC 9000 §19.3.2"


def _declare_both(stem: str, *, unit: str, title: str, formula: str, source: str) -> dict[str, Metric]:
    """A metric of flows for each direction, by its name: in texts {to} stands for that, {words} for it in words, and
    {vantage} for the sender's side.
    """
    metrics = {}
    for to, sender in _SENDER.items():
        fields = {"to": to, "words": to.replace("_", " "), "vantage": _SIDE[sender]}
        metrics[to] = declare(
            f"{stem}_{to}",
            layer="flow",
            unit=unit,
            better="neutral",
            title=title.format(**fields),
            formula=formula.format(**fields),
            source=source.format(**fields),
        )
    return metrics


SHARE = _declare_both(
    "ect_share",
    unit="1",
    title="share of the datagrams {words} that their sender sent as ECN-capable",
    formula="(ECT(0) + ECT(1)) / datagrams, of flows over QUIC; 0 of a sender that does not use ECN",
    source="{vantage}, before any node on the way; RFC 3168 §5, RFC 9000 §13.4",
)
ECT_1_SHARE = _declare_both(
    "ect1_share",
    unit="1",
    title="share of ECT(1) among the ECN-capable datagrams {words}; the others are ECT(0)",
    formula="ECT(1) / (ECT(0) + ECT(1)); not there without ECN-capable datagrams",
    source="{vantage}; RFC 9331 §4.1",
)
STOP_DATAGRAMS = _declare_both(
    "ecn_stop_datagrams",
    unit="datagrams",
    title="ECN-capable datagrams {words} of a sender that stopped marking for good",
    formula=f"count, where {STOPPED} datagrams or more follow the last one, or {SEVERAL} or more for at least "
    f"{STOPPED_NS / 1e9:g} s; not there where the sender marks to the end, or never",
    source="{vantage}; RFC 9000 §13.4.2",
)
STOP_TIME = _declare_both(
    "ecn_stop_time",
    unit="s",
    title="from the first datagram {words} to the last ECN-capable one, of a sender that stopped marking for good",
    formula="t(last) - t(first); not there where ecn_stop_datagrams_{to} is not",
    source="{vantage}; RFC 9000 §13.4.2",
)
REPORTS = _declare_both(
    "ecn_ack_share",
    unit="1",
    title="share of the receiver's acknowledgements of packets {words} that have ECN counts",
    formula="packets with an ACK frame of type 0x03 / packets with an ACK frame",
    source=_COUNTS,
)
COUNTED = _declare_both(
    "ecn_counted",
    unit="packets",
    title="packets {words} that came ECN-capable or marked, as their receiver counts them last: what the sender's "
    "validation has to go by",
    formula="max of ECT(0) + ECT(1) + CE counts; 0 where no acknowledgement has counts",
    source=_COUNTS,
)
CE_COUNTED = _declare_both(
    "ce_counted",
    unit="packets",
    title="those of them that came with Congestion Experienced: packets {words}",
    formula="max of CE counts; 0 where no acknowledgement has counts",
    source=_COUNTS,
)


@dataclass(frozen=True)
class Marking:
    """How a sender marked its n datagrams."""

    ect_0: int
    """Datagrams with ECT(0)."""
    ect_1: int
    datagrams: int
    last: int
    """Place of the last ECN-capable one, from 0; -1 without one."""
    later_ns: int
    """From that one to the last datagram, ns; 0 without one."""

    @property
    def capable(self) -> int:
        """ECN-capable datagrams. CE of a sender's own, by which s2n-quic tests whether marks come through, is none."""
        return self.ect_0 + self.ect_1

    @property
    def has_stopped(self) -> bool:
        """Whether it marked, and sent enough datagrams afterwards that it did not mark."""
        behind = self.datagrams - 1 - self.last
        return self.last >= 0 and (behind >= STOPPED or (behind >= SEVERAL and self.later_ns >= STOPPED_NS))


def marking(t_ns: Ints, traffic_class: Bytes) -> Marking:
    """How a sender marked n datagrams, in order of time, by their bytes of DSCP and ECN; both of shape (n,)."""
    field = ecn(traffic_class)
    capable = np.flatnonzero((field == ECT_0) | (field == ECT_1))
    last = int(capable[-1]) if len(capable) else -1
    later_ns = int(t_ns[-1] - t_ns[last]) if len(capable) else 0
    return Marking(int((field == ECT_0).sum()), int((field == ECT_1).sum()), len(field), last, later_ns)


@measures
def ecn_marking(view: RunView) -> Iterator[Finding]:
    """Yield ect_share, ect1_share, ecn_stop_datagrams and ecn_stop_time of both directions of flows over QUIC."""
    for window in _windows(view):
        connection = TransferConnection(view, window)
        for to in SIDES:
            sent = connection.sent(_SENDER[to])
            if sent is None or not len(sent):
                continue
            marks, vantage = marking(sent.t_ns, sent.traffic_class), _SIDE[_SENDER[to]]
            yield transfer_measurement(SHARE[to], window, marks.capable / marks.datagrams, vantage)
            if marks.capable:
                yield transfer_measurement(ECT_1_SHARE[to], window, marks.ect_1 / marks.capable, vantage)
            if marks.has_stopped:
                seconds = int(sent.t_ns[marks.last] - sent.t_ns[0]) / 1e9
                yield transfer_measurement(STOP_DATAGRAMS[to], window, marks.capable, vantage)
                yield transfer_measurement(STOP_TIME[to], window, seconds, vantage)


@measures
def ecn_feedback(view: RunView) -> Iterator[Finding]:
    """Yield ecn_ack_share, ecn_counted and ce_counted of both directions of flows over QUIC."""
    for window in _windows(view):
        for to in SIDES:
            opened = view.decrypted_packets(window, peer_role(_SENDER[to]))
            if not opened:
                continue
            acks, with_counts, counts = acknowledgements(opened)
            vantage = "left capture, decrypted"
            if not acks:
                continue
            yield transfer_measurement(REPORTS[to], window, with_counts / acks, vantage)
            if with_counts and not counts:
                why = "the counts stand behind what was captured of the packets"
                flows = (window.transfer.flow,)
                for metric in (COUNTED[to], CE_COUNTED[to]):
                    yield Absence(metric=metric.name, flows=flows, transfer=window.name, why=why)
                continue
            # Counts never fall, and acknowledgements may overtake each other.
            counted, marked = max(map(sum, counts), default=0), max((ce for *_, ce in counts), default=0)
            yield transfer_measurement(COUNTED[to], window, counted, vantage)
            yield transfer_measurement(CE_COUNTED[to], window, marked, vantage)


def _windows(view: RunView) -> Iterator[TransferWindow]:
    """The transfers over QUIC."""
    return (window for window in view.windows if window.flow.kind == "quic" and not window.over_tcp)


def acknowledgements(opened: Sequence[SentPackets]) -> tuple[int, int, list[tuple[int, int, int]]]:
    """How many packets acknowledge, how many of them with ECN counts, and the counts that could be read."""
    acks = with_counts = 0
    counts = []
    for connection in opened:
        for frames in connection.frames:
            acks += ACK in frames.types or ACK_ECN in frames.types
            with_counts += ACK_ECN in frames.types
            if frames.ecn_counts is not None:
                counts.append(frames.ecn_counts)
    return acks, with_counts, counts
