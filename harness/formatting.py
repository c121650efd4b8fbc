"""Text for people, in messages and tables.

Stored data, and the output of endpoints, may come from a stranger: terminal control characters, and HTML, are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

#: Characters of a value that a message shows.
_MAX_SHOWN = 60
#: The escapes of characters that would break a message's line.
_ESCAPES = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})
#: Characters that control a terminal or are invisible (ECMA-48: C0 except tab and newline, DEL, C1), that change the
#: direction of the text around them (UAX #9), that are line ends for some programs only, and halves of pairs.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
#: How a tag, a comment or an instruction of HTML begins (CommonMark 0.31 §6.6).
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
#: Tags that reports write themselves. They have no attributes, and so nothing to fetch or to run.
OWN_TAGS = ("<br>", "<details>", "</details>", "<summary>", "</summary>")
_STRANGE_TAG = re.compile(rf"(?!{'|'.join(map(re.escape, OWN_TAGS))}){_TAG.pattern}")


def format_flows(numbers: Sequence[int]) -> str:
    """Flows in a sentence: 'flow 1', 'flows 0, 2'."""
    return f"flow {numbers[0]}" if len(numbers) == 1 else f"flows {', '.join(map(str, numbers))}"


def format_list(texts: Sequence[str]) -> str:
    """Texts as a list in a sentence: 'one, two and three'; empty without any."""
    return " and ".join([*filter(None, [", ".join(texts[:-1])]), *texts[-1:]])


def format_count(number: int, noun: str) -> str:
    """A number with its noun: '1 run', '2 runs'."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_beyond(value: float, limit: float, decimals: int) -> str:
    """A number with so many decimals, and with more where it is above a limit and would be displayed as the limit."""
    precise = (f"{value:.{count}f}" for count in range(decimals, 17))
    return next((text for text in precise if float(text) > limit or value <= limit), f"{value:.{decimals}f}")


def format_value(value: object) -> str:
    """A value in a sentence: 'bbrr', 5, true, nothing, a list, keys with values."""
    if isinstance(value, str):
        text = escape_controls(value[:_MAX_SHOWN].translate(_ESCAPES))
        return f"'{text}'" if len(value) <= _MAX_SHOWN else f"'{text}…'"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "keys with values"
    if isinstance(value, list | tuple):
        return "a list"
    text = escape_controls(str(value))
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def escape_controls(text: str) -> str:
    r"""A text with the characters that terminals obey or hide escaped: '\x1b[2J', '\u202e'. Lines stay lines."""
    return text if _CONTROLS.search(text) is None else _CONTROLS.sub(_escape_match, text)


def _escape_match(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def escape_html(text: str) -> str:
    """A document in Markdown, harmless, with all HTML escaped except the tags that reports write."""
    return _STRANGE_TAG.sub("&lt;", escape_controls(text))


def format_size(size: float) -> str:
    """An amount of data for people, in units of 1000: '312 kB', '4.5 MB', '12 GB'."""
    for unit, least in (("GB", 1e9), ("MB", 1e6)):
        if size >= least:
            return f"{size / least:.{1 if size < 10 * least else 0}f} {unit}"
    return f"{size / 1e3:.0f} kB"


def escape_cell(text: str) -> str:
    """A text escaped for a cell of a table in Markdown."""
    return text.replace("|", "\\|").replace("\n", " ")


def escape_stored(text: str) -> str:
    """As `in_cell`, for a stored text: without a stranger's HTML, links or pictures."""
    return escape_cell(_TAG.sub("&lt;", escape_controls(text)).replace("](", "]\\("))


def name_first(texts: Sequence[str], count: int, separator: str = ", ") -> str:
    """The first texts, and the number of the others: 'a, b, 3 more'."""
    remainder = len(texts) - count
    return separator.join([*texts[:count], *([f"{remainder} more"] if remainder > 0 else [])])
