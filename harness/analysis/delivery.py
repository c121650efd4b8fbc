"""When the receiver had the first bytes of a file: from its own file, or from the packets that carried them.

The receiver is the client, of an upload the server. Its file counts as long as its size shows it: it was sampled often,
and its growth steps are small against the time. If it grows in lumps, the file does not show whether the receiver
buffered data or waited for a lost packet. Then the packets of the capture at its side are used, decrypted or as TCP
segments (`analysis.arrival`). They give two moments between which all the bytes had arrived without a gap. Bytes in the
receiver's file had certainly arrived. The reported time is the middle of the two moments, as between two samples. There
is no figure only if neither source shows it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.analysis.arrival import BodyArrival, TlsArrival, body_arrival, header_bytes, in_order_arrival, tls_arrival
from harness.analysis.connection import TransferConnection
from harness.analysis.run_view import RunView, Unavailable
from harness.analysis.shared_flows import SharedFlow
from harness.analysis.timeseries.lifetimes import client_port, data_port
from harness.analysis.timeseries.network import AHEAD_FACTOR
from harness.capture.artefacts import TransferWindow
from harness.capture.connections import SentPackets
from harness.capture.counters import Growth, Moment, cumulative_increase, transfer_growth
from harness.capture.qlog_events import read_sent_streams
from harness.capture.streams import Bounds, StreamArrival, hidden_packets, stream_arrivals
from harness.formatting import format_count
from harness.planning.endpoint_config import application_protocol
from harness.scenario.parameters import Role

FILE: dict[Role, str] = {"client": "client file", "server": "server file"}
SEGMENTS: dict[Role, str] = {"client": "left capture", "server": "right capture"}
PACKETS: dict[Role, str] = {role: f"{capture}, decrypted" for role, capture in SEGMENTS.items()}
#: Two samples further apart than this bracket a moment so loosely that a caution is given, ns.
WIDE_GAP = 20_000_000
#: A moment whose uncertainty exceeds this share of its time is unknown.
MAX_UNCERTAINTY = 0.1


@dataclass(frozen=True)
class DeliveryTime:
    """A moment of a transfer."""

    seconds: float
    """Since the client's first datagram."""
    gap_ns: int
    """Time between the two known moments around it."""
    vantage: str


