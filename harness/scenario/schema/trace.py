"""Traces: files beside a scenario that say how a link's rate, delay or loss changes with time."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, ValidationInfo, model_validator

from harness.errors import UnfitError
from harness.reading import read_regular
from harness.reading.parquet import read_footer
from harness.scenario.schema.base import FILE_BESIDE, Part
from harness.scenario.schema.queue import FRAME_HEADER, MTU
from harness.units import Duration

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

# numpy is imported where it is used: most commands read no trace.

Property = Literal["rate", "delay", "loss"]
"""What a trace may be of."""

#: Keys of pydantic's validation context: the folder of the scenario's file, and a list of the files that the scenario
#: names, which grows as they are read.
FOLDER, NAMED_FILES = "folder", "named files"
#: Of a file, and of a Parquet file's content: an hour of steps of 1 ms in three columns, as text.
MAX_BYTES = 160 << 20
#: Characters of a file that a run's record holds; a longer one must be where the run is made.
MAX_PACKED = 256 << 10
#: The longest trace, and the shortest step of one.
LONGEST, SHORTEST_STEP = Duration.parse("1 h"), Duration.parse("1 ms")
#: What an opportunity of mahimahi's traces carries: a packet of 1500 B with the 4 B that its tunnel device puts ahead
#: (Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", 2015; frontend/link_queue.hh, PACKET_SIZE).
OPPORTUNITY, TUNNEL_HEADER = 1504, 4
#: The same packet as this lab counts it, with its Ethernet header.
_FRAME = MTU + FRAME_HEADER
#: A delay beyond this, or a mean rate below, is one in another unit.
_LONGEST_DELAY, _LOWEST_RATE = Duration.parse("60 s"), 1000.0

#: Column of a time series → (what it is of, units of the model in one of the column's).
COLUMNS: Mapping[str, tuple[Literal["t", "rate", "delay", "loss"], float]] = {
    "t": ("t", 1e9),
    "t_s": ("t", 1e9),
    "t_ms": ("t", 1e6),
    "t_us": ("t", 1e3),
    "t_ns": ("t", 1.0),
    "rate": ("rate", 1.0),
    "rate_bps": ("rate", 1.0),
    "rate_kbps": ("rate", 1e3),
    "rate_mbps": ("rate", 1e6),
    "rate_gbps": ("rate", 1e9),
    "delay": ("delay", 1e9),
    "delay_s": ("delay", 1e9),
    "delay_ms": ("delay", 1e6),
    "delay_us": ("delay", 1e3),
    "delay_ns": ("delay", 1.0),
    "loss": ("loss", 1.0),
    "loss_percent": ("loss", 0.01),
}


@dataclass(frozen=True, eq=False)
class TraceContent:
    """The content of a trace file."""

    times_ns: Ints
    """When each entry begins, from 0 on and rising, shape (n,); of a packet-delivery trace each opportunity's time,
    which never falls."""
    period_ns: int
    """When the last entry ends, and the trace begins again if it repeats."""
    values: Mapping[Property, npt.NDArray[np.float64]]
    """The columns: rate in bit/s, delay in ns, loss as a fraction, each of shape (n,); none of a packet-delivery
    trace."""

    @property
    def has_opportunities(self) -> bool:
        """Whether it is a packet-delivery trace."""
        return not self.values

    def mean(self, name: Property) -> float:
        """The mean over time, in the units of `values`."""
        import numpy as np

        if self.has_opportunities:
            return len(self.times_ns) * _FRAME * 8e9 / self.period_ns
        lengths = np.diff(self.times_ns, append=self.period_ns)
        return float(self.values[name] @ lengths / self.period_ns)

    def least(self, name: Property) -> float:
        """The smallest value; 0 of a packet-delivery trace."""
        return 0.0 if self.has_opportunities else float(self.values[name].min())

    def largest(self, name: Property) -> float:
        """The largest value; of a packet-delivery trace the largest mean rate of 100 ms."""
        import numpy as np

        if not self.has_opportunities:
            return float(self.values[name].max())
        counts = np.bincount(self.times_ns // 100_000_000)
        return float(counts.max()) * _FRAME * 8 * 10


#: In the JSON Schema: a key that nobody writes, since reading the file fills it in.
READ: dict[str, JsonValue] = {"readOnly": True}
#: SHA-256 of a file → its content, for all that this process has read.
_READ: dict[str, TraceContent] = {}


class Trace(Part):
    """A value that follows a file: mahimahi's packet-delivery trace, or a time series (CSV or Parquet)."""

    trace: Annotated[str, Field(pattern=FILE_BESIDE)]
    """The file, in the scenario's folder or below."""
    loop: bool = True
    """It begins again at its end; else its last value stays, and a packet-delivery trace delivers nothing more."""
    offset: Duration | Literal["drawn"] = Duration(0)
    """Where it starts; 'drawn': anywhere, by the run's seed, the same in all places that name the file."""
    digest: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$", json_schema_extra=READ)] = ""
    """SHA-256 of the file, hexadecimal; filled in, or checked where you write it."""
    period: Annotated[Duration, Field(json_schema_extra=READ)] = Duration(0)
    """Its length; filled in."""
    mean: Annotated[float, Field(json_schema_extra=READ)] = 0.0
    """Its mean over time: bit/s, ns, or a fraction; filled in."""
    least: Annotated[float, Field(json_schema_extra=READ)] = 0.0
    """Its smallest value; filled in."""
    largest: Annotated[float, Field(json_schema_extra=READ)] = 0.0
    """Its largest value; filled in."""
    entries: Annotated[int, Field(json_schema_extra=READ)] = 0
    """How many rows or lines it has; filled in."""
    opportunities: Annotated[bool, Field(json_schema_extra=READ)] = False
    """It is a packet-delivery trace; filled in."""
    packed: Annotated[str, Field(json_schema_extra=READ)] = ""
    """The file itself, compressed (zlib, base64), where that is short: so a stored run can be made again anywhere.
    Filled in."""

    @property
    def is_here(self) -> bool:
        """Whether the file's content is known."""
        return self.digest in _READ or bool(self.packed)

    @property
    def content(self) -> TraceContent:
        """The file's content. UnfitError where this process has not read the file, and it is not packed here either."""
        if self.digest not in _READ:
            _READ[self.digest] = parse_trace(self._unpacked(), self.trace)
        return _READ[self.digest]

    def _unpacked(self) -> bytes:
        try:
            data = zlib.decompressobj().decompress(base64.b64decode(self.packed, validate=True), MAX_BYTES)
        except (ValueError, zlib.error):
            data = b""
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise UnfitError(
                f"the trace {self.trace} (SHA-256 {self.digest[:16]}…) is not here", "run its scenario's own file"
            )
        return data

    @model_validator(mode="after")
    def _short(self) -> Self:
        if isinstance(self.offset, Duration) and 0 < self.period.value <= self.offset.value:
            raise UnfitError(
                f"the offset {self.offset} is beyond the end of {self.trace} ({self.period})", "write a shorter one"
            )
        return self


