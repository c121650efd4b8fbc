"""What a transfer cost on the wire: bytes and packets per direction, acknowledgements, 0-RTT."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.connection import TransferConnection
from harness.analysis.delivery import SEGMENTS
from harness.analysis.metric_registry import Caution, Finding, declare, measures
from harness.analysis.metrics.kinds import transfer_measurement
from harness.analysis.run_view import RunView
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import SYN, Capture
from harness.capture.quic.invariants import Form
from harness.outcome import Absence, MeasuredRun
from harness.scenario.parameters import Role

WIRE = {
    to: declare(
        f"wire_{to}",
        layer="flow",
        unit="B",
        better="lower",
        title=f"bytes of the frames {to.replace('_', ' ')}, with their Ethernet header, as they entered the simulator",
        formula="Σ length",
        source=f"{side} capture",
    )
    for to, side in (("to_client", "right"), ("to_server", "left"))
}
PACKETS = {
    to: declare(
        f"packets_{to}",
        layer="flow",
        unit="packets",
        better="lower",
        title=f"datagrams, or segments of TCP, {to.replace('_', ' ')}, as they entered the simulator",
        formula="count",
        source=f"{side} capture",
    )
    for to, side in (("to_client", "right"), ("to_server", "left"))
}
ACK_PACKETS = declare(
    "ack_packets",
    layer="flow",
    unit="packets",
    better="lower",
    title="the client's datagrams with a short header, of HTTPS its segments behind the SYN; in a download nearly all "
    "are acknowledgements",
    formula="count",
    source="left capture",
)
ACK_RATIO = declare(
    "ack_ratio",
    layer="flow",
    unit="1",
    better="neutral",
    title="the server's datagrams with a short header, of HTTPS its segments with data, per such one of the client's",
    formula="count / ack_packets",
    source="both captures; RFC 9000 §13.2.2",
)
ZERO_RTT = declare(
    "zero_rtt",
    layer="flow",
    unit="1",
    better="higher",
    title="whether the client sent 0-RTT packets when it came back, 1 or 0",
    formula="1 where it did",
    source="left capture; RFC 9001 §4.6",
)
#: From this many times the datagrams on that its bytes need, a sender gets a caution: what is above is quiche's server,
#: and hardly any other (docs/limits.md has the distribution over the stored runs).
EXCESS = 1.5
#: Bytes of a transfer from which on its handshake and its end hardly count.
_BULK = 1_000_000
#: Datagrams that the caution counts as small, bytes of UDP payload.
_SMALL = 200
#: Headers of Ethernet, IP of either version, and UDP, bytes.
_HEADERS_4, _HEADERS_6 = 14 + 20 + 8, 14 + 40 + 8


def _sent(view: RunView, window: TransferWindow, to_client: bool) -> Capture | None:
    """The window's datagrams as they entered the simulator."""
    side = view.right if to_client else view.left
    if side is None:
        return None
    return side.between(window.start_ns, window.end_ns, window.transfer.flow, to_client)


@measures
def volume(view: RunView) -> Iterator[Finding]:
    """Yield bytes and packets of each direction."""
    for window in view.windows:
        for direction, to_client, side in (("to_client", True, "right"), ("to_server", False, "left")):
            sent = _sent(view, window, to_client)
            if sent is None:
                continue
            vantage = f"{side} capture"
            yield transfer_measurement(WIRE[direction], window, sent.length.sum(), vantage)
            yield transfer_measurement(PACKETS[direction], window, len(sent), vantage)


@measures
def acknowledgements(view: RunView) -> Iterator[Finding]:
    """Yield ack_packets and ack_ratio of what QUIC and HTTPS transfer."""
    for window in view.windows:
        down, up = _sent(view, window, True), _sent(view, window, False)
        if window.sender == "client":
            down, up = up, down
        if window.flow.kind != "quic" or down is None or up is None:
            continue
        if window.over_tcp:
            acks, data = int((up.flags & SYN == 0).sum()), int((down.payload > 0).sum())
        else:
            acks, data = (int((side.form == Form.SHORT).sum()) for side in (up, down))
        yield transfer_measurement(ACK_PACKETS, window, acks, SEGMENTS[window.receiver])
        if acks:
            yield transfer_measurement(ACK_RATIO, window, data / acks, "both captures")


@measures
def zero_rtt(view: RunView) -> Iterator[Finding]:
    """Yield zero_rtt of repeats.

    A 0-RTT packet coalesced behind the Initial packet counts too. It does not if something follows the Initial packet
    of the first connection as well, which had no ticket: then it is padding.
    """
    for window in view.windows:
        if window.transfer.index == 0 or window.zero_ns is None:
            continue
        sent = _sent(view, window, False)
        if sent is None:
            continue
        if window.over_tcp:
            why = "TLS over TCP does not show which of a client's records are early data"
            yield Absence(metric=ZERO_RTT.name, flows=(window.transfer.flow,), transfer=window.name, why=why)
            continue
        plain = bool((sent.form == Form.ZERO_RTT).any())
        first = next(
            (candidate for candidate in view.windows if candidate.transfer.flow == window.transfer.flow), window
        )
        behind = (
            TransferConnection(view, window).behind_initial() and not TransferConnection(view, first).behind_initial()
        )
        yield transfer_measurement(ZERO_RTT, window, bool(plain or behind), "left capture")


def datagram_excess(count: int, total: int, largest: int) -> float:
    """How many times the datagrams were sent that the same bytes need in datagrams of the largest size."""
    return count * largest / total


@measures
def small_datagrams(view: RunView) -> Iterator[Finding]:
    """No figure, only a caution: a sender of a file used far more datagrams than its bytes need.

    In virtual time computing takes no time. A sender that packs what is ready at that moment then packs less.
    """
    for window in view.windows:
        if window.flow.kind != "quic" or window.over_tcp or window.flow.amount is None or window.flow.schedule:
            continue
        sent = _sent(view, window, window.sender == "server")
        total = 0 if sent is None else int(sent.payload.sum())
        if sent is None or total < _BULK:
            continue
        count, largest = len(sent), int(sent.payload.max())
        excess = datagram_excess(count, total, largest)
        if excess >= EXCESS:
            small = int((sent.payload < _SMALL).sum())
            yield Caution(
                f"flow {window.transfer.flow} ({window.name}): the {window.sender} sent {count:,} datagrams, "
                f"{excess:.1f} times as many as its bytes need in datagrams of {largest:,} B; {small:,} had less than "
                f"{_SMALL} B (docs/limits.md)"
            )


def stored_excess(measured: MeasuredRun, sender: Role, ip_version: int) -> float | None:
    """The excess of datagrams of the first transfer, from stored figures. None where they lack, or it is short."""
    direction = "to_client" if sender == "server" else "to_server"
    wire, packets = (measured.value(f"{name}_{direction}", 0, "first") for name in ("wire", "packets"))
    largest = next(
        (item.value for item in measured.observed if (item.role, item.parameter) == (sender, "max_udp_payload")), None
    )
    if wire is None or not packets or not isinstance(largest, float):
        return None
    total = wire - packets * (_HEADERS_4 if ip_version == 4 else _HEADERS_6)
    return datagram_excess(int(packets), int(total), int(largest)) if total >= _BULK else None


@measures
def truncated_captures(view: RunView) -> Iterator[Finding]:
    """No figure, only a caution: counts from a truncated capture are too low."""
    for side, capture in (("left", view.left), ("right", view.right)):
        if capture is not None and capture.truncated:
            yield Caution(f"the {side} capture ends inside a packet: counts from it are lower bounds")