@dataclass(frozen=True)
class Delivery:
    """The delivery of one transfer's file to its receiver."""

    view: RunView
    window: TransferWindow

    @cached_property
    def growth(self) -> Growth | None:
        """Samples of the file's size; None if there are none."""
        if self.view.growth is None:
            return None
        growth = transfer_growth(self.view.growth, self.window.transfer.flow, self.window.transfer.index)
        return growth if len(growth.t_ns) else None

    def has(self, size: int) -> bool:
        """Whether its file is known to have reached `size` bytes."""
        return self.growth is not None and bool((self.growth.size >= size).any())

    @property
    def is_complete(self) -> bool:
        """Whether its receiver had all of it in the end, byte for byte."""
        return self.window.transfer.intact and self.window.transfer.received >= self.window.transfer.size

    @cached_property
    def _body(self) -> BodyArrival | TlsArrival | Unavailable:
        if self.window.over_tcp:
            return tls_arrival(self.view, self.window)
        return body_arrival(self.view, self.window)

    def time_of(self, size: int) -> DeliveryTime | Unavailable:
        """When the receiver had `size` bytes, or why that is unknown."""
        moment = self.file_time_of(size)
        zero_ns = self.window.zero_ns
        if zero_ns is None:
            return Unavailable("no datagram of the client was captured")
        reason = moment if isinstance(moment, Unavailable) else self._why_unknown(size, moment, zero_ns)
        if reason is None and isinstance(moment, Moment):
            return DeliveryTime((moment.middle_ns - zero_ns) / 1e9, moment.gap_ns, FILE[self.window.receiver])
        arrived = self._packet_time_of(size, moment if isinstance(moment, Moment) else None)
        if isinstance(arrived, Unavailable):
            return Unavailable(f"{reason.text if reason is not None else ''}; of its packets, {arrived.text}")
        seconds = (arrived.middle_ns - zero_ns) / 1e9
        if arrived.gap_ns / 1e9 > MAX_UNCERTAINTY * seconds:
            interval = f"{(arrived.after_ns - zero_ns) / 1e9:.2f} to {(arrived.before_ns - zero_ns) / 1e9:.2f} s"
            return Unavailable(f"{reason.text if reason is not None else ''}; its packets tell {interval}")
        vantages = SEGMENTS if self.window.over_tcp else PACKETS
        return DeliveryTime(seconds, arrived.gap_ns, vantages[self.window.receiver])

    def file_time_of(self, size: int) -> Moment | Unavailable:
        """When the file had `size` bytes, between two samples, or why the file does not show it."""
        zero_ns = self.window.zero_ns
        if zero_ns is None:
            return Unavailable("no datagram of the client was captured")
        moment = None if self.growth is None else self.growth.time_of(size, zero_ns)
        if moment is None:
            return Unavailable(f"the samples of the file's size end before {size} B")
        if moment.middle_ns <= zero_ns:
            return Unavailable(f"the file had {size} B before the client's first datagram")
        arrived = self._bytes_arrived(moment.before_ns)
        if arrived is not None and arrived * AHEAD_FACTOR < size and self.view.capture_drops == 0:
            reason = f"the {self.window.receiver} sizes it in advance"
            return Unavailable(f"the file had {size} B when {arrived} B had arrived: {reason}")
        return moment

    def _why_unknown(self, size: int, moment: Moment, zero_ns: int) -> Unavailable | None:
        """Why the file does not show a moment; None if it does. A complete file waits for nothing."""
        if size >= self.window.transfer.size or self.growth is None:
            return None
        seconds, step = (moment.middle_ns - zero_ns) / 1e9, self.growth.typical_step
        if max(moment.gap_ns / 1e9, step * 8 / self._rate) <= MAX_UNCERTAINTY * seconds:
            return None
        return Unavailable(
            f"the {self.window.receiver} writes its file in lumps of {step / 1e6:.1f} MB and its size was sampled "
            f"{moment.gap_ns / 1e6:.0f} ms apart, so {seconds:.2f} s is not known to {MAX_UNCERTAINTY:.0%}"
        )

    def _packet_time_of(self, size: int, file_moment: Moment | None) -> Moment | Unavailable:
        """When packets had delivered the first `size` bytes; no later than the file had them."""
        if isinstance(self._body, Unavailable):
            return self._body
        bounds = self._body.time_of(size)
        if bounds.earliest_ns is None:
            return Unavailable(f"less than {size} B came without a gap")
        dropped = self._dropped
        latest = None if dropped else bounds.latest_ns
        if file_moment is not None and file_moment.before_ns + WIDE_GAP >= bounds.earliest_ns:
            latest = min(file_moment.before_ns, latest or file_moment.before_ns)
        if latest is None and dropped:
            return Unavailable(f"the {self.window.receiver}'s full socket dropped {dropped} that had come")
        if latest is None:
            return Unavailable(f"frames that were not captured may hold some of the first {size} B")
        return Moment(min(bounds.earliest_ns, latest), latest)

    def _bytes_arrived(self, until_ns: int) -> int | None:
        """Bytes of UDP or TCP payload that had reached the receiver's side; None without a whole capture."""
        window = self.window
        capture = self.view.at_receiver(window)
        if capture is None or capture.truncated:
            return None
        down = window.receiver == "client"
        received = capture.between(window.start_ns, until_ns + WIDE_GAP, window.transfer.flow, to_client=down)
        return int(received.payload.sum())

    @property
    def _dropped(self) -> int:
        """Datagrams that arrived and did not fit into the receiver's socket buffer."""
        window = self.window
        if self.view.cpu is None:
            return 0
        container = f"{window.receiver}{window.transfer.flow}"
        return (
            cumulative_increase(self.view.cpu, container, "rcvbuf_errors", window.start_ns, window.transfer.ended_ns)
            or 0
        )

    @property
    def _rate(self) -> int:
        """Rate towards the receiver at the start, bit/s."""
        path = self.view.emulated_path
        return (path.to_client if self.window.receiver == "client" else path.to_server).rate.value


# --- When the files of a transfer with several files had arrived, from the left capture.
#
# Such files are not sampled one by one. Their packets are decrypted instead, like those of a single file
# (`analysis.arrival`). Each file is a response, or a request, on its own stream, in one connection or in several.


