"""Words for people, in messages as in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Characters of a value that a message shows.
_SHOWN = 60
#: How a message shows what would break its line.
_ESCAPES = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


def flows_named(numbers: Sequence[int]) -> str:
    """Flows in a sentence: 'flow 1', 'flows 0, 2'."""
    return f"flow {numbers[0]}" if len(numbers) == 1 else f"flows {', '.join(map(str, numbers))}"


def counted(number: int, noun: str) -> str:
    """So many of something: '1 run', '2 runs'."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shown(value: object) -> str:
    """A value in a sentence: 'bbrr', 5, true, nothing, a list, keys with values."""
    if isinstance(value, str):
        text = value[:_SHOWN].translate(_ESCAPES)
        return f"'{text}'" if len(value) <= _SHOWN else f"'{text}…'"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "keys with values"
    if isinstance(value, list | tuple):
        return "a list"
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def size_of(size: float) -> str:
    """An amount of data for people, in units of 1000: '312 kB', '4.5 MB', '12 GB'."""
    for unit, least in (("GB", 1e9), ("MB", 1e6)):
        if size >= least:
            return f"{size / least:.{1 if size < 10 * least else 0}f} {unit}"
    return f"{size / 1e3:.0f} kB"


def in_cell(text: str) -> str:
    """A text as it stands in a cell of a table in Markdown."""
    return text.replace("|", "\\|").replace("\n", " ")
