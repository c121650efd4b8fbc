"""When the client had the first bytes of a response: from its file, or from the packets that brought them.

The client's file is what counts, as long as its size tells: it was sampled often, and grew in steps that are small
against the time. Where it grows in lumps the file does not say whether the client kept data back, or waited for a lost
packet. Then the packets of the left capture tell, decrypted (`analysis.arrival`), or as TCP's
segments (`analysis.arrival`): between which two moments all the
bytes had come without a gap; and what the client had in its file had certainly come. What is reported is the middle,
like that between two samples. Only where neither tells is there no figure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.analysis.arrival import BodyArrival, TlsArrival, body_arrival, headers_before, in_order, tls_arrival
from harness.analysis.connection import TransferConnection
from harness.analysis.run_view import RunView, Unavailable
from harness.analysis.shared_flows import SharedFlow
from harness.analysis.timeseries.lifetimes import client_port, data_port
from harness.analysis.timeseries.network import AHEAD
from harness.capture.artefacts import TransferWindow
from harness.capture.connections import SentPackets
from harness.capture.counters import Growth, Moment, growth_of, spent
from harness.capture.qlog_events import sent_streams
from harness.capture.streams import Bounds, StreamArrival, hidden_packets, stream_arrivals
from harness.formatting import counted
from harness.planning.endpoint_config import application_protocol

FILE, PACKETS, SEGMENTS = "client file", "left capture, decrypted", "left capture"
#: Two samples further apart than this bracket a moment too loosely to pass without a word, ns.
WIDE = 20_000_000
#: A moment that is known less precisely than this part of its time is not known.
ROUGH = 0.1


@dataclass(frozen=True)
class DeliveryTime:
    """A moment of a transfer."""

    seconds: float
    """Since the client's first datagram."""
    gap_ns: int
    """Between the two moments around it that are known."""
    vantage: str


@dataclass(frozen=True)
class Delivery:
    """One transfer's response, as the client got it."""

    view: RunView
    window: TransferWindow

    @cached_property
    def growth(self) -> Growth | None:
        """Samples of the file's size; None without any."""
        if self.view.growth is None:
            return None
        growth = growth_of(self.view.growth, self.window.transfer.flow, self.window.transfer.index)
        return growth if len(growth.t_ns) else None

    def has(self, size: int) -> bool:
        """Whether its file is known to have had `size` bytes."""
        return self.growth is not None and bool((self.growth.size >= size).any())

    @property
    def whole(self) -> bool:
        """Whether the client had all of it in the end, byte for byte."""
        return self.window.transfer.intact and self.window.transfer.received >= self.window.transfer.size

    @cached_property
    def _body(self) -> BodyArrival | TlsArrival | Unavailable:
        if self.window.over_tcp:
            return tls_arrival(self.view, self.window)
        return body_arrival(self.view, self.window)

    def reached(self, size: int) -> DeliveryTime | Unavailable:
        """When the client had `size` bytes, or why that is not known."""
        moment = self.written(size)
        zero_ns = self.window.zero_ns
        if zero_ns is None:
            return Unavailable("no datagram of the client was captured")
        doubt = moment if isinstance(moment, Unavailable) else self._doubt(size, moment, zero_ns)
        if doubt is None and isinstance(moment, Moment):
            return DeliveryTime((moment.middle_ns - zero_ns) / 1e9, moment.gap_ns, FILE)
        come = self._come(size, moment if isinstance(moment, Moment) else None)
        if isinstance(come, Unavailable):
            return Unavailable(f"{doubt.text if doubt is not None else ''}; of its packets, {come.text}")
        seconds = (come.middle_ns - zero_ns) / 1e9
        if come.gap_ns / 1e9 > ROUGH * seconds:
            known = f"{(come.after_ns - zero_ns) / 1e9:.2f} to {(come.before_ns - zero_ns) / 1e9:.2f} s"
            return Unavailable(f"{doubt.text if doubt is not None else ''}; its packets tell {known}")
        return DeliveryTime(seconds, come.gap_ns, SEGMENTS if self.window.over_tcp else PACKETS)

    def written(self, size: int) -> Moment | Unavailable:
        """When the file had `size` bytes, between two samples, or why it does not tell."""
        zero_ns = self.window.zero_ns
        if zero_ns is None:
            return Unavailable("no datagram of the client was captured")
        moment = None if self.growth is None else self.growth.reached(size, zero_ns)
        if moment is None:
            return Unavailable(f"the samples of the file's size end before {size} B")
        if moment.middle_ns <= zero_ns:
            return Unavailable(f"the file had {size} B before the client's first datagram")
        arrived = self._arrived(moment.before_ns)
        if arrived is not None and arrived * AHEAD < size and self.view.capture_drops == 0:
            return Unavailable(f"the file had {size} B when {arrived} B had arrived: the client sizes it in advance")
        return moment

    def _doubt(self, size: int, moment: Moment, zero_ns: int) -> Unavailable | None:
        """Why the file does not tell a moment; None where it does. What has come to its end waits for nothing."""
        if size >= self.window.transfer.size or self.growth is None:
            return None
        seconds, step = (moment.middle_ns - zero_ns) / 1e9, self.growth.typical_step
        if max(moment.gap_ns / 1e9, step * 8 / self._rate) <= ROUGH * seconds:
            return None
        return Unavailable(
            f"the client writes its file in lumps of {step / 1e6:.1f} MB and its size was sampled "
            f"{moment.gap_ns / 1e6:.0f} ms apart, so {seconds:.2f} s is not known to {ROUGH:.0%}"
        )

    def _come(self, size: int, written: Moment | None) -> Moment | Unavailable:
        """When packets had brought the first `size` bytes; no later than the file had them."""
        if isinstance(self._body, Unavailable):
            return self._body
        bounds = self._body.reached(size)
        if bounds.earliest_ns is None:
            return Unavailable(f"less than {size} B came without a gap")
        dropped = self._dropped
        latest = None if dropped else bounds.latest_ns
        if written is not None and written.before_ns + WIDE >= bounds.earliest_ns:
            latest = min(written.before_ns, latest or written.before_ns)
        if latest is None and dropped:
            return Unavailable(f"the client's full socket dropped {dropped} that had come")
        if latest is None:
            return Unavailable(f"frames that were not captured may hold some of the first {size} B")
        return Moment(min(bounds.earliest_ns, latest), latest)

    def _arrived(self, until_ns: int) -> int | None:
        """Bytes of payload of UDP or TCP that had reached the client's side; None without a whole capture."""
        left, window = self.view.left, self.window
        if left is None or left.truncated:
            return None
        received = left.between(window.start_ns, until_ns + WIDE, window.transfer.flow, to_client=True)
        return int(received.payload.sum())

    @property
    def _dropped(self) -> int:
        """Datagrams that came and did not fit into the client's socket buffer."""
        window = self.window
        if self.view.cpu is None:
            return 0
        container = f"client{window.transfer.flow}"
        return spent(self.view.cpu, container, "rcvbuf_errors", window.start_ns, window.transfer.ended_ns) or 0

    @property
    def _rate(self) -> int:
        """Rate towards the client at the start, bit/s."""
        return self.view.emulated.to_client.rate.value


