"""Changes that repeat, values drawn from ranges, and outages of one direction → plain changes of one run. Pure.

A range's value is drawn by the run's seed, the path, the change, the direction, the key and the number of the
repetition. So no draw depends on another, or on any other use of the seed. Values lie on the grid of drawn
properties: 1 kbit/s, 1 µs, 0.0001 %.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from harness.scenario.schema import Blackhole, Change, LinkChange, Path
from harness.scenario.validation_errors import Location, Mistake
from harness.units import Duration, Percentage, Quantity, Rate, Size

#: Maximum number of changes of a path in one run: each takes a group of commands, and is part of the cell's key.
MAX_CHANGES = 1000
#: A drawn value lies a multiple of this step above the lower limit, in the base unit: 1 kbit/s, 1 µs, 0.0001 %, 1 B.
_STEP: dict[type[Quantity], int] = {Rate: 1000, Duration: 1000, Percentage: 1000, Size: 1}

Q = TypeVar("Q", bound=Quantity)
Side = Literal["forward", "return"]
#: (what is drawn, the range) → a value of it.
Choice = Callable[[str, tuple[Quantity, Quantity]], Quantity]


def draw_value(kind: type[Q], low: int, high: int, words: str) -> Q:
    """A value drawn evenly from low to high, in the base unit, on the grid of its kind. `words` is the whole seed."""
    grain = _STEP[kind]
    # Python guarantees a stable sequence across versions only for random() and a seed that is a string.
    share = random.Random(words).random()
    return kind(low + grain * int(share * ((high - low) // grain + 1)))


@dataclass(frozen=True)
class _Occurrence:
    """One time at which an entry of a path changes one direction."""

    at_ns: int
    side: Side
    location: Location
    """Of the entry in the path."""
    name: str
    """For draws: which entry, direction and repetition it is."""
    values: dict[str, object]


def realise(path: Path, seed: int, horizon: Duration, name: str = "") -> Path:
    """The path of one run: each change once, with a value for each range, in order of time.

    `horizon`: repetitions that come then or later are left out. `name`: of the path, among several. A path whose
    changes are plain is returned as it is. ValueError for changes that `find_mistakes` refuses.
    """

    def draw(words: str, limits: tuple[Quantity, Quantity]) -> Quantity:
        low, high = limits
        return draw_value(type(low), low.value, high.value, f"{seed} {name} {words}")

    return path if path.is_plain else _plain(path, horizon, draw)


def extremes(path: Path, horizon: Duration) -> Iterator[Path]:
    """The paths of runs with the least values, with the largest, and with the shortest delays beside the largest."""
    if path.is_plain:
        yield path
        return
    yield _plain(path, horizon, lambda _, limits: limits[0])
    yield _plain(path, horizon, lambda _, limits: limits[1])
    yield _plain(path, horizon, lambda words, limits: limits[0 if words.endswith(" delay") else 1])


def _plain(path: Path, horizon: Duration, choose: Choice) -> Path:
    moments: dict[int, dict[Side, dict[str, object]]] = {}
    for item in sorted(_occurrences(path, horizon), key=lambda item: item.at_ns):
        values = moments.setdefault(item.at_ns, {}).setdefault(item.side, {})
        for key, value in item.values.items():
            if key in values:
                raise ValueError(f"two changes of {item.side} {key} at {Duration(item.at_ns)}")
            values[key] = choose(f"{item.name} {key}", value) if isinstance(value, tuple) else value
    changes = tuple(
        Change(at=Duration(at_ns), **{side: LinkChange.model_validate(values) for side, values in sides.items()})
        for at_ns, sides in moments.items()
    )
    links = {"forward": path.forward, "return_": path.return_}
    bare = {side: link.model_copy(update={"blackhole": None}) for side, link in links.items()}
    return path.model_copy(update={**bare, "changes": changes, "blackhole": None})


def _occurrences(path: Path, horizon: Duration) -> Iterator[_Occurrence]:
    """All that happens to a path, entry by entry."""
    for index, change in enumerate(path.changes):
        for number, at_ns in enumerate(change_times(change, horizon)):
            for side, new in change.sides:
                location: Location = ("changes", index, side)
                values = {key: getattr(new, key) for key in new.named}
                yield _Occurrence(at_ns, side, location, f"changes {index} {side} {number}", values)
    sides: tuple[Side, Side] = ("forward", "return")
    holes = [("", path.blackhole, sides), *_one_way(path)]
    for owner, blackhole, directions in holes:
        if blackhole is None:
            continue
        where: Location = (owner, "blackhole") if owner else ("blackhole",)
        for number, at_ns in enumerate(_outage_times(blackhole, horizon)):
            for side in directions:
                # An outage of both directions is one draw.
                yield _Occurrence(at_ns, side, where, f"{owner} blackhole {number}", {"outage": blackhole.lasts})


def _one_way(path: Path) -> list[tuple[str, Blackhole | None, tuple[Side, ...]]]:
    return [("forward", path.forward.blackhole, ("forward",)), ("return", path.return_.blackhole, ("return",))]


def change_times(change: Change, horizon: Duration) -> range:
    """When a change comes, ns: once, or again and again until its end or the horizon."""
    at = change.at.value
    if change.every is None:
        return range(at, at + 1)
    return range(at, min(horizon.value, (change.until or horizon).value), change.every.value)


def _outage_times(blackhole: Blackhole, horizon: Duration) -> Sequence[int]:
    """When the outages of a blackhole begin, ns."""
    if blackhole.every is None:
        return [begin.value for begin, _ in blackhole.times]
    return range(blackhole.after.value, horizon.value, blackhole.every.value)


def find_mistakes(path: Path, horizon: Duration) -> Iterator[Mistake]:
    """Changes that are too many for a run, that never come, or that contradict each other; located in the path."""
    if path.is_plain:
        return
    counts = [*_counts(path, horizon)]
    for location, count, _ in counts:
        if not count:
            text = f"it comes first when every flow has ended, at {horizon}"
            yield Mistake(location[:-1], text, "write an earlier time")
            return
    if (total := sum(count for _, count, _ in counts)) > MAX_CHANGES:
        location, count, every = max(counts, key=lambda item: item[1])
        text = f"every {every} makes {count} changes until {horizon}" if every is not None else f"{total} changes"
        hint = "write a longer time, until: 60 s, or a trace: rate: {trace: FILE}"
        yield Mistake(location, f"{text}, and a path has room for {MAX_CHANGES}", hint)
        return
    yield from _contradictions(path, horizon)


def _counts(path: Path, horizon: Duration) -> Iterator[tuple[Location, int, Duration | None]]:
    """For each entry: its location, how often it comes, and how far apart."""
    for index, change in enumerate(path.changes):
        yield ("changes", index, "every"), len(change_times(change, horizon)), change.every
    for owner, blackhole, _ in [("", path.blackhole, ()), *_one_way(path)]:
        if blackhole is not None:
            place: Location = (owner, "blackhole", "every") if owner else ("blackhole", "every")
            yield place, len(_outage_times(blackhole, horizon)), blackhole.every


def _contradictions(path: Path, horizon: Duration) -> Iterator[Mistake]:
    """The first two entries that give a value of one direction twice at a time, or whose outages overlap."""
    given: dict[tuple[int, Side, str], Location] = {}
    dark: dict[Side, tuple[int, Location]] = {}
    for item in sorted(_occurrences(path, horizon), key=lambda item: item.at_ns):
        for key, value in item.values.items():
            # An outage has its own key, or is a blackhole itself.
            location = (*item.location, key) if item.location[0] == "changes" else item.location
            if (earlier := given.setdefault((item.at_ns, item.side, key), location)) is not location:
                text = f"at {Duration(item.at_ns)} {_written(earlier)} gives the {key} of {item.side} as well"
                yield Mistake(location, text, "let one of the two come at other times, with until: or another at:")
                return
            if key != "outage":
                continue
            until, before = dark.get(item.side, (0, ()))
            if item.at_ns < until:
                text = (
                    f"it begins at {Duration(item.at_ns)}, in the outage of {_written(before)} until {Duration(until)}"
                )
                yield Mistake(location, text, "write a shorter time, or one of the two at other times")
                return
            longest = value[1] if isinstance(value, tuple) else value
            assert isinstance(longest, Duration)
            dark[item.side] = item.at_ns + longest.value, location


def _written(location: Location) -> str:
    return ".".join(map(str, location))