def read_trace(item: Mapping[str, Any], name: Property, info: ValidationInfo) -> Trace:
    """A trace as a scenario names it, with what its file says. UnfitError for a file that is none."""
    written = Trace.model_validate(item)
    folder = (info.context or {}).get(FOLDER)
    if folder is None:
        # It was read before: a scenario that is stored, or whose values were replaced.
        if not written.digest:
            raise UnfitError(f"{name}: a trace is a file beside a scenario's file", "write the scenario into a file")
        return written
    data = read_named_file(written.trace, "the trace ", info.context or {}, MAX_BYTES)
    digest = hashlib.sha256(data).hexdigest()
    if written.digest and written.digest != digest:
        raise UnfitError(
            f"{name}: {written.trace} is another file than the one with the digest {written.digest[:16]}…",
            "leave out digest, or get that file",
        )
    if digest not in _READ:
        _READ[digest] = parse_trace(data, written.trace)
    content = _READ[digest]
    if not content.has_opportunities and name not in content.values:
        raise UnfitError(f"{name}: {written.trace} has no column for it: it has {', '.join(content.values)}", "")
    if content.has_opportunities and name != "rate":
        raise UnfitError(f"{name}: {written.trace} says when packets are delivered, and nothing else", "use a CSV file")
    trace = Trace(
        trace=written.trace,
        loop=written.loop,
        offset=written.offset,
        digest=digest,
        period=Duration(content.period_ns),
        mean=content.mean(name),
        least=content.least(name),
        largest=content.largest(name),
        entries=len(content.times_ns),
        opportunities=content.has_opportunities,
        packed=_pack(data),
    )
    _check_values(trace, name)
    return trace


def _pack(data: bytes) -> str:
    packed = base64.b64encode(zlib.compress(data, 9)).decode()
    return packed if len(packed) <= MAX_PACKED else ""


def read_named_file(name: str, kind: str, context: Mapping[str, Any], limit: int) -> bytes:
    """The content of a file that a scenario names, at most `limit` bytes. UnfitError, which begins with `kind`.

    `context` is that of the validation. The file is added to its NAMED_FILES.
    """
    file = Path(context[FOLDER]) / name
    context[NAMED_FILES].append(file)
    try:
        return read_regular(file.parent.resolve() / file.name, limit)
    except OSError as error:
        text = f"{kind}{name} cannot be read: {error.strerror}"
        raise UnfitError(text, "it stands beside the scenario") from error


