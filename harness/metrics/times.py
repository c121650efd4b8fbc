"""Times of a transfer: completion, milestones, first byte, handshake; and the goodput that follows.

Zero is the client's first datagram at the simulator's client side (left capture). What arrives is judged by the
client's file, so it holds for every implementation alike, and by decrypted packets where the file does not tell
(`metrics.delivery`). A moment is the middle of the two samples of the file's size around it (10 ms apart as a rule),
and there is no interpolation over more than that.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.metrics.delivery import FILE, WIDE, Delivery, Reached
from harness.metrics.registry import Caution, Finding, metric
from harness.metrics.view import RunView
from harness.outcome import Measurement


@metric
def completion(view: RunView) -> Iterator[Finding]:
    """Yield completion (s): until the file had its full size; goodput (Mbit/s): file bits per second of it."""
    for window in view.windows:
        size = window.transfer.size
        if not window.has_file or not window.transfer.intact or window.transfer.received < size:
            continue
        found = Delivery(view, window).reached(size)
        yield from _told(f"{window.prefix}completion", found)
        if isinstance(found, Reached):
            yield Measurement(
                name=f"{window.prefix}goodput", value=8 * size / found.seconds / 1e6, unit="Mbit/s",
                direction="higher", vantage=found.vantage,
            )  # fmt: skip


@metric
def milestones(view: RunView) -> Iterator[Finding]:
    """milestone_2MB … (s): until the client had that much, for each milestone of the scenario that fits."""
    for window in view.windows:
        delivery = Delivery(view, window)
        if delivery.growth is None or not window.has_file:
            continue
        for milestone in view.run.cell.scenario.milestones:
            size = milestone.bytes
            if size <= window.transfer.size and (delivery.growth.size >= size).any():
                yield from _told(f"{window.prefix}milestone_{milestone.label()}", delivery.reached(size))


def _told(name: str, found: Reached | Caution) -> Iterator[Finding]:
    """A time as a measurement, with a word where it is known loosely; or why it is left out."""
    if isinstance(found, Caution):
        yield Caution(f"{name} is left out: {found.text}")
        return
    if found.gap_ns > WIDE:
        yield Caution(f"{name} is known to ±{found.gap_ns / 2e6:.0f} ms only")
    yield Measurement(name=name, value=found.seconds, unit="s", direction="lower", vantage=found.vantage)


@metric
def first_byte(view: RunView) -> Iterator[Finding]:
    """first_byte (s): until the file held the first byte of the response."""
    for window in view.windows:
        found = Delivery(view, window).written(1)
        if not isinstance(found, Caution) and window.zero_ns is not None:
            seconds = (found.middle_ns - window.zero_ns) / 1e9
            name = f"{window.prefix}first_byte"
            yield Measurement(name=name, value=seconds, unit="s", direction="lower", vantage=FILE)


@metric
def handshake(view: RunView) -> Iterator[Finding]:
    """Yield handshake (s): until the client's first visible 1-RTT packet.

    A client may send 1-RTT packets once it has the server's Finished (RFC 9001 §5.7, §4.1.1), and all but the
    laziest do at once: the request or an acknowledgement. It is what an observer can see of the handshake's
    end at the client. A 1-RTT packet coalesced behind a Handshake packet counts (RFC 9000 §12.2); one behind
    Initial and Handshake packets is beyond what the capture keeps, and then the client's next packet counts.
    """
    if view.left is None:
        return
    for window in view.windows:
        if window.zero_ns is None:
            continue
        sent = view.left.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=False)
        protected = np.flatnonzero(sent.one_rtt)
        if len(protected):
            seconds = (int(sent.t_ns[protected[0]]) - window.zero_ns) / 1e9
            name = f"{window.prefix}handshake"
            yield Measurement(name=name, value=seconds, unit="s", direction="lower", vantage="left capture")
