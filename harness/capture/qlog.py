"""qlog, old and new (draft-ietf-quic-qlog-main-schema; draft-ietf-quic-qlog-quic-events).

JSON-SEQ (RFC 7464), newline-delimited JSON and contained JSON, whole or truncated. A trace of a 100 MB
transfer has 60 MB, so only events of interest are decoded: the others are skipped as bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from harness.capture.files import Content, count_word, map_content, open_file, original_path
from harness.reading import read_tree

#: Names of the recovery figures: ours → those in use (aioquic's are its own).
_FIGURES = {
    "smoothed_rtt_ms": ("smoothed_rtt",),
    "latest_rtt_ms": ("latest_rtt",),
    "min_rtt_ms": ("min_rtt",),
    "congestion_window": ("congestion_window", "cwnd"),
    "bytes_in_flight": ("bytes_in_flight",),
    "ssthresh": ("ssthresh",),
    "pacing_rate": ("pacing_rate",),
}
_RTTS = [name for name in _FIGURES if name.endswith("_rtt_ms")]
_SCHEMA = {"t_ms": pl.Float64, **dict.fromkeys(_FIGURES, pl.Float64)}

_METRICS = b'metrics_updated"'
#: A line longer than this holds more than an event, bytes.
_MAX_EVENT = 65_536
#: Bytes of whole lines that are scanned together.
_BLOCK = 1 << 22

#: How an event begins in contained JSON, by its first key.
_EVENT_STARTS = (b'"time"', b'"name"', b'"data"', b'"category"')
#: What traces call 1-RTT packets, and the space of their numbers, without hyphens and underscores.
_ONE_RTT = ("1rtt", "onertt", "applicationdata", "application")
_SEPARATORS = str.maketrans("", "", "-_ ")
#: The time of the first event that is an array.
_ARRAY_TIME = re.compile(rb"\[\s*(-?[0-9.]+)\s*,")
#: How an event begins that is an array: with its time.
_ARRAY_START = re.compile(r"\[\s*-?[0-9]")
#: A line that is one such event, with nothing inside its data (picoquic's, with a path ID or without; the last of a
#: trace also has the trace's end).
_ARRAY_LINE = re.compile(rb'\[\s*-?[0-9.]+\s*,(?:\s*[0-9]+\s*,)?(?:\s*"[^"]*"\s*,){2}\s*\{[^\]\[{}]*\}\s*\][\]}\s]*')
_REFERENCE = re.compile(rb'"reference_time"\s*:\s*"?([0-9.eE+]+)')
_WALL_CLOCK = re.compile(rb'"wall_clock_time"\s*:\s*"([^"]+)"')
_PTO_COUNT = re.compile(rb'"pto_count"\s*:\s*"?([0-9]+)')
_QUICHE_LOST = re.compile(rb'"cf_lost_packets"\s*:\s*\{\s*"total"\s*:\s*([0-9]+)')
_TIME = re.compile(rb'"time"\s*:\s*"?([0-9.eE+]+)')
#: Bytes that are searched for a trace's header and first events.
_OPENING = 16_384
#: Event times above this are ms since the epoch, below it since the trace's reference (2001-09-09).
_EPOCH_LIKE = 1e12


@dataclass(frozen=True)
class Event:
    """One event of a trace."""

    time: float
    """In the trace's unit and from its reference."""
    name: str
    """Category and type, lower case: "recovery:metrics_updated"; without category where the trace has none."""
    data: dict[str, Any]


@dataclass(frozen=True)
class Summary:
    """The counts of two events in a trace, and its start time."""

    sent: int
    """packet_sent events."""
    lost: int
    """packet_lost events."""
    start_ns: int | None
    """Since the epoch; None where the trace has relative times only."""
    head: bytes
    """File name and first bytes, lower case, where a trace says which connection it is of."""

    def identifies(self, connection_id: bytes) -> bool:
        """Whether the trace names a connection by its original destination connection ID, in hexadecimal."""
        return bool(connection_id) and connection_id.hex().encode() in self.head


def find_traces(folder: Path) -> list[Path]:
    """The qlog files below a folder, by name as they were written, each once; empty where there is no folder."""
    try:
        paths = [folder / place for place in read_tree(folder).files]
    except OSError:
        return []
    # While a file is being compressed, it exists twice. The last one counts: the original, which is whole.
    by_name = {original_path(path): path for path in sorted(paths, reverse=True)}
    return [by_name[path] for path in sorted(by_name) if path.suffix in (".qlog", ".sqlog")]