def _check_values(trace: Trace, name: Property) -> None:
    if name == "rate" and trace.mean < _LOWEST_RATE:
        raise UnfitError(
            f"rate: {trace.trace} has a mean of {trace.mean:.3g} bit/s: a link needs at least 1 kbit/s",
            "its column counts bit/s; others are rate_kbps, rate_mbps and rate_gbps",
        )
    if name == "delay" and trace.largest > _LONGEST_DELAY.value:
        raise UnfitError(
            f"delay: {trace.trace} has a delay of {trace.largest / 1e9:.4g} s",
            "its column counts s; others are delay_ms, delay_us and delay_ns",
        )
    if name == "loss" and trace.largest > 1:
        raise UnfitError(
            f"loss: {trace.trace} has a loss of {trace.largest:.3g}",
            "its column is a fraction, from 0 to 1; loss_percent counts per cent",
        )


def or_trace(schema: dict[str, Any]) -> None:
    """For a JSON Schema: in place of a value a scenario may name a trace."""
    value = {key: schema.pop(key) for key in ("type", "pattern", "oneOf", "anyOf") if key in schema}
    properties: dict[str, Any] = {
        "trace": {"type": "string", "pattern": FILE_BESIDE},
        "loop": {"type": "boolean"},
        "offset": {"type": "string"},
        "digest": {"type": "string"},
    }
    trace = {"type": "object", "required": ["trace"], "properties": properties, "additionalProperties": False}
    schema["anyOf"] = [value, trace]


# --- The formats.


def parse_trace(data: bytes, name: str) -> TraceContent:
    """The content of a trace file by its name's ending, and without one by its first line. UnfitError says which line.

    A file `.parquet`, `.csv`, or anything else: a line with one whole number, a millisecond, for each opportunity.
    """
    if not data:
        raise UnfitError(f"{name} is empty", "a trace has a line for each opportunity, or for each step")
    if name.endswith(".parquet"):
        return _series(_parquet_columns(data, name), name)
    text = _decode(data, name)
    if name.endswith(".csv") or "," in text.partition("\n")[0]:
        return _series(_csv_columns(text, name), name)
    return _deliveries(text, name)


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnfitError(f"{name} is no text", "a trace is a text, or a file that ends in .parquet") from error


def _deliveries(text: str, name: str) -> TraceContent:
    """Mahimahi's packet-delivery trace: ms, never falling, the last one above 0; the last is also its length."""
    import numpy as np

    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, 1):
        if not re.fullmatch(r"[0-9]{1,8}\r?", line):
            raise UnfitError(
                f"{name}:{number}: {line[:40]!r} is no whole number of milliseconds",
                "a packet-delivery trace has one in each line; a time series is a file .csv with a header",
            )
    times = np.array([int(line) for line in lines], np.int64)
    _require_order(times, name, 1)
    if not times[-1]:
        raise UnfitError(f"{name}: its last opportunity is at 0 ms, so it has no length", "it may be of another unit")
    _require_length(int(times[-1]) * 10**6, name)
    return TraceContent(times * 10**6, int(times[-1]) * 10**6, {})


def _require_order(times: Ints, name: str, first_line: int) -> None:
    import numpy as np

    falls = np.flatnonzero(np.diff(times) < 0)
    if len(falls):
        row = int(falls[0]) + 1
        raise UnfitError(
            f"{name}:{row + first_line}: time goes back, from {times[row - 1]} to {times[row]}", "sort the file by time"
        )


def _require_length(period_ns: int, name: str) -> None:
    if period_ns > LONGEST.value:
        raise UnfitError(
            f"{name} takes {period_ns / 1e9:.6g} s, and {LONGEST.seconds:.0f} s are the most",
            "is the unit the one you meant? else cut it",
        )


def _csv_columns(text: str, name: str) -> dict[str, npt.NDArray[np.float64]]:
    import numpy as np

    header, *_ = text.split("\n", 1)
    names = [column.strip() for column in next(csv.reader([header]))]
    _require_columns(names, name)
    if not any(line.strip() for line in text.split("\n")[1:]):
        return {}
    try:
        table = np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1, ndmin=2, comments="#")
    except ValueError as error:
        raise UnfitError(f"{name}: {error}", "each line has a number for each column of the header") from error
    if table.shape[1] != len(names):
        raise UnfitError(f"{name} has {len(names)} columns in its header and {table.shape[1]} below", "mend the header")
    return {column: table[:, index] for index, column in enumerate(names)}


