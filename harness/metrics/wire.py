"""What a transfer cost on the wire: bytes and packets per direction, acknowledgements, 0-RTT."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.registry import Caution, Finding, metric
from harness.metrics.view import RunView, Window
from harness.outcome import Measurement
from harness.traces.capture import Capture
from harness.traces.quic import Form


def _sent(view: RunView, window: Window, to_client: bool) -> Capture | None:
    """The window's datagrams as they entered the simulator."""
    side = view.right if to_client else view.left
    if side is None:
        return None
    return side.between(window.start_ns, window.end_ns, window.transfer.flow, to_client)


@metric
def volume(view: RunView) -> Iterator[Finding]:
    """wire_to_client, wire_to_server (B): frames with their Ethernet header as they entered the simulator.

    packets_to_client, packets_to_server: how many datagrams, or segments of TCP, that were.
    """
    for window in view.windows:
        for direction, to_client, side in (("to_client", True, "right"), ("to_server", False, "left")):
            sent = _sent(view, window, to_client)
            if sent is None:
                continue
            vantage = f"{side} capture"
            name = f"{window.prefix}wire_{direction}"
            yield Measurement(name=name, value=float(sent.length.sum()), unit="B", direction="lower", vantage=vantage)
            name = f"{window.prefix}packets_{direction}"
            yield Measurement(name=name, value=len(sent), unit="1", direction="lower", vantage=vantage)


@metric
def acknowledgements(view: RunView) -> Iterator[Finding]:
    """ack_packets: the client's datagrams with a short header; in a download nearly all are acknowledgements.

    ack_ratio: the server's short-header datagrams per such datagram (RFC 9000 §13.2.2).
    """
    for window in view.windows:
        down, up = _sent(view, window, True), _sent(view, window, False)
        if window.flow.kind != "quic" or down is None or up is None:
            continue
        acks = int((up.form == Form.SHORT).sum())
        name = f"{window.prefix}ack_packets"
        yield Measurement(name=name, value=acks, unit="1", direction="lower", vantage="left capture")
        if acks:
            ratio = int((down.form == Form.SHORT).sum()) / acks
            name = f"{window.prefix}ack_ratio"
            yield Measurement(name=name, value=ratio, unit="1", vantage="both captures")


@metric
def zero_rtt(view: RunView) -> Iterator[Finding]:
    """repeat_zero_rtt (1 or 0): whether the client sent 0-RTT packets when it came back (RFC 9001 §4.6).

    A 0-RTT packet coalesced behind the Initial packet counts too, unless something follows the Initial packet
    of the first connection as well, which had no ticket: then it is padding.
    """
    for window in view.windows:
        if window.transfer.index == 0 or window.zero_ns is None:
            continue
        sent = _sent(view, window, False)
        if sent is None:
            continue
        plain = bool((sent.form == Form.ZERO_RTT).any())
        first = next((w for w in view.windows if w.transfer.flow == window.transfer.flow), window)
        behind = _behind_initial(view, window) and not _behind_initial(view, first)
        name = f"{window.prefix}zero_rtt"
        yield Measurement(name=name, value=float(plain or behind), unit="1", direction="higher", vantage="left capture")


def _behind_initial(view: RunView, window: Window) -> bool:
    """Whether something follows an Initial packet in the client's flight before the server's first answer."""
    if view.left is None:
        return False
    sent = view.left.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=False)
    answers = view.left.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=True)
    flight = sent.t_ns < answers.t_ns[0] if len(answers) else sent.t_ns >= 0
    return bool(sent.after_initial[flight].any())


@metric
def cut_short(view: RunView) -> Iterator[Finding]:
    """No figure, only a caution: a capture that was cut short undercounts."""
    for side, capture in (("left", view.left), ("right", view.right)):
        if capture is not None and capture.truncated:
            yield Caution(f"the {side} capture ends inside a packet: counts from it are lower bounds")
