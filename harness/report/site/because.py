"""Where a transfer's time went, as a bar and as bands beneath the bytes over time. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.outcome import STATES, Attribution, State
from harness.report.because import NAMES, OLDER, attributions, by_older_rules
from harness.report.because import sentence as time_sentence
from harness.report.site.pictures import WIDTH, Received

_STATES: dict[str, State] = {letter: state for state, letter in STATES.items()}
_BAND = re.compile(r"([a-z])([0-9]+)")
#: Of the whole: a segment of the bar narrower than this, in percent, has no word in it.
_WORD = 12.0


@dataclass(frozen=True)
class Share:
    """One state of a transfer."""

    state: State
    name: str
    seconds: float
    percent: float
    note: str
    without: float
    """A bound, s: without this state it would have taken no less."""
    word: str
    """In its segment of the bar; empty where there is no room."""


@dataclass(frozen=True)
class Because:
    """One transfer."""

    title: str
    """Which, where the cell has several; else empty."""
    sentence: str
    seconds: float
    shares: tuple[Share, ...]

    @property
    def rows(self) -> list[list[str]]:
        """Its states as lines of a table: of which transfer, which, s, percent, s without it, what goes with it."""
        return [
            [self.title, one.name, f"{one.seconds:.2f}", f"{one.percent:.1f}", f"{one.without:.2f}", one.note]
            for one in self.shares
        ]


@dataclass(frozen=True)
class Band:
    """A state's place beneath the curve, in a picture of `pictures.WIDTH`."""

    state: State
    x: float
    width: float
    words: str


def because(result: CellResult) -> tuple[Because, ...]:
    """The transfers of a cell's run in the middle; empty where nobody knows where their time went."""
    told = attributions(result)
    older = f" {OLDER}" if by_older_rules(result) else ""
    return tuple(
        Because(
            "" if len(told) == 1 else f"flow {one.flow}, {one.transfer}", time_sentence(one, result) + older,
            one.seconds, tuple(_shares(one)),
        )
        for one in told
    )  # fmt: skip


def _shares(one: Attribution) -> Iterator[Share]:
    for part in one.parts:
        percent = round(100 * part.seconds / one.seconds, 2) if one.seconds else 0.0
        name = NAMES[part.state]
        room = len(name) * 0.9 <= percent and percent >= _WORD
        yield Share(
            part.state, name, part.seconds, percent, part.note, one.bound_without(part.state), name if room else ""
        )


def bands(result: CellResult, picture: Received | None) -> tuple[Band, ...]:
    """Those of the first transfer, on the time axis of a picture of what was received."""
    told: Sequence[Attribution] = attributions(result)
    if picture is None or not told:
        return ()
    one, found, at = told[0], list[Band](), 0
    for letter, count in _BAND.findall(one.bands):
        state, since = _STATES[letter], at
        at += int(count)
        left, right = (picture.x(one.seconds * part / 100) for part in (since, at))
        words = f"{NAMES[state]}, {one.seconds * since / 100:.2f} to {one.seconds * at / 100:.2f} s"
        found.append(Band(state, left, round(min(right, WIDTH) - left, 1), words))
    return tuple(found)