# --- When the files of a transfer that has several had arrived, from the left capture.
#
# Nobody samples such files one by one. Their packets tell instead, decrypted as those of a single file are
# (`analysis.arrival`): each file is the server's answer on a stream of its own, in one connection or in several.


@dataclass(frozen=True)
class Objects:
    """The files of one transfer that has several."""

    view: RunView
    window: TransferWindow

    @property
    def whole(self) -> bool:
        """Whether the client had all of them in the end, byte for byte."""
        return self.window.transfer.intact

    def completed(self) -> DeliveryTime | Unavailable:
        """When the last of them had come, or why that is not known."""
        if self.window.over_tcp:
            found = tls_arrival(self.view, self.window)
            bounds = found if isinstance(found, Unavailable) else found.reached(self.window.transfer.size)
            return self._moment(bounds)
        streams = self._streams()
        return self._moment(streams if isinstance(streams, Unavailable) else _last([one.ended for one in streams]))

    def first_byte(self) -> DeliveryTime | Unavailable:
        """When the first byte of any of them had come, or why that is not known."""
        if self.window.over_tcp:
            return Unavailable("the first bytes of its files are encrypted, behind headers of unknown size")
        streams = self._streams()
        if isinstance(streams, Unavailable):
            return streams
        plain = application_protocol(self.view.run.cell, self.window.transfer.flow) == "hq-interop"
        began = [one.reached(1 + (0 if plain else headers_before(one.head))) for one in streams]
        return self._moment(_first(began))

    def _moment(self, bounds: Bounds | Unavailable) -> DeliveryTime | Unavailable:
        zero_ns = self.window.zero_ns
        if zero_ns is None:
            return Unavailable("no datagram of the client was captured")
        if isinstance(bounds, Unavailable):
            return bounds
        if bounds.earliest_ns is None:
            return Unavailable("what was captured of its packets does not tell")
        if bounds.latest_ns is None:
            return Unavailable("frames that were not captured may hold some of its files")
        seconds = ((bounds.earliest_ns + bounds.latest_ns) / 2 - zero_ns) / 1e9
        gap_ns = bounds.latest_ns - bounds.earliest_ns
        if gap_ns / 1e9 > ROUGH * seconds:
            known = " to ".join(f"{(at - zero_ns) / 1e9:.2f}" for at in (bounds.earliest_ns, bounds.latest_ns))
            return Unavailable(f"its packets tell {known} s")
        return DeliveryTime(seconds, gap_ns, SEGMENTS if self.window.over_tcp else PACKETS)

    def _streams(self) -> list[StreamArrival] | Unavailable:
        """What came on the streams that answer its requests."""
        transfer, view = self.window.transfer, self.view
        if view.left is None:
            return Unavailable("there is no capture at the client's side")
        if view.capture_drops:
            return Unavailable(f"the captures missed {view.capture_drops} packets")
        if not view.secrets(transfer.flow):
            return Unavailable("neither endpoint wrote down its TLS secrets")
        connections = view.opened(self.window, "server")
        # A trace of another connection has other packets by the same numbers.
        found = [one for opened in connections for one in self._answers(opened, told=len(connections) == 1)]
        files = sum(one.count for one in self.window.flow.files)
        if not found:
            return Unavailable("the TLS secrets that were written down open no packet of the capture")
        if len(found) < files:
            return Unavailable(
                f"the captured packets show answers on {counted(len(found), 'stream')}, of {files} files"
            )
        return found

    def _answers(self, opened: SentPackets, *, told: bool) -> Iterator[StreamArrival]:
        """What came on each stream of a connection; `told`: the server's qlog says what was not captured of it."""
        hidden = opened.packets.number[hidden_packets(opened)]
        trace = TransferConnection(self.view, self.window).trace("server") if told and len(hidden) else None
        sent = sent_streams(trace, set(hidden.tolist())) if trace is not None else None
        yield from stream_arrivals(opened, self.whole, sent).values()


