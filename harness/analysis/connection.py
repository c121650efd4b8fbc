"""One connection of a run: the packets that both endpoints sent and received, and their traces."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.analysis.run_view import RunView
from harness.analysis.timeseries.sender import traces_of
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import Capture
from harness.capture.qlog_parameters import LoggedSettings, read_settings
from harness.capture.quic.invariants import Form
from harness.scenario.parameters import ROLES, Role

#: A datagram with at least this payload was full: its size was limited by the path, not by the amount of data. Bytes.
FULL_PAYLOAD = 1000
#: Datagrams closer together than this arrive or leave together, ns.
BURST_GAP = 50_000
#: Share of the path's RTT that counts as the first round trip: no acknowledgement returns earlier.
ROUND_SHARE = 0.98
#: A datagram size is the stack's own, and not that of a probe, if it carries at least this share of a flight's bytes.
_COMMON_SHARE = 0.2


@dataclass(frozen=True)
class Flight:
    """The packets that the sender sent in the first round trip of its data, at its own side."""

    sent: Capture
    size: int
    """Payload of its full datagrams: the largest size that is common among them."""
    bytes_before: int
    """UDP payload that it sent earlier, in the handshake."""
    bytes_after: int
    """UDP payload that it sent later."""
    next_round: Capture
    """The packets that it sent in the next round trip."""


@dataclass(frozen=True)
class TransferConnection:
    """One transfer's connection. A capture or trace that is missing is None."""

    view: RunView
    window: TransferWindow

    def name(self, role: Role) -> str:
        """The implementation."""
        return self.view.run.cell.implementation(role).name

    @cached_property
    def rtt_ns(self) -> int | None:
        """The shortest round trip that the path was configured for."""
        return None if self.view.lab is None else self.view.lab.links.rtt_ns

    def sent(self, role: Role) -> Capture | None:
        """The datagrams an endpoint sent, at its own side."""
        return self._at_client[0] if role == "client" else self._at_server[0]

    def received(self, role: Role) -> Capture | None:
        """The datagrams that reached an endpoint, at its own side."""
        return self._at_client[1] if role == "client" else self._at_server[1]

    @cached_property
    def _at_client(self) -> tuple[Capture | None, Capture | None]:
        return self._both_ways(self.view.left, sent_to_client=False)

    @cached_property
    def _at_server(self) -> tuple[Capture | None, Capture | None]:
        return self._both_ways(self.view.right, sent_to_client=True)

    def _both_ways(self, side: Capture | None, sent_to_client: bool) -> tuple[Capture | None, Capture | None]:
        if side is None:
            return None, None
        start, end, flow = self.window.start_ns, self.window.end_ns, self.window.transfer.flow
        return side.between(start, end, flow, sent_to_client), side.between(start, end, flow, not sent_to_client)

    def settings(self, role: Role) -> LoggedSettings | None:
        """The parameters that an endpoint's trace of this connection reports."""
        trace = self._traces[role]
        return None if trace is None else trace[1]

    def trace(self, role: Role) -> Path | None:
        """An endpoint's trace of this connection."""
        trace = self._traces[role]
        return None if trace is None else trace[0]

    @cached_property
    def _traces(self) -> dict[Role, tuple[Path, LoggedSettings] | None]:
        return {role: self._trace(role) for role in ROLES}

    def _trace(self, role: Role) -> tuple[Path, LoggedSettings] | None:
        """The largest trace of this connection."""
        rtt_ms = None if self.rtt_ns is None else self.rtt_ns / 1e6
        return next(((path, read_settings(path, rtt_ms)) for path in traces_of(self.view, self.window, role)), None)

    def behind_initial(self) -> int:
        """Datagrams that carry more than an Initial packet, in the client's flight before the server's first response.

        0-RTT packets are coalesced that way (RFC 9001 §4.6); in a connection without a ticket the rest is padding.
        """
        sent, answers = self.sent("client"), self.received("client")
        if sent is None or answers is None:
            return 0
        flight = sent.select(sent.t_ns < answers.t_ns[0]) if len(answers) else sent
        return int(flight.after_initial.sum())

    @cached_property
    def flight(self) -> Flight | None:
        """The sender's first round trip of data; None if it sent no full datagram, or the capture is missing.

        It begins with the sender's first 1-RTT packet at least a round trip after its first datagram. In a connection
        without early data no request arrives earlier, and the client's own first 1-RTT packet may be coalesced behind
        others.
        """
        sent = self.sent(self.window.sender)
        if sent is None or not len(sent) or not self.rtt_ns:
            return None
        answer = (sent.form == Form.SHORT) & (sent.t_ns >= sent.t_ns[0] + ROUND_SHARE * self.rtt_ns)
        full = answer & (sent.payload >= FULL_PAYLOAD)
        if not full.any():
            return None
        start, data = int(sent.t_ns[answer][0]), int(sent.t_ns[full][0])
        if data - start > self.rtt_ns / 2:  # the request came later, or a Retry packet before the handshake
            start = data
        inside = (sent.t_ns >= start) & (sent.t_ns < start + ROUND_SHARE * self.rtt_ns)
        flight = sent.select(inside)
        before, after = (int(sent.payload[part].sum()) for part in (sent.t_ns < start, (sent.t_ns >= start) & ~inside))
        end = int(start + ROUND_SHARE * self.rtt_ns)
        following = sent.select((sent.t_ns >= end) & (sent.t_ns < end + self.rtt_ns))
        return Flight(flight, common_size(flight), before, after, following)


def common_size(sent: Capture) -> int:
    """The largest size with a fair share of the bytes of the full datagrams; path MTU probes do not have such a
    share.
    """
    sizes, counts = np.unique(sent.payload[sent.payload >= FULL_PAYLOAD], return_counts=True)
    volume = sizes * counts
    common = sizes[volume >= _COMMON_SHARE * volume.sum()]
    return int(common[-1] if len(common) else sizes[volume.argmax()])