def summarise(path: Path) -> Summary:
    """Count the packets sent and declared lost (recovery:packet_lost, quic:packet_lost). Raises OSError."""
    return summarise_data(path.name, map_content(path))


def summarise_data(name: str, data: Content) -> Summary:
    """As `summarise`, from a trace's file name and its content, or the part of it that was read."""
    opening = name.encode() + data[:_OPENING]
    return Summary(
        count_word(data, b'packet_sent"'), count_word(data, b'packet_lost"'), _start_ns(data), opening.lower()
    )


def read_head(path: Path, size: int) -> bytes:
    """The first `size` bytes of a trace, decompressed (less where it is shorter or damaged). Raises OSError."""
    with open_file(path) as file:
        return file.read(size)


@dataclass(frozen=True)
class LostPacket:
    """A 1-RTT packet that was declared lost."""

    t_ms: float
    """When, since the trace's first event."""
    number: int
    """Its packet number."""


def read_lost(path: Path) -> list[LostPacket]:
    """The 1-RTT packets that a trace declares lost (recovery:packet_lost, quic:packet_lost), in its order.

    Empty where the trace's times are differences, or it names no losses, as quiche's. Raises OSError.
    """
    data = map_content(path)
    if counts_from_previous(data):
        return []
    unit = time_unit(data)
    first = first_time(data)
    if first is None:
        opening = _ARRAY_TIME.search(data)
        first = _number(opening[1]) if opening is not None else 0.0
    lost_packets = []
    for event in events(data, b'packet_lost"'):
        header = event.data.get("header")
        fields = {**event.data, **header} if isinstance(header, dict) else event.data
        number = fields.get("packet_number")
        kind = str(fields.get("packet_type") or fields.get("packet_number_space") or "1rtt").lower()
        if isinstance(number, int | str) and str(number).isdecimal() and kind.translate(_SEPARATORS) in _ONE_RTT:
            lost_packets.append(LostPacket((event.time - first) * unit, int(number)))
    return lost_packets


@dataclass(frozen=True)
class Losses:
    """Losses and recovery in a trace; None for what it does not report."""

    lost: int | None
    """Packets declared lost: packet_lost events, or quiche's own running total."""
    timeouts: int | None
    """Probe timeouts that expired: loss_timer_updated events, or the steps by which pto_count rose."""
    recoveries_ms: tuple[float, ...] | None
    """How long each recovery period lasted (congestion_state_updated events), of those that ended."""


def read_losses(path: Path) -> Losses:
    """Packets lost, probe timeouts, recovery periods (RFC 9002 §6, §6.2, §7.3.2). Raises OSError."""
    data = map_content(path)
    lost: int | None = count_word(data, b'packet_lost"') or None
    totals = [int(digits) for digits in _QUICHE_LOST.findall(data)]
    if lost is None and totals:
        lost = max(totals)
    unit = time_unit(data)
    changes = [] if counts_from_previous(data) else list(events(data, b'congestion_state_updated"'))
    states = [(event.time * unit, str(event.data.get("new")).lower()) for event in changes]
    return Losses(lost, _count_timeouts(data), _recovery_durations(states) if states else None)


def _count_timeouts(data: Content) -> int | None:
    if data.find(b'loss_timer_updated"') >= 0:
        timers = [event.data for event in events(data, b'loss_timer_updated"')]
        expired = [str(timer.get("timer_type", "pto")) for timer in timers if timer.get("event_type") == "expired"]
        return sum(kind.lower() == "pto" for kind in expired)
    counts = [int(digits) for digits in _PTO_COUNT.findall(data)]
    return sum(max(0, after - before) for before, after in pairwise([0, *counts])) if counts else None


def _recovery_durations(states: list[tuple[float, str]]) -> tuple[float, ...]:
    """Durations of the recovery periods, ms: from the start of each run of "recovery" to the next other state."""
    durations: list[float] = []
    since: float | None = None
    for time, state in states:
        if state == "recovery":
            since = time if since is None else since
        elif since is not None:
            durations.append(time - since)
            since = None
    return tuple(durations)


def _start_ns(data: Content) -> int | None:
    head = data[:_OPENING]
    wall = _WALL_CLOCK.search(head)
    if wall is not None:
        try:
            return round(datetime.fromisoformat(wall[1].decode()).timestamp() * 1e9)
        except ValueError:
            pass
    for pattern in (_REFERENCE, _TIME):
        match = pattern.search(head)
        if match is not None and _number(match[1]) > _EPOCH_LIKE:
            return round(_number(match[1]) * 1e6)
    return None


