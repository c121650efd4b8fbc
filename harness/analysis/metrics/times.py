"""Times of a transfer: completion, milestones, first byte, handshake; and the goodput that follows.

Zero is the client's first datagram at the simulator's client side (left capture). Arrival is judged by the client's
file, so it means the same for every implementation, and by decrypted packets if the file does not show it
(`analysis.delivery`). A moment is the middle of the two samples of the file's size around it (10 ms apart as a rule).
There is no interpolation over more than that. For TCP with a size its segments are used (`analysis.delivery`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.analysis.delivery import FILE, WIDE_GAP, Delivery, DeliveryTime, MultiFileDelivery, TcpDelivery
from harness.analysis.metric_registry import Caution, Finding, Metric, declare, measures
from harness.analysis.metrics.kinds import transfer_measurement
from harness.analysis.run_view import RunView, Unavailable
from harness.analysis.shared_flows import flows_of
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import Capture
from harness.outcome import Absence

_BY_FILE = "the client's file, sampled every 10 ms; decrypted packets of the left capture where it does not tell; "
_BY_FILE += "of TCP the segments at the receiver's side, from the first one of the connection that has the data"
COMPLETION = declare(
    "completion",
    layer="flow",
    unit="s",
    better="lower",
    title="time until all had come: the file had its full size",
    formula="moment - the client's first datagram",
    source=_BY_FILE + "; of several files the decrypted packets of all of them",
)
GOODPUT = declare(
    "goodput",
    layer="flow",
    unit="Mbit/s",
    better="higher",
    title="bits of the file per second of its completion",
    formula="8·size / completion",
    source="as completion; RFC 5166 §2.1.1",
)
MILESTONE = declare(
    "milestone_*",
    layer="flow",
    unit="s",
    better="lower",
    title="time until the client had that much of the file, for each milestone of the scenario that fits",
    formula="moment - the client's first datagram",
    source=_BY_FILE,
)
FIRST_BYTE = declare(
    "first_byte",
    layer="flow",
    unit="s",
    better="lower",
    title="time until the first byte of the data had come: of the response, where there is one",
    formula="moment - the client's first datagram",
    source="the client's file, sampled every 10 ms; of several files, and of TCP, as completion",
)
HANDSHAKE = declare(
    "handshake",
    layer="flow",
    unit="s",
    better="lower",
    title="time until the client's first visible 1-RTT packet, of HTTPS its first data behind the ClientHello",
    formula="moment - the client's first datagram",
    source="left capture; RFC 9001 §5.7, §4.1.1; RFC 8446 §2",
)


@measures
def completion(view: RunView) -> Iterator[Finding]:
    """Yield completion, and goodput, which follows from it."""
    for window, objects in _multi_file_transfers(view):
        if objects.is_complete:
            yield from _completion_findings(window, window.transfer.size, objects.completion())
    for window, size, delivery in _ending_transfers(view):
        if not delivery.is_complete:
            continue
        yield from _completion_findings(window, size, delivery.time_of(size))


def _completion_findings(window: TransferWindow, size: int, moment: DeliveryTime | Unavailable) -> Iterator[Finding]:
    yield from _time_findings(window, COMPLETION, moment)
    if isinstance(moment, DeliveryTime):
        yield transfer_measurement(GOODPUT, window, 8 * size / moment.seconds / 1e6, moment.vantage)


@measures
def milestones(view: RunView) -> Iterator[Finding]:
    """Yield milestone_2MB and so on."""
    for window, size, delivery in _ending_transfers(view):
        for milestone in view.run.cell.scenario.milestones:
            if milestone.bytes <= size and delivery.has(milestone.bytes):
                yield from _time_findings(window, MILESTONE, delivery.time_of(milestone.bytes), milestone.label())


def _ending_transfers(view: RunView) -> Iterator[tuple[TransferWindow, int, Delivery | TcpDelivery]]:
    """The transfers that end by themselves: window, size, and the source of its arrival times.

    A TCP flow without received data is left out.
    """
    flows = {flow.number: flow for flow in flows_of(view)}
    for window in view.windows:
        amount, flow = window.flow.amount, flows.get(window.transfer.flow)
        if window.has_file:
            yield window, window.transfer.size, Delivery(view, window)
        elif amount is not None and flow is not None:
            yield window, amount.bytes, TcpDelivery(flow)


def _multi_file_transfers(view: RunView) -> Iterator[tuple[TransferWindow, MultiFileDelivery]]:
    """The transfers of several files, and the source of their arrival times."""
    for window in view.windows:
        if window.flow.groups:
            yield window, MultiFileDelivery(view, window)


def _time_findings(
    window: TransferWindow, metric: Metric, moment: DeliveryTime | Unavailable, star: str = ""
) -> Iterator[Finding]:
    """A time as a measurement, with a caution if it is imprecise; or why it is absent."""
    name = metric.name.replace("*", star)
    if isinstance(moment, Unavailable):
        yield Absence(metric=name, flows=(window.transfer.flow,), transfer=window.name, why=moment.text)
        return
    if moment.gap_ns > WIDE_GAP:
        yield Caution(f"{window.describe(name)} is known to ±{moment.gap_ns / 2e6:.0f} ms only")
    yield transfer_measurement(metric, window, moment.seconds, moment.vantage, star)


@measures
def first_byte(view: RunView) -> Iterator[Finding]:
    """Yield first_byte."""
    for window in view.windows:
        file_moment = Delivery(view, window).file_time_of(1)
        if not isinstance(file_moment, Unavailable) and window.zero_ns is not None:
            yield transfer_measurement(
                FIRST_BYTE, window, (file_moment.middle_ns - window.zero_ns) / 1e9, FILE[window.receiver]
            )
    for window, objects in _multi_file_transfers(view):
        yield from _time_findings(window, FIRST_BYTE, objects.first_byte())
    for window, _, delivery in _ending_transfers(view):
        if isinstance(delivery, TcpDelivery) and isinstance(moment := delivery.time_of(1), DeliveryTime):
            yield transfer_measurement(FIRST_BYTE, window, moment.seconds, moment.vantage)


@measures
def handshake(view: RunView) -> Iterator[Finding]:
    """Yield handshake.

    A client may send 1-RTT packets once it has the server's Finished (RFC 9001 §5.7, §4.1.1). All but the laziest do so
    at once, with the request or an acknowledgement. It is the handshake's end at the client as an observer can see it.
    A 1-RTT packet coalesced behind a Handshake packet counts (RFC 9000 §12.2). One behind Initial and Handshake packets
    is beyond the captured bytes, and then the client's next packet counts. With TLS over TCP the client answers the
    server's first flight at once with its Finished, and the request follows.
    """
    if view.left is None:
        return
    for window in view.windows:
        if window.zero_ns is None:
            continue
        sent = view.left.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=False)
        if window.over_tcp and not window.has_file:
            continue
        protected = np.flatnonzero(_client_answers(view.left, window) if window.over_tcp else sent.one_rtt)
        if len(protected):
            yield transfer_measurement(
                HANDSHAKE, window, (int(sent.t_ns[protected[0]]) - window.zero_ns) / 1e9, "left capture"
            )


def _client_answers(left: Capture, window: TransferWindow) -> npt.NDArray[np.bool_]:
    """Which of a client's n segments, in order of time, have data and follow the server's first data, shape (n,)."""
    start, end, flow = window.start_ns, window.end_ns, window.transfer.flow
    sent, received = (left.between(start, end, flow, to_client) for to_client in (False, True))
    data_ns = received.t_ns[received.payload > 0]
    return (sent.payload > 0) & (len(data_ns) > 0 and sent.t_ns > data_ns[0])
