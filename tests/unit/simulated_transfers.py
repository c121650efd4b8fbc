"""Conversations made by a small sender, link and receiver, of which one thing at a time is wrong.

Times are on the clock of `harness.analysis.time_breakdown.transfer`: a packet that leaves at t and finds the link empty has come at
t and its own time; what acknowledges it is back a round trip later.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from harness.analysis.time_breakdown.transfer import (
    NO_SPANS,
    AckArrays,
    Conversation,
    Credit,
    FalseLosses,
    SentArrays,
    Steps,
    WindowSamples,
    merge_spans,
)

MS = 1_000_000
SIZE = 1_250


@dataclass
class Case:
    """What is asked of a conversation: 10 Mbit/s, 100 ms, so that a packet takes 1 ms and 100 of them fill the path."""

    packets: int = 2_000
    rtt: int = 100 * MS
    serialization: int = 1 * MS
    window: float = 10
    """The initial one, packets."""
    threshold: float = 1e9
    """Up to which the window doubles, packets; then it grows by one a round trip."""
    window_limit: float = 1e9
    """Of the window, packets."""
    credit: int = 10**6
    """Packets beyond those that were read."""
    buffer: int = 10**6
    """Packets that the server keeps until they are acknowledged."""
    free_slots_to_resume: int = 1
    """So many places of a full buffer have to be free before it goes on."""
    pace: int = 0
    """Least time between two packets."""
    ack_delay: int = 0
    """How long the client keeps an acknowledgement."""
    ack_serialization: int = 0
    """What an acknowledgement takes on the return path."""
    lost: frozenset[int] = frozenset()
    """By the order in which they leave."""
    late: frozenset[int] = frozenset()
    """Which come `lateness` behind those that left with them, by the order in which they leave."""
    lateness: int = 10 * MS
    outage: tuple[int, int] = (0, 0)
    """When nothing passes."""
    competing_flow: tuple[int, int] = (0, 0)
    """When another flow has every second place."""
    reports_window: bool = True
    """Whether the sender tells its window."""
    has_keys: bool = True
    """Whether packets can be decrypted."""


@dataclass
class Transfer:
    """It as it goes on."""

    case: Case
    start: int = 200 * MS
    sent: list[tuple[int, int, int, bool]] = field(default_factory=list)
    """(left, service began, ended, came)."""
    packet_numbers: list[int] = field(default_factory=list)
    """Which packet of the file each is."""
    acks: list[tuple[int, int]] = field(default_factory=list)
    """(back, up to)."""
    windows: list[tuple[int, float]] = field(default_factory=list)
    credits: list[tuple[int, int]] = field(default_factory=list)
    other_flows: list[tuple[int, int]] = field(default_factory=list)
    delivered: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    """Packets that are acknowledged."""
    spurious_losses: list[tuple[int, int]] = field(default_factory=list)
    """(taken for lost, left)."""

    def run(self) -> Conversation:
        case = self.case
        self.window, self.reached, self.known, self.next, self.free, self.back = case.window, 0, 0, 0, 0, 0
        self.again: list[int] = []
        self.recovering, self.paced, self.wakes, self.granted = -1, 0, -1, case.credit
        self.asleep = False
        self.events: list[tuple[int, int, int, int]] = []
        self.count = 0
        self._send_window(self.start)
        self._probe_timeout(self.start)
        while self.events:
            now, kind, _, place = heapq.heappop(self.events)
            if kind == 0:
                self._on_ack(now, place)
            elif kind == 2 and place == len(self.sent) and len(self.delivered) < case.packets:
                # A probe, and a window that begins anew.
                self.again = [number for number in sorted(set(self.packet_numbers)) if number not in self.delivered]
                self.reached = self.known = len(self.sent)
                if self.window > 2:
                    self._on_loss(now)
                self.window = 2.0
            before = len(self.sent)
            self._send_window(now)
            if kind == 0 or len(self.sent) > before:
                self._probe_timeout(now)
        return self._conversation()

    def _probe_timeout(self, now: int) -> None:
        """A probe timeout, where nothing leaves until then."""
        if len(self.delivered) < self.case.packets:
            self.count += 1
            heapq.heappush(self.events, (now + 3 * self.case.rtt, 2, self.count, len(self.sent)))

    def _send_window(self, now: int) -> None:
        """Send what may be sent."""
        case = self.case
        while True:
            flight = len(self.sent) - self.reached
            room = self.reached + case.buffer - self.next
            self.asleep = room < case.free_slots_to_resume if self.asleep else room <= 0
            fresh = not self.asleep and self.next < min(case.packets, self.granted)
            if flight >= min(self.window, case.window_limit) or not (self.again or fresh):
                return
            if case.pace and now < self.paced:
                if self.paced > self.wakes:
                    self.wakes = self.paced
                    self.count += 1
                    heapq.heappush(self.events, (self.paced, 1, self.count, 0))
                return
            self.paced = max(now, self.paced) + case.pace
            if self.again:
                which = self.again.pop(0)
            else:
                which, self.next = self.next, self.next + 1
            self._transmit(now, which)

    def _transmit(self, now: int, which: int) -> None:
        case, place = self.case, len(self.sent)
        begin = max(now, self.free)
        if case.competing_flow[0] <= begin < case.competing_flow[1]:
            self.other_flows.append((begin, begin + case.serialization))
            begin += case.serialization
        end = begin + case.serialization
        self.free = end
        came = place not in case.lost and not case.outage[0] <= end < case.outage[1]
        self.sent.append((now, begin, end, came))
        self.packet_numbers.append(which)
        if came:
            self.delivered.add(which)
            leaves = max(end + case.ack_delay, self.back)
            self.back = leaves + case.ack_serialization
            if not case.outage[0] <= self.back < case.outage[1]:
                self.count += 1
                back = self.back + case.rtt + (case.lateness if place in case.late else 0)
                heapq.heappush(self.events, (back, 0, self.count, place))

    def _on_ack(self, now: int, place: int) -> None:
        case = self.case
        self.acks.append((now, place + 1))
        self.acknowledged.add(place)
        if place + 1 <= self.reached:
            return
        gone = [lost for lost in range(self.known, place - 2) if lost not in self.acknowledged and self._is_gone(lost)]
        self.spurious_losses += [(now, self.sent[number][0]) for number in gone if self.sent[number][3]]
        self.known = max(self.known, place - 2)
        new = place + 1 - self.reached
        self.reached = place + 1
        self.again += [
            self.packet_numbers[number] for number in gone if self.packet_numbers[number] not in self.delivered
        ]
        if gone and self.sent[gone[-1]][0] >= self.recovering:
            self._on_loss(now)
        elif self.sent[place][0] >= self.recovering:
            self.window += new if self.window < case.threshold else new / self.window
            self.window = min(self.window, case.window_limit)
        self.windows.append((now, self.window))
        self.granted = self.reached + case.credit
        self.credits.append((now, self.granted))

    def _is_gone(self, place: int) -> bool:
        """Whether it is lost, or looks so."""
        return not self.sent[place][3] or place in self.case.late

    def _on_loss(self, now: int) -> None:
        self.recovering = now
        self.window = max(2.0, self.window / 2)
        self.case.threshold = self.window
        self.windows.append((now, self.window))

    def _conversation(self) -> Conversation:
        case = self.case
        sent = np.array([sending[:3] for sending in self.sent], np.int64)
        came = np.array([sending[3] for sending in self.sent])
        acks = np.array(sorted(self.acks), np.int64).reshape(-1, 2)
        used = np.maximum.accumulate(np.array(self.packet_numbers, np.int64) + 1) * SIZE
        grants = np.array([(0, case.credit), *self.credits], np.int64)
        windows = [(0, case.window), *self.windows]
        return Conversation(
            request_ns=100 * MS,
            first_byte_ns=int(sent[0, 2]),
            end_ns=int(sent[came, 2].max()),
            rtt=Steps(np.zeros(1, np.int64), np.array([case.rtt])),
            rate=Steps(np.zeros(1, np.int64), np.array([round(SIZE * 8e9 / case.serialization)])),
            sent=SentArrays(sent[:, 0], np.full(len(sent), SIZE, np.int64), sent[:, 1], sent[:, 2], came, ~came),
            acks=AckArrays(acks[:, 0], acks[:, 1]),
            other_flows=merge_spans(self.other_flows) if self.other_flows else NO_SPANS,
            credits=(Credit("stream", grants[:, 0], grants[:, 1] * SIZE, sent[:, 2], used),) if case.has_keys else None,
            window=WindowSamples(np.array([t for t, _ in windows], np.int64), np.array([w * SIZE for _, w in windows]))
            if case.reports_window
            else None,
            spurious_losses=FalseLosses(*np.array(self.spurious_losses, np.int64).reshape(-1, 2).T),
        )


def conversation(**options: object) -> Conversation:
    """One with what a `Case` is asked."""
    return Transfer(Case(**options)).run()  # type: ignore[arg-type]