def first_event_ns(path: Path) -> int | None:
    """When a trace's first event happened, ns since the epoch; None where it has relative times only.

    Raises OSError.
    """
    head = read_head(path, _OPENING)
    start, first = _start_ns(head), first_time(head)
    if start is None or first is None:
        return start
    # The time is since the reference, or since the epoch itself.
    first_ms = first * time_unit(head)
    return start if first_ms > _EPOCH_LIKE else start + round(first_ms * 1e6)


def trace_clock(data: Content) -> tuple[int | None, float]:
    """(the time that a trace's times count from, ns since the epoch, None where unknown; their unit, ms)."""
    return (None if counts_from_previous(data) else _start_ns(data)), time_unit(data)


def epoch_ns(time: float, start_ns: int | None, unit: float) -> int | None:
    """An event's time as ns since the epoch, by its trace's `clock`; None where that is not known."""
    if start_ns is None:
        return None
    t_ms = time * unit
    # The time is since the reference, or since the epoch itself.
    return round(t_ms * 1e6) if t_ms > _EPOCH_LIKE else start_ns + round(t_ms * 1e6)


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def read_recovery(path: Path, rtt_ms: float | None = None) -> pl.DataFrame:
    """The sender's state over time from metrics_updated events, each figure held until it changes.

    Columns: t_ms (since the trace's first event), smoothed_rtt_ms, latest_rtt_ms, min_rtt_ms,
    congestion_window, bytes_in_flight, ssthresh (bytes), pacing_rate (bit/s); null before the first value.
    If the path's RTT is given, RTTs below a tenth of it are taken for seconds, the unit of quinn.
    Empty for a trace with times as differences, which no stack with these events writes. Raises OSError.
    """
    data = map_content(path)
    if counts_from_previous(data):
        return pl.DataFrame(schema=_SCHEMA)
    unit, scanned = time_unit(data), _scan_events(data)
    frame = _decode_events(data) if scanned is None else scanned
    frame = frame.with_columns(pl.col("t_ms", *_RTTS) * unit)
    first = first_time(data)
    start = first * unit if first is not None else frame["t_ms"].min()
    frame = frame.with_columns(pl.col("t_ms") - start, pl.exclude("t_ms").forward_fill())
    return _in_ms(frame, rtt_ms)


class NotAnEventError(ValueError):
    """A line of a trace is not one whole event: the trace has another form, or is truncated."""


def find_event_lines(data: Content, word: bytes) -> Iterator[bytes]:
    """The lines with `word`, each an event. Raises NotAnEventError at the first that is none."""
    position = data.find(word)
    while position >= 0:
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        line = data[data.rfind(b"\n", 0, position) + 1 : end].strip(b"\x1e ,\r\t")
        if not _is_event(line):
            raise NotAnEventError(f"the line at byte {position} is not one event")
        yield line
        position = data.find(word, end)


def _is_event(line: bytes) -> bool:
    # A whole trace may stand in a line (contained qlog), and is no event.
    if len(line) > _MAX_EVENT or b'"traces"' in line:
        return False
    return line[:1] + line[-1:] == b"{}" or _ARRAY_LINE.fullmatch(line) is not None


def _scan_events(data: Content) -> pl.DataFrame | None:
    """Times and recovery figures, found by their keys in the text, in a quarter of the time that decoding takes. None
    where a line with them is no event.
    """
    word, frames, start = _METRICS.decode(), [_scan_lines(pl.Series(dtype=pl.String))], 0
    while start < len(data):
        end = data.find(b"\n", start + _BLOCK)
        end = len(data) if end < 0 else end
        block = data[start:end].decode("utf-8", "replace")
        lines = pl.Series([line for line in block.split("\n") if word in line], dtype=pl.String)
        lines = lines.str.strip_chars("\x1e ,\r\t")
        if not _are_events(lines):
            return None
        frames.append(_scan_lines(lines))
        start = end + 1
    return pl.concat(frames)


def _are_events(lines: pl.Series) -> bool:
    """As `_is_event`, for all lines at once."""
    if (lines.str.len_bytes() > _MAX_EVENT).any() or lines.str.contains('"traces"', literal=True).any():
        return False
    others = lines.filter(~(lines.str.starts_with("{") & lines.str.ends_with("}")))
    return bool(others.str.contains(f"^(?:{_ARRAY_LINE.pattern.decode()})$").all())


