"""Times of a transfer: completion, milestones, first byte, handshake; and the goodput that follows.

Zero is the client's first datagram at the simulator's client side (left capture); what arrives is judged by
the client's file, so it holds for every implementation alike. A moment is the middle of the two samples of the
file's size around it (10 ms apart as a rule), and there is no interpolation over more than that.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.metrics.registry import Caution, Finding, metric
from harness.metrics.view import RunView, Window
from harness.outcome import Measurement
from harness.traces.growth import Growth, Moment, growth_of

#: Two samples further apart than this bracket a moment too loosely to pass without a word, ns.
WIDE = 20_000_000
#: A milestone that is known less precisely than this part of its value is left out.
ROUGH = 0.1
#: A file larger than this multiple of the payload that had come over the wire was sized in advance.
_AHEAD = 1.1


@metric
def completion(view: RunView) -> Iterator[Finding]:
    """Yield completion (s): until the file had its full size; goodput (Mbit/s): file bits per second of it."""
    for window in view.windows:
        size = window.transfer.size
        if not window.has_file or not window.transfer.intact or window.transfer.received < size:
            continue
        growth = _growth(view, window)
        found = _moment(view, window, growth, size)
        if isinstance(found, Caution):
            yield Caution(f"{window.prefix}completion is left out: {found.text}")
            continue
        seconds, moment = found
        if moment.gap_ns > WIDE:
            yield Caution(f"{window.prefix}completion is known to ±{moment.gap_ns / 2e6:.0f} ms only")
        yield Measurement(
            name=f"{window.prefix}completion", value=seconds, unit="s", direction="lower", vantage="client file"
        )
        yield Measurement(
            name=f"{window.prefix}goodput", value=8 * size / seconds / 1e6, unit="Mbit/s", direction="higher",
            vantage="client file",
        )  # fmt: skip


@metric
def milestones(view: RunView) -> Iterator[Finding]:
    """milestone_2MB … (s): until the file had that much, for each milestone of the scenario that fits."""
    for window in view.windows:
        growth = _growth(view, window)
        if growth is None or not window.has_file:
            continue
        for milestone in view.run.cell.scenario.milestones:
            size = milestone.bytes
            if size > window.transfer.size or not (growth.size >= size).any():
                continue
            name = f"{window.prefix}milestone_{milestone.label()}"
            found = _moment(view, window, growth, size)
            if isinstance(found, Caution):
                yield Caution(f"{name} is left out: {found.text}")
                continue
            seconds, moment = found
            lumps = growth.typical_step * 8 / _rate(view) if size < window.transfer.size else 0.0
            doubt = max(moment.gap_ns / 1e9, lumps)
            if doubt > ROUGH * seconds:
                yield Caution(
                    f"{name} is left out: the client writes its file in lumps of {growth.typical_step / 1e6:.1f} MB "
                    f"and its size was sampled {moment.gap_ns / 1e6:.0f} ms apart, so {seconds:.2f} s is not known "
                    f"to {ROUGH:.0%}"
                )
                continue
            if moment.gap_ns > WIDE:
                yield Caution(f"{name} is known to ±{moment.gap_ns / 2e6:.0f} ms only")
            yield Measurement(name=name, value=seconds, unit="s", direction="lower", vantage="client file")


@metric
def first_byte(view: RunView) -> Iterator[Finding]:
    """first_byte (s): until the file held the first byte of the response."""
    for window in view.windows:
        found = _moment(view, window, _growth(view, window), 1)
        if not isinstance(found, Caution):
            name = f"{window.prefix}first_byte"
            yield Measurement(name=name, value=found[0], unit="s", direction="lower", vantage="client file")


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


def _growth(view: RunView, window: Window) -> Growth | None:
    if view.growth is None:
        return None
    growth = growth_of(view.growth, window.transfer.flow, window.transfer.index)
    return growth if len(growth.t_ns) else None


def _moment(view: RunView, window: Window, growth: Growth | None, size: int) -> tuple[float, Moment] | Caution:
    """Seconds from time zero until the file had `size` bytes, or why that is not known."""
    if window.zero_ns is None:
        return Caution("no datagram of the client was captured")
    moment = None if growth is None else growth.reached(size, window.zero_ns)
    if moment is None:
        return Caution(f"the samples of the file's size end before {size} B")
    seconds = (moment.middle_ns - window.zero_ns) / 1e9
    if seconds <= 0:
        return Caution(f"the file had {size} B before the client's first datagram")
    arrived = _arrived(view, window, moment.before_ns)
    if arrived is not None and arrived * _AHEAD < size and view.capture_drops == 0:
        return Caution(f"the file had {size} B when {arrived} B had arrived: the client sizes it in advance")
    return seconds, moment


def _arrived(view: RunView, window: Window, until_ns: int) -> int | None:
    """Bytes of UDP payload that had reached the client's side; None without a whole capture."""
    if view.left is None or view.left.truncated:
        return None
    received = view.left.between(window.start_ns, until_ns + WIDE, window.transfer.flow, to_client=True)
    return int(received.payload.sum())


def _rate(view: RunView) -> int:
    """Rate towards the client at the start, bit/s."""
    return view.run.cell.scenario.path.to_client.rate.value