def _last(moments: list[Bounds]) -> Bounds:
    """When the last of several things had happened."""
    earliest, latest = ([getattr(one, side) for one in moments] for side in ("earliest_ns", "latest_ns"))
    return Bounds(None if None in earliest else max(earliest), None if None in latest else max(latest))


def _first(moments: list[Bounds]) -> Bounds:
    """When the first of several things had happened."""
    earliest, latest = (
        [at for one in moments if (at := getattr(one, side)) is not None] for side in ("earliest_ns", "latest_ns")
    )
    return Bounds(min(earliest, default=None), min(latest, default=None))


# --- Which parts of a stream are there.


class ByteRanges:
    """The parts of a stream that are there: [start, end) each, apart from each other and in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> bool:
        """Whether some of a part was not there before."""
        first = bisect_left(self._ends, start)
        last = first
        while last < len(self._starts) and self._starts[last] <= end:
            last += 1
        if last - first == 1 and self._starts[first] <= start and end <= self._ends[first]:
            return False
        if last > first:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]
        return True

    def has(self, start: int, end: int) -> bool:
        """Whether all of a part is there."""
        at = bisect_left(self._ends, end)
        return at < len(self._starts) and self._starts[at] <= start


# --- When the first bytes of a TCP flow had arrived without a gap, from the segments at its receiver's side.
#
# Time zero is the client's first segment of the connection that has the data: what the generator arranges on another
# one before is not what TCP takes. The connection's own handshake counts.


Ints = npt.NDArray[np.int64]
#: iperf3's client says first on each connection of whose test it is, in so many bytes (COOKIE_SIZE, iperf.h).
COOKIE = 37


@dataclass(frozen=True)
class Segments:
    """The data of one TCP flow, as it came."""

    flow: SharedFlow

    def reached(self, size: int) -> DeliveryTime | Unavailable:
        """When the first `size` bytes had come, or why that is not known."""
        if isinstance(self._arrival, Unavailable):
            return self._arrival
        t_ns, come = self._arrival
        at = int(np.searchsorted(come, self._before + size))
        if at == len(come):
            return Unavailable(f"less than {size} B came without a gap")
        zero_ns = self.flow.lifetime.zero_ns + self.flow.lifetime.start_ns
        return DeliveryTime((int(t_ns[at]) - zero_ns) / 1e9, 0, self.flow.at_receiver)

    def has(self, size: int) -> bool:
        """Whether so much is known to have come, or nobody knows how much has."""
        return isinstance(self._arrival, Unavailable) or bool((self._arrival[1] >= self._before + size).any())

    @property
    def _before(self) -> int:
        """Bytes of the stream before the first of the data."""
        return COOKIE if self.flow.facts.sender == "client" else 0

    @property
    def whole(self) -> bool:
        """Whether its client came to its end, which it does once all has come."""
        return self.flow.complete

    @cached_property
    def _arrival(self) -> tuple[Ints, Ints] | Unavailable:
        """Times of arrival, and the bytes without a gap after each; both of shape (n,)."""
        if self.flow.view.capture_drops:
            return Unavailable(f"the captures missed {self.flow.view.capture_drops} packets")
        down = self.flow.facts.sender == "server"
        received = self.flow.lifetime.received
        received = received.where(client_port(received, down) == data_port(received, down))
        found = in_order(received)
        if found is None:
            return Unavailable("the first segment of the connection was not captured")
        return found.t_ns, found.come