def _scan_lines(lines: pl.Series) -> pl.DataFrame:
    """A row per line that has a time."""
    text, number = pl.col("line"), r"(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)"
    figures = {
        name: pl.coalesce(text.str.extract(rf'"{key}"\s*:\s*{number}').cast(pl.Float64, strict=False) for key in keys)
        for name, keys in _FIGURES.items()
    }
    time = text.str.extract(rf'(?:^\[|"time"\s*:)\s*"?{number}').cast(pl.Float64, strict=False)
    return pl.DataFrame({"line": lines}).select(t_ms=time, **figures).drop_nulls("t_ms")


def _decode_events(data: Content) -> pl.DataFrame:
    """As `_scanned`, for every other form of trace."""
    rows = []
    for event in events(data, _METRICS):
        figures = (next((event.data[n] for n in names if n in event.data), None) for names in _FIGURES.values())
        rows.append((event.time, *(float(f) if isinstance(f, int | float) else None for f in figures)))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _in_ms(frame: pl.DataFrame, rtt_ms: float | None) -> pl.DataFrame:
    largest = frame["smoothed_rtt_ms"].max()
    if rtt_ms is None or not isinstance(largest, float) or largest >= rtt_ms / 10:
        return frame
    return frame.with_columns(pl.col(_RTTS) * 1000)


def counts_from_previous(data: Content) -> bool:
    """Whether each event's time counts from the event before."""
    return re.search(rb'"time_format"\s*:\s*"(?:delta|relative_to_previous_event)"', data[:_OPENING]) is not None


def time_unit(data: Content) -> float:
    """The trace's unit of time, in ms."""
    return 1e-3 if re.search(rb'"time_units"\s*:\s*"us"', data[:_OPENING]) else 1.0


def first_time(data: Content) -> float | None:
    """Time of the first event, in the trace's unit; None where events are arrays."""
    match = _TIME.search(data)
    return None if match is None else _number(match[1])


def events(data: Content, word: bytes) -> Iterator[Event]:
    """The events whose text has `word`, in order of the trace."""
    position = data.find(word)
    while position >= 0:
        event, end = event_at(data, position)
        if event is not None:
            yield event
        position = data.find(word, max(end, position + len(word)))


def event_at(data: Content, position: int) -> tuple[Event | None, int]:
    """The event that contains a byte of a trace, and the end of its line; the byte's position where it has no line."""
    start, end = data.rfind(b"\n", 0, position) + 1, data.find(b"\n", position)
    end = len(data) if end < 0 else end
    event = _parse_event(data[start:end].strip(b"\x1e ,\r\t")) if end - start < _MAX_EVENT else None
    return (event, end) if event is not None else (_find_embedded_event(data, position), position)


def _parse_event(text: bytes) -> Event | None:
    """One event: an object, or the array of qlog 0.2 and before."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return _build_event(value)


def _build_event(value: Any) -> Event | None:
    if isinstance(value, list) and len(value) in (4, 5):
        # Time, category and type stand before the data, and picoquic's path ID before the category.
        category, kind = value[1:3] if isinstance(value[1], str) else value[2:4]
        time, name, content = value[0], f"{category}:{kind}", value[-1]
    elif isinstance(value, dict):
        time, content = value.get("time"), value.get("data")
        parts = (value.get("category"), value.get("name") or value.get("type") or value.get("event"))
        name = ":".join(str(part) for part in parts if part)
    else:
        return None
    try:
        return Event(float(time), name.lower(), content) if isinstance(content, dict) else None
    except (TypeError, ValueError):
        return None


def _find_embedded_event(data: Content, position: int) -> Event | None:
    """The event around a word inside contained JSON, decoded from the bracket before the word that begins it."""
    floor = max(0, position - 4096)
    window = data[floor : position + 4096].decode("utf-8", "replace")
    word_at = len(data[floor:position].decode("utf-8", "replace"))
    for bracket in "{[":
        at = window.rfind(bracket, 0, word_at)
        for _ in range(32):
            if at < 0:
                break
            if _may_begin_event(window, at):
                try:
                    value, end = json.JSONDecoder().raw_decode(window, at)
                except ValueError:
                    value, end = None, 0
                fields = _build_event(value)
                if fields is not None and end > word_at:
                    return fields
            at = window.rfind(bracket, 0, at)
    return None


def _may_begin_event(window: str, at: int) -> bool:
    if window[at] == "[":
        return _ARRAY_START.match(window, at) is not None
    return window[at + 1 : at + 64].lstrip().encode().startswith(_EVENT_STARTS)
