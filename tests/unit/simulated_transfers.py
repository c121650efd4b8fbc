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
    own: int = 1 * MS
    window: float = 10
    """The initial one, packets."""
    threshold: float = 1e9
    """Up to which the window doubles, packets; then it grows by one a round trip."""
    most: float = 1e9
    """Of the window, packets."""
    credit: int = 10**6
    """Packets beyond those that were read."""
    buffer: int = 10**6
    """Packets that the server keeps until they are acknowledged."""
    wake: int = 1
    """So many places of a full buffer have to be free before it goes on."""
    pace: int = 0
    """Least time between two packets."""
    hold: int = 0
    """How long the client keeps an acknowledgement."""
    ack_own: int = 0
    """What an acknowledgement takes on the return path."""
    lost: frozenset[int] = frozenset()
    """By the order in which they leave."""
    late: frozenset[int] = frozenset()
    """Which come `lateness` behind those that left with them, by the order in which they leave."""
    lateness: int = 10 * MS
    dark: tuple[int, int] = (0, 0)
    """When nothing passes."""
    rival: tuple[int, int] = (0, 0)
    """When another flow has every second place."""
    told: bool = True
    """Whether the sender tells its window."""
    known: bool = True
    """Whether packets can be decrypted."""


@dataclass
class Talk:
    """It as it goes on."""

    case: Case
    start: int = 200 * MS
    sent: list[tuple[int, int, int, bool]] = field(default_factory=list)
    """(left, service began, ended, came)."""
    carries: list[int] = field(default_factory=list)
    """Which packet of the file each is."""
    acks: list[tuple[int, int]] = field(default_factory=list)
    """(back, up to)."""
    windows: list[tuple[int, float]] = field(default_factory=list)
    grants: list[tuple[int, int]] = field(default_factory=list)
    others: list[tuple[int, int]] = field(default_factory=list)
    had: set[int] = field(default_factory=set)
    heard: set[int] = field(default_factory=set)
    """Packets that are acknowledged."""
    mistaken: list[tuple[int, int]] = field(default_factory=list)
    """(taken for lost, left)."""

    def run(self) -> Conversation:
        case = self.case
        self.window, self.reached, self.known, self.next, self.free, self.back = case.window, 0, 0, 0, 0, 0
        self.again: list[int] = []
        self.recovering, self.paced, self.wakes, self.granted = -1, 0, -1, case.credit
        self.asleep = False
        self.events: list[tuple[int, int, int, int]] = []
        self.count = 0
        self._go(self.start)
        self._timer(self.start)
        while self.events:
            now, kind, _, place = heapq.heappop(self.events)
            if kind == 0:
                self._acknowledged(now, place)
            elif kind == 2 and place == len(self.sent) and len(self.had) < case.packets:
                # A probe, and a window that begins anew.
                self.again = [one for one in sorted(set(self.carries)) if one not in self.had]
                self.reached = self.known = len(self.sent)
                if self.window > 2:
                    self._lost(now)
                self.window = 2.0
            before = len(self.sent)
            self._go(now)
            if kind == 0 or len(self.sent) > before:
                self._timer(now)
        return self._made()

    def _timer(self, now: int) -> None:
        """A probe timeout, where nothing leaves until then."""
        if len(self.had) < self.case.packets:
            self.count += 1
            heapq.heappush(self.events, (now + 3 * self.case.rtt, 2, self.count, len(self.sent)))

    def _go(self, now: int) -> None:
        """Send what may be sent."""
        case = self.case
        while True:
            flight = len(self.sent) - self.reached
            room = self.reached + case.buffer - self.next
            self.asleep = room < case.wake if self.asleep else room <= 0
            fresh = not self.asleep and self.next < min(case.packets, self.granted)
            if flight >= min(self.window, case.most) or not (self.again or fresh):
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
            self._carry(now, which)

    def _carry(self, now: int, which: int) -> None:
        case, place = self.case, len(self.sent)
        begin = max(now, self.free)
        if case.rival[0] <= begin < case.rival[1]:
            self.others.append((begin, begin + case.own))
            begin += case.own
        end = begin + case.own
        self.free = end
        came = place not in case.lost and not case.dark[0] <= end < case.dark[1]
        self.sent.append((now, begin, end, came))
        self.carries.append(which)
        if came:
            self.had.add(which)
            leaves = max(end + case.hold, self.back)
            self.back = leaves + case.ack_own
            if not case.dark[0] <= self.back < case.dark[1]:
                self.count += 1
                back = self.back + case.rtt + (case.lateness if place in case.late else 0)
                heapq.heappush(self.events, (back, 0, self.count, place))

    def _acknowledged(self, now: int, place: int) -> None:
        case = self.case
        self.acks.append((now, place + 1))
        self.heard.add(place)
        if place + 1 <= self.reached:
            return
        gone = [one for one in range(self.known, place - 2) if one not in self.heard and self._is_gone(one)]
        self.mistaken += [(now, self.sent[one][0]) for one in gone if self.sent[one][3]]
        self.known = max(self.known, place - 2)
        new = place + 1 - self.reached
        self.reached = place + 1
        self.again += [self.carries[one] for one in gone if self.carries[one] not in self.had]
        if gone and self.sent[gone[-1]][0] >= self.recovering:
            self._lost(now)
        elif self.sent[place][0] >= self.recovering:
            self.window += new if self.window < case.threshold else new / self.window
            self.window = min(self.window, case.most)
        self.windows.append((now, self.window))
        self.granted = self.reached + case.credit
        self.grants.append((now, self.granted))

    def _is_gone(self, place: int) -> bool:
        """Whether it is lost, or looks so."""
        return not self.sent[place][3] or place in self.case.late

    def _lost(self, now: int) -> None:
        self.recovering = now
        self.window = max(2.0, self.window / 2)
        self.case.threshold = self.window
        self.windows.append((now, self.window))

    def _made(self) -> Conversation:
        case = self.case
        sent = np.array([one[:3] for one in self.sent], np.int64)
        came = np.array([one[3] for one in self.sent])
        acks = np.array(sorted(self.acks), np.int64).reshape(-1, 2)
        used = np.maximum.accumulate(np.array(self.carries, np.int64) + 1) * SIZE
        grants = np.array([(0, case.credit), *self.grants], np.int64)
        windows = [(0, case.window), *self.windows]
        return Conversation(
            request_ns=100 * MS,
            first_byte_ns=int(sent[0, 2]),
            end_ns=int(sent[came, 2].max()),
            rtt=Steps(np.zeros(1, np.int64), np.array([case.rtt])),
            rate=Steps(np.zeros(1, np.int64), np.array([round(SIZE * 8e9 / case.own)])),
            sent=SentArrays(sent[:, 0], np.full(len(sent), SIZE, np.int64), sent[:, 1], sent[:, 2], came, ~came),
            acks=AckArrays(acks[:, 0], acks[:, 1]),
            other_flows=merge_spans(self.others) if self.others else NO_SPANS,
            credits=(Credit("stream", grants[:, 0], grants[:, 1] * SIZE, sent[:, 2], used),) if case.known else None,
            window=WindowSamples(np.array([t for t, _ in windows], np.int64), np.array([w * SIZE for _, w in windows]))
            if case.told
            else None,
            spurious_losses=FalseLosses(*np.array(self.mistaken, np.int64).reshape(-1, 2).T),
        )


def conversation(**asked: object) -> Conversation:
    """One with what a `Case` is asked."""
    return Talk(Case(**asked)).run()  # type: ignore[arg-type]
