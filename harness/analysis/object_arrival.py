"""When the files of a transfer that has several had arrived, from the left capture.

Nobody samples such files one by one. Their packets tell instead, decrypted as those of a single file are
(`analysis.arrival`): each file is the server's answer on a stream of its own, in one connection or in several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.analysis.arrival import headers_before
from harness.analysis.connection import Connection
from harness.analysis.delivery import PACKETS, ROUGH, SEGMENTS, Reached
from harness.analysis.missing import Unknown
from harness.analysis.run_view import RunView
from harness.analysis.tls_arrival import tls_arrival
from harness.capture.artefacts import Window
from harness.capture.connections import Opened
from harness.capture.qlog_events import sent_streams
from harness.capture.streams import Bounds, StreamArrival, hidden_packets, stream_arrivals
from harness.formatting import counted
from harness.planning.endpoint_config import application_protocol


@dataclass(frozen=True)
class Objects:
    """The files of one transfer that has several."""

    view: RunView
    window: Window

    @property
    def whole(self) -> bool:
        """Whether the client had all of them in the end, byte for byte."""
        return self.window.transfer.intact

    def completed(self) -> Reached | Unknown:
        """When the last of them had come, or why that is not known."""
        if self.window.over_tcp:
            found = tls_arrival(self.view, self.window)
            bounds = found if isinstance(found, Unknown) else found.reached(self.window.transfer.size)
            return self._moment(bounds)
        streams = self._streams()
        return self._moment(streams if isinstance(streams, Unknown) else _last([one.ended for one in streams]))

    def first_byte(self) -> Reached | Unknown:
        """When the first byte of any of them had come, or why that is not known."""
        if self.window.over_tcp:
            return Unknown("the first bytes of its files are encrypted, behind headers of unknown size")
        streams = self._streams()
        if isinstance(streams, Unknown):
            return streams
        plain = application_protocol(self.view.run.cell, self.window.transfer.flow) == "hq-interop"
        began = [one.reached(1 + (0 if plain else headers_before(one.head))) for one in streams]
        return self._moment(_first(began))

    def _moment(self, bounds: Bounds | Unknown) -> Reached | Unknown:
        zero_ns = self.window.zero_ns
        if zero_ns is None:
            return Unknown("no datagram of the client was captured")
        if isinstance(bounds, Unknown):
            return bounds
        if bounds.earliest_ns is None:
            return Unknown("what was captured of its packets does not tell")
        if bounds.latest_ns is None:
            return Unknown("frames that were not captured may hold some of its files")
        seconds = ((bounds.earliest_ns + bounds.latest_ns) / 2 - zero_ns) / 1e9
        gap_ns = bounds.latest_ns - bounds.earliest_ns
        if gap_ns / 1e9 > ROUGH * seconds:
            known = " to ".join(f"{(at - zero_ns) / 1e9:.2f}" for at in (bounds.earliest_ns, bounds.latest_ns))
            return Unknown(f"its packets tell {known} s")
        return Reached(seconds, gap_ns, SEGMENTS if self.window.over_tcp else PACKETS)

    def _streams(self) -> list[StreamArrival] | Unknown:
        """What came on the streams that answer its requests."""
        transfer, view = self.window.transfer, self.view
        if view.left is None:
            return Unknown("there is no capture at the client's side")
        if view.capture_drops:
            return Unknown(f"the captures missed {view.capture_drops} packets")
        if not view.secrets(transfer.flow):
            return Unknown("neither endpoint wrote down its TLS secrets")
        connections = view.opened(self.window, "server")
        # A trace of another connection has other packets by the same numbers.
        found = [one for opened in connections for one in self._answers(opened, told=len(connections) == 1)]
        files = sum(one.count for one in self.window.flow.files)
        if not found:
            return Unknown("the TLS secrets that were written down open no packet of the capture")
        if len(found) < files:
            return Unknown(f"the captured packets show answers on {counted(len(found), 'stream')}, of {files} files")
        return found

    def _answers(self, opened: Opened, *, told: bool) -> Iterator[StreamArrival]:
        """What came on each stream of a connection; `told`: the server's qlog says what was not captured of it."""
        hidden = opened.packets.number[hidden_packets(opened)]
        trace = Connection(self.view, self.window).trace("server") if told and len(hidden) else None
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