def _parquet_columns(data: bytes, name: str) -> dict[str, npt.NDArray[np.float64]]:
    # It takes long to load, and few scenarios need it.
    import polars as pl

    try:
        footer = read_footer(io.BytesIO(data), len(data))
        if footer.unpacked > MAX_BYTES:
            raise UnfitError(f"{name} holds more than {MAX_BYTES >> 20} MiB", "leave out columns that nobody needs")
        table = pl.read_parquet(io.BytesIO(data))
        names = [column for column in table.columns if column in COLUMNS]
        _require_columns(names, name)
        return {column: table[column].cast(pl.Float64).to_numpy() for column in names}
    except UnfitError:
        raise
    except (ValueError, OSError, pl.exceptions.PolarsError) as error:
        raise UnfitError(f"{name} is no Parquet file that can be used: {error}", "write it anew") from error


def _require_columns(names: list[str], name: str) -> None:
    for column in names:
        if column not in COLUMNS:
            raise UnfitError(f"{name}: it has a column {column[:40]!r}", f"columns are {', '.join(COLUMNS)}")
    kinds = [COLUMNS[column][0] for column in names]
    if "t" not in kinds or len(kinds) < 2:
        raise UnfitError(f"{name} needs a column of times, and one of rates, delays or losses", "as t_ms,rate_mbps")
    if twice := [kind for kind in dict.fromkeys(kinds) if kinds.count(kind) > 1]:
        raise UnfitError(f"{name} has two columns of {twice[0]}", "leave one out")


def _series(columns: Mapping[str, npt.NDArray[np.float64]], name: str) -> TraceContent:
    """A time series: each row's values hold until the next row, those of the last as long as those before it."""
    import numpy as np

    if len(next(iter(columns.values()), ())) < 2:
        raise UnfitError(f"{name} has fewer than two rows", "a time series needs a row for each step")
    scaled = {COLUMNS[column][0]: values * COLUMNS[column][1] for column, values in columns.items()}
    for kind, values in scaled.items():
        bad = np.flatnonzero(~np.isfinite(values) | (values < 0))
        if len(bad) and kind != "t":
            raise UnfitError(f"{name}:{bad[0] + 2}: its {kind} is no number from 0 on", "mend that row")
    if not np.isfinite(scaled["t"]).all():
        raise UnfitError(f"{name}: a time in it is no number", "mend it")
    times = np.rint(scaled.pop("t")).astype(np.int64)
    _require_order(times, name, 2)
    times -= times[0]
    steps = np.diff(times)
    if steps.min() < SHORTEST_STEP.value:
        row = int(np.argmin(steps)) + 1
        raise UnfitError(
            f"{name}:{row + 2}: a step of {steps.min() / 1e6:.3g} ms, and {SHORTEST_STEP} is the shortest",
            "its times count s; another column is t_ms",
        )
    period = int(times[-1] + steps[-1])
    _require_length(period, name)
    return TraceContent(times, period, {kind: values for kind, values in scaled.items() if kind != "t"})


class Traced(Part):
    """The values of a link that follow traces. Its own keys hold their means."""

    rate: Trace | None = None
    delay: Trace | None = None
    loss: Trace | None = None

    @model_validator(mode="after")
    def _one_course(self) -> Self:
        delay, loss = self.delay, self.loss
        if delay is not None and loss is not None:
            courses = {(trace.digest, trace.loop, str(trace.offset)) for trace in (delay, loss)}
            if len(courses) > 1:
                raise UnfitError(
                    "delay and loss follow one file together, from one moment on",
                    "put both into it, as columns, and give both the same loop and offset",
                )
        return self

    @property
    def transit(self) -> bool:
        """Whether delay or loss follow one."""
        return self.delay is not None or self.loss is not None

    @property
    def all(self) -> tuple[tuple[Property, Trace], ...]:
        """Those that there are, with their names."""
        items: tuple[tuple[Property, Trace | None], ...] = (
            ("rate", self.rate),
            ("delay", self.delay),
            ("loss", self.loss),
        )
        return tuple((name, trace) for name, trace in items if trace is not None)


def replace_traces(data: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    """A link's keys with the means of those that name a trace, and the traces as the key `traced`."""
    if isinstance(service := data.get("service"), dict) and "trace" in service:
        raise UnfitError(
            "a trace says when packets leave, and so the rate: it is no service of its own",
            f"write rate: {{trace: {str(service['trace'])[:60]}}}, and leave out service",
        )
    names: tuple[Property, ...] = ("rate", "delay", "loss")
    written = {name: data[name] for name in names if isinstance(data.get(name), dict) and "trace" in data[name]}
    if not written:
        return data
    traces = {name: read_trace(item, name, info) for name, item in written.items()}
    return {**data, **{name: _text(name, trace.mean) for name, trace in traces.items()}, "traced": Traced(**traces)}


def _text(name: Property, value: float) -> str:
    if name == "rate":
        return f"{round(value)} bit/s"
    return f"{round(value)} ns" if name == "delay" else f"{value * 100:.7f} %"
