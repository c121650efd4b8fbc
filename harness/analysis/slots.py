"""Whether packets waited for opportunities as a scenario asks, by what the captures show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.analysis.direction import LinkDirection
from harness.analysis.link_replay import Fate, Ints
from harness.scenario.schema import Slots

#: So many opportunities, or this share of them, may come at another time: a packet that is in no capture may begin one,
#: and where packets are lost it is not certain which of them the queue dropped.
_UNKNOWN, _UNKNOWN_SHARE = 2, 0.01
#: Of fewer waits the mean says nothing; so many standard errors it may be off (two-sided probability 6e-7).
_FEWEST, _ERRORS = 30, 5.0


@dataclass
class OpportunityReplay:
    """Packets in the order in which they came to their slots, and what was wrong with when they left.

    The rules are those of net/sched/sch_netem.c (netem_dequeue, get_slot_next), for packets without another delay.
    """

    slots: Slots
    tolerance_ns: int
    gaps_ns: list[int] = field(default_factory=list)
    """Times until an opportunity that are known exactly."""
    opportunities: int = 0
    early: int = 0
    late: int = 0
    _opened: float = -math.inf
    """When the last opportunity came."""
    _packets: int = 0
    _bytes: int = 0
    _is_certain: bool = False
    """Whether all packets of the last opportunity are known."""
    _lost: bool = False
    """Whether a packet was lost since the first of them."""

    def _used_up(self) -> bool:
        slots = self.slots
        return (slots.packets is not None and self._packets >= slots.packets) or (
            slots.bytes is not None and self._bytes >= slots.bytes.bytes
        )

    def leave(self, came: int, left: int, length: int) -> None:
        """A packet came to the slots, and left."""
        if came <= self._opened + self.tolerance_ns and not self._used_up() and self._is_near(left, self._opened):
            self._packets, self._bytes = self._packets + 1, self._bytes + length
            return
        self._open(came, left)
        self._packets, self._bytes = 1, length

    def lose(self) -> None:
        """A packet came to the slots, and was lost behind them: nobody knows at which opportunity it left."""
        self._lost = True

    def _is_near(self, time: float, other: float) -> bool:
        return abs(time - other) <= self.tolerance_ns

    def _open(self, came: int, left: int) -> None:
        """Another opportunity, for a packet that came then."""
        shortest, longest = (gap.value for gap in self.slots.gaps)
        since, used_up, certain = self._opened, self._used_up(), self._is_certain and not self._lost
        self.opportunities += 1
        # A lost packet may have been of the former opportunity, or of this one.
        self._opened, self._is_certain, self._lost = left, not self._lost, False
        waited = came <= since  # at the former opportunity
        if not certain or self._is_near(came, since):
            # A lost packet may have begun the wait, or it is not known whether this one came in time.
            least, most = float(came), max(since, came) + longest
        elif waited:
            # Only where that was used up.
            least, most = (since + shortest, since + longest) if used_up else (math.inf, since)
        elif used_up:
            least, most = max(came, since + shortest), came + longest
        else:
            least, most = came + shortest, came + longest
        self.early += left < least - self.tolerance_ns
        self.late += left > most + self.tolerance_ns
        if certain and waited == used_up and least - self.tolerance_ns <= left <= most + self.tolerance_ns:
            self.gaps_ns.append(round(left - (since if waited else came)))


def replay_opportunities(
    slots: Slots, came_ns: Ints, left_ns: Ints, lengths: Ints, lost: Sequence[bool], tolerance_ns: int
) -> OpportunityReplay:
    """Replay n packets in the order in which they left; all have shape (n,). `lost`: nobody knows when they left."""
    result = OpportunityReplay(slots, tolerance_ns)
    columns = (came_ns.tolist(), left_ns.tolist(), lengths.tolist(), lost)
    for came, left, length, is_lost in zip(*columns, strict=True):
        if is_lost:
            result.lose()
        else:
            result.leave(came, left, length)
    return result


def slots_problems(direction: LinkDirection, slots: Slots, tolerance_ns: int) -> Iterator[str]:
    """Packets that did not leave at an opportunity of theirs, and a mean time between these that was not asked.

    `tolerance_ns`: how far a packet may be from the time that the replay of the bottleneck has for it.
    """
    replayed, passage = direction.replay, direction.passage
    rows = replayed.accepted
    rows = rows[(replayed.fate[rows] == Fate.DELIVERED) | (replayed.fate[rows] == Fate.LOST)]
    starts = np.array([phase.start_ns for phase in direction.phases[1:]], np.int64)
    delays = np.array([phase.delay_ns for phase in direction.phases], np.int64)
    came = replayed.departure_ns[rows]
    left = passage.out_ns[rows] - delays[np.searchsorted(starts, came, side="right")]
    unknown = ~replayed.comparable[rows]
    result = replay_opportunities(slots, came, left, passage.entered.length[rows], unknown.tolist(), tolerance_ns)
    allowed = max(_UNKNOWN, _UNKNOWN_SHARE * result.opportunities)
    for count, word in ((result.early, "early"), (result.late, "late")):
        if count > allowed:
            yield f"{direction.name}: {count} of {result.opportunities} opportunities came too {word}"
    shortest, longest = (gap.value for gap in slots.gaps)
    if len(result.gaps_ns) >= _FEWEST:
        mean, asked = float(np.mean(result.gaps_ns)), (shortest + longest) / 2
        error = _ERRORS * (longest - shortest) / math.sqrt(12 * len(result.gaps_ns))
        if abs(mean - asked) > tolerance_ns + error:
            text = f"opportunities came after {mean / 1e6:.3f} ms on average"
            yield f"{direction.name}: {text}, asked {asked / 1e6:.3f} ms"