@dataclass(frozen=True)
class MultiFileDelivery:
    """The files of one transfer with several files."""

    view: RunView
    window: TransferWindow

    @property
    def is_complete(self) -> bool:
        """Whether the receiver had all of them in the end, byte for byte."""
        return self.window.transfer.intact

    def completion(self) -> DeliveryTime | Unavailable:
        """When the last of them had arrived, or why that is unknown."""
        if self.window.over_tcp:
            arrival = tls_arrival(self.view, self.window)
            bounds = arrival if isinstance(arrival, Unavailable) else arrival.time_of(self.window.transfer.size)
            return self._moment(bounds)
        streams = self._streams()
        return self._moment(
            streams if isinstance(streams, Unavailable) else _latest_bounds([stream.completion for stream in streams])
        )

    def first_byte(self) -> DeliveryTime | Unavailable:
        """When the first byte of any of them had arrived, or why that is unknown."""
        if self.window.over_tcp:
            return Unavailable("the first bytes of its files are encrypted, behind headers of unknown size")
        streams = self._streams()
        if isinstance(streams, Unavailable):
            return streams
        is_hq = application_protocol(self.view.run.cell, self.window.transfer.flow) == "hq-interop"
        first_bytes = [stream.time_of(1 + (0 if is_hq else header_bytes(stream.head))) for stream in streams]
        return self._moment(_earliest_bounds(first_bytes))

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
        if gap_ns / 1e9 > MAX_UNCERTAINTY * seconds:
            interval = " to ".join(f"{(at - zero_ns) / 1e9:.2f}" for at in (bounds.earliest_ns, bounds.latest_ns))
            return Unavailable(f"its packets tell {interval} s")
        return DeliveryTime(seconds, gap_ns, (SEGMENTS if self.window.over_tcp else PACKETS)[self.window.receiver])

    def _streams(self) -> list[StreamArrival] | Unavailable:
        """The arrivals on the streams with its files."""
        transfer, view = self.window.transfer, self.view
        if view.at_receiver(self.window) is None:
            return Unavailable(f"there is no capture at the {self.window.receiver}'s side")
        if view.capture_drops:
            return Unavailable(f"the captures missed {view.capture_drops} packets")
        if not view.secrets(transfer.flow):
            return Unavailable("neither endpoint wrote down its TLS secrets")
        connections = view.decrypted_packets(self.window, self.window.sender)
        # The same packet numbers mean other packets in a trace of another connection.
        answers = [stream for opened in connections for stream in self._answers(opened, logged=len(connections) == 1)]
        files = sum(files_group.count for files_group in self.window.flow.groups)
        if not answers:
            return Unavailable("the TLS secrets that were written down open no packet of the capture")
        if len(answers) < files:
            return Unavailable(
                f"the captured packets show data on {format_count(len(answers), 'stream')}, of {files} files"
            )
        return answers

    def _answers(self, opened: SentPackets, *, logged: bool) -> Iterator[StreamArrival]:
        """The arrival of each stream of a connection; `logged`: the sender's qlog describes what was not captured."""
        hidden = opened.packets.number[hidden_packets(opened)]
        trace = TransferConnection(self.view, self.window).trace(self.window.sender) if logged and len(hidden) else None
        sent = read_sent_streams(trace, set(hidden.tolist())) if trace is not None else None
        yield from stream_arrivals(opened, self.is_complete, sent).values()


def _latest_bounds(moments: list[Bounds]) -> Bounds:
    """When the last of several events had happened."""
    earliest, latest = ([getattr(bounds, side) for bounds in moments] for side in ("earliest_ns", "latest_ns"))
    return Bounds(None if None in earliest else max(earliest), None if None in latest else max(latest))


def _earliest_bounds(moments: list[Bounds]) -> Bounds:
    """When the first of several events had happened."""
    earliest, latest = (
        [at for bounds in moments if (at := getattr(bounds, side)) is not None] for side in ("earliest_ns", "latest_ns")
    )
    return Bounds(min(earliest, default=None), min(latest, default=None))


# --- Which parts of a stream have been received.


class ByteRanges:
    """The received parts of a stream: [start, end) each, disjoint and in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> bool:
        """Add a part. Whether some of it was not there before."""
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
# Time zero is the client's first segment of the data connection: the generator's control connection before it is not
# part of the transfer. The data connection's own handshake counts.


Ints = npt.NDArray[np.int64]
#: On each connection iperf3's client first sends a cookie of so many bytes that identifies the test (COOKIE_SIZE,
#: iperf.h).
IPERF_COOKIE = 37


@dataclass(frozen=True)
class TcpDelivery:
    """The received data of one TCP flow."""

    flow: SharedFlow

    def time_of(self, size: int) -> DeliveryTime | Unavailable:
        """When the first `size` bytes had arrived, or why that is unknown."""
        if isinstance(self._arrival, Unavailable):
            return self._arrival
        t_ns, in_order_bytes = self._arrival
        at = int(np.searchsorted(in_order_bytes, self._bytes_before + size))
        if at == len(in_order_bytes):
            return Unavailable(f"less than {size} B came without a gap")
        zero_ns = self.flow.lifetime.zero_ns + self.flow.lifetime.start_ns
        return DeliveryTime((int(t_ns[at]) - zero_ns) / 1e9, 0, self.flow.at_receiver)

    def has(self, size: int) -> bool:
        """Whether so many bytes are known to have arrived, or the number of bytes is unknown."""
        return isinstance(self._arrival, Unavailable) or bool((self._arrival[1] >= self._bytes_before + size).any())

    @property
    def _bytes_before(self) -> int:
        """Bytes of the stream before the first data byte."""
        return IPERF_COOKIE if self.flow.facts.sender == "client" else 0

    @property
    def is_complete(self) -> bool:
        """Whether its client exited by itself, which it does once all data have arrived."""
        return self.flow.complete

    @cached_property
    def _arrival(self) -> tuple[Ints, Ints] | Unavailable:
        """Times of arrival, and the bytes without a gap after each; both of shape (n,)."""
        if self.flow.view.capture_drops:
            return Unavailable(f"the captures missed {self.flow.view.capture_drops} packets")
        down = self.flow.facts.sender == "server"
        received = self.flow.lifetime.received
        received = received.select(client_port(received, down) == data_port(received, down))
        arrival = in_order_arrival(received)
        if arrival is None:
            return Unavailable("the first segment of the connection was not captured")
        return arrival.t_ns, arrival.contiguous
