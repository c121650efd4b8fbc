"""One move of a client as both sides of the paths saw it. All times are ns since the epoch.

The server identifies a client by an address and a port, as the server's side sees them (right capture). If a path
rewrites them, the client's own side does not show that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.analysis.connection import FULL_PAYLOAD
from harness.analysis.run_view import RunView
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import Capture, Ints
from harness.capture.connections import find_connections
from harness.capture.matching import MatchedPackets
from harness.capture.quic.invariants import Form
from harness.topology.lab_file import FlowAddresses
from harness.topology.spec import LabMove

Flags = npt.NDArray[np.bool_]

#: A datagram up to this long before the scheduled move may be its first: clocks are read after the event, ns.
CLOCK_SLACK_NS = 1_000_000
_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class WireMove:
    """One move of the client of a flow over QUIC."""

    view: RunView
    window: TransferWindow
    """Of the transfer that it came in, or of the last one before it."""
    facts: FlowAddresses
    move: LabMove
    number: int
    """From 1, in order of time."""
    zero_ns: int
    """The first datagram of the run."""
    until_ns: int
    """The next move, or the end of the transfer."""

    @property
    def scheduled_ns(self) -> int:
        """When the move was scheduled."""
        return self.zero_ns + round(self.move.at * 1e9)

    @property
    def due_ns(self) -> int:
        """When the client itself was to act."""
        return self.scheduled_ns + round(self.move.gap * 1e9)

    @property
    def known_to_client(self) -> bool:
        """Whether the client was told to move."""
        return not self.move.how.startswith("nat-")

    @cached_property
    def data_end_ns(self) -> int | None:
        """When the last data of the transfer arrived at the client; None if none did."""
        passage = self.to_client
        if passage is None:
            return None
        data = passage.out_ns[passage.arrived & (passage.entered.payload >= FULL_PAYLOAD)]
        return int(data.max()) if len(data) else None

    @property
    def own_addresses(self) -> tuple[str, ...]:
        """The client's own addresses on its path after the move."""
        lab = self.view.of_path(self.move.path).lab
        return () if lab is None else next(flow for flow in lab.flows if flow.flow == self.facts.flow).client.addresses

    @property
    def why_unmeasurable(self) -> str:
        """Why the move cannot be measured: half a sentence; empty if it can."""
        if self.to_client is None or self.to_server is None:
            return "a capture is missing"
        end = self.data_end_ns
        if end is None:
            return "no data came to the client"
        if self.window.transfer.intact and end <= self.scheduled_ns:
            return f"it came {(self.scheduled_ns - end) / 1e9:.3f} s after the end of the transfer"
        if self.arrived_ns is None:
            return "nothing came to the server from the new address"
        return ""

    # --- packets

    @cached_property
    def to_client(self) -> MatchedPackets | None:
        """The flow's datagrams from the server, of this transfer."""
        return self._own(self.view.to_client)

    @cached_property
    def to_server(self) -> MatchedPackets | None:
        """The flow's datagrams from the client, of this transfer."""
        return self._own(self.view.to_server)

    def _own(self, passage: MatchedPackets | None) -> MatchedPackets | None:
        if passage is None:
            return None
        t_ns, window = passage.entered.t_ns, self.window
        inside = (t_ns >= window.start_ns) & (t_ns < window.end_ns)
        return passage.select(inside & (passage.entered.flow == window.transfer.flow))

    def is_new(self, datagrams: Capture, *, to_client: bool) -> Flags:
        """Which datagrams at the server's side come from the client's new address and port, or go there."""
        places = [self.facts.client.place(address) for address in self.move.addresses]
        new = np.isin(datagrams.client_address, places)
        if self.move.port is not None:
            new &= (datagrams.destination_port if to_client else datagrams.source_port) == self.move.port
        return np.asarray(
            new & (datagrams.t_ns >= self.scheduled_ns - CLOCK_SLACK_NS) & (datagrams.t_ns < self.until_ns), np.bool_
        )

    def to_new(self, passage: MatchedPackets) -> Flags:
        """Which of the server's datagrams are for the new address."""
        return self.is_new(passage.entered, to_client=True)

    def from_new(self, passage: MatchedPackets) -> Flags:
        """Which of the client's datagrams were sent on the new path; if the client was not told, those after
        the first.
        """
        entered = passage.entered
        since = self.sent_ns if self.sent_ns is not None else self.until_ns
        new = (entered.t_ns >= since) & (entered.t_ns < self.until_ns)
        if self.known_to_client:
            new &= np.isin(entered.client_address, [self.facts.client.place(address) for address in self.own_addresses])
        return np.asarray(new, np.bool_)

    @cached_property
    def _at_server(self) -> Capture | None:
        """The datagrams from the client, at the server's side."""
        right, window = self.view.right, self.window
        if right is None:
            return None
        return right.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=False)

    @cached_property
    def _new_rows(self) -> Ints:
        """Which of these come from the new address."""
        datagrams = self._at_server
        return _NO_ROWS if datagrams is None else np.flatnonzero(self.is_new(datagrams, to_client=False))

    # --- times

    @cached_property
    def arrived_ns(self) -> int | None:
        """When the first datagram from the new address arrived at the server; None if none did."""
        datagrams = self._at_server
        return int(datagrams.t_ns[self._new_rows[0]]) if datagrams is not None and len(self._new_rows) else None

    @cached_property
    def first_datagram(self) -> Capture | None:
        """The client's first datagram from the new address, alone, as it left the client; None if there was none."""
        if self.known_to_client:
            left = self.view.of_path(self.move.path).left
            if left is None:
                return None
            sent = left.between(self.due_ns - CLOCK_SLACK_NS, self.until_ns, self.facts.flow, to_client=False)
            return sent.select(np.arange(1)) if len(sent) else None
        passage, datagrams = self.to_server, self._at_server
        if passage is None or datagrams is None or not len(self._new_rows):
            return None
        rows = np.flatnonzero(passage.entered.key == datagrams.key[self._new_rows[0]])
        return passage.entered.select(rows[:1]) if len(rows) else None

    @property
    def sent_ns(self) -> int | None:
        """When that datagram left the client."""
        return None if self.first_datagram is None else int(self.first_datagram.t_ns[0])

    @cached_property
    def switched_ns(self) -> int | None:
        """When the server's first datagram with data for the new address left it; None if none did.

        Decrypted if there are keys; otherwise by its size, which a PATH_CHALLENGE may have, too.
        """
        passage = self.to_client
        if passage is None:
            return None
        new = self.to_new(passage)
        connections_opened = self.view.decrypted_packets(self.window, "server")
        if connections_opened:
            data = np.array(
                [bool(frames.streams) for opened in connections_opened for frames in opened.frames], np.bool_
            )
            new &= np.isin(passage.entered.key, np.concatenate([opened.key for opened in connections_opened])[data])
        else:
            new &= passage.entered.payload >= FULL_PAYLOAD
        rows = np.flatnonzero(new)
        return int(passage.entered.t_ns[rows[0]]) if len(rows) else None

    # --- identifiers

    @cached_property
    def _last_and_first(self) -> tuple[Capture, int, int] | None:
        """The client's datagrams at the server, the row of the last one before the move's first, and the
        first's row.
        """
        datagrams = self._at_server
        if datagrams is None or not len(self._new_rows) or not self._new_rows[0]:
            return None
        return datagrams, int(self._new_rows[0]) - 1, int(self._new_rows[0])

    @property
    def address_changed(self) -> bool | None:
        """Whether the server saw another address."""
        if self._last_and_first is None:
            return None
        datagrams, before, after = self._last_and_first
        return bool(datagrams.client_address[before] != datagrams.client_address[after])

    @property
    def port_changed(self) -> bool | None:
        """Whether the server saw another port."""
        if self._last_and_first is None:
            return None
        datagrams, before, after = self._last_and_first
        return bool(datagrams.source_port[before] != datagrams.source_port[after])

    @property
    def destination_id_changed(self) -> bool | None:
        """Whether the client used another destination connection ID from then on; None if none can be seen."""
        datagrams = self._at_server
        if datagrams is None or self._last_and_first is None or self.view.left is None:
            return None
        window = self.window
        inside = (self.view.left.t_ns >= window.start_ns) & (self.view.left.t_ns < window.end_ns)
        flow_connections = find_connections(
            self.view.left.select(inside & (self.view.left.flow == window.transfer.flow))
        )
        length = len(flow_connections[-1].server_id) if flow_connections else 0
        short = np.flatnonzero(datagrams.form == Form.SHORT)
        old, new = short[short < self._new_rows[0]], short[np.isin(short, self._new_rows)]
        if not length or not len(old) or not len(new):
            return None
        before, after = (datagrams.visible[row, 1 : 1 + length].tobytes() for row in (old[-1], new[0]))
        return bool(before != after)


def moves_of(view: RunView) -> list[WireMove]:
    """The moves of all flows over QUIC, in order of flows and of time; empty without lab.json or captures."""
    if view.lab is None or view.left is None:
        return []
    sent = view.left.t_ns[~view.left.to_client]
    if not len(sent):
        return []
    return [moved for flow in view.lab.flows if flow.kind == "quic" for moved in _flow_moves(view, flow, int(sent[0]))]


def _flow_moves(view: RunView, flow: FlowAddresses, zero_ns: int) -> Iterator[WireMove]:
    windows = [window for window in view.windows if window.transfer.flow == flow.flow]
    if not windows or not flow.moves:
        return
    starts = [zero_ns + round(move.at * 1e9) for move in flow.moves]
    for number, (move, (requested_ns, next_ns)) in enumerate(
        zip(flow.moves, pairwise([*starts, max(window.end_ns for window in windows)]), strict=True), 1
    ):
        earlier = [window for window in windows if window.start_ns <= requested_ns]
        window = earlier[-1] if earlier else windows[0]
        yield WireMove(view, window, flow, move, number, zero_ns, max(requested_ns, min(next_ns, window.end_ns)))
