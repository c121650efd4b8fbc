"""The page of a cell: its verdict, the metrics behind it, the link proof, and the command to repeat it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from harness.analysis.interop import failure_text
from harness.analysis.metric_registry import unit_of
from harness.capture.qlog import counts_from_previous, events, find_traces, read_head, time_unit
from harness.evaluation.cell_result import CellResult, attributions, repeat_command
from harness.evaluation.missing_metrics import run_warnings
from harness.formatting import escape_controls, format_count
from harness.outcome import (
    STATES,
    Attribution,
    Cell,
    DirectionProof,
    InteropCheck,
    Interval,
    LinkProof,
    MeasuredRun,
    Measurement,
    Observation,
    Run,
    State,
    VerdictStatus,
    proven_outcome,
)
from harness.outcome.deviations import configured_values, deviation_sentences, find_deviations, observed_flow
from harness.reading import is_regular
from harness.report.diagnosis import (
    OLDER_RULES_NOTE,
    STATE_NAMES,
    failed_transfers,
    failure_sentence,
    time_sentence,
    uses_older_rules,
)
from harness.report.numbers import number_text, span_text, unit_text
from harness.report.results import SYMBOLS
from harness.report.site.pictures import WIDTH, Received, Scale, objective_scale, received_picture
from harness.scenario.parameters import ROLES
from harness.topology import flow_label

# --- The breakdown of a transfer's time, as a bar and as bands below the bytes over time. Pure.


_STATES: dict[str, State] = {letter: state for state, letter in STATES.items()}
_BAND = re.compile(r"([a-z])([0-9]+)")
#: A segment of the bar narrower than this, in percent of the bar, has no label.
_MIN_LABELLED = 12.0


@dataclass(frozen=True)
class Share:
    """One state of a transfer."""

    state: State
    name: str
    seconds: float
    percent: float
    note: str
    without: float
    """Lower bound of the duration without this state, s."""
    word: str
    """Label in its segment of the bar; empty where there is no room."""


@dataclass(frozen=True)
class TransferBreakdown:
    """One transfer."""

    title: str
    """The transfer's name where the cell has several; else empty."""
    sentence: str
    seconds: float
    shares: tuple[Share, ...]

    @property
    def rows(self) -> list[list[str]]:
        """Its states as rows of a table: transfer, state, seconds, percent, seconds without the state, note."""
        return [
            [self.title, share.name, f"{share.seconds:.2f}", f"{share.percent:.1f}", f"{share.without:.2f}", share.note]
            for share in self.shares
        ]


@dataclass(frozen=True)
class Band:
    """A state's band below the curve, in a picture of width `pictures.WIDTH`."""

    state: State
    x: float
    width: float
    words: str


def time_breakdowns(result: CellResult) -> tuple[TransferBreakdown, ...]:
    """The transfers of a cell's median run; empty where their time was not attributed to states."""
    transfers = attributions(result)
    older = f" {OLDER_RULES_NOTE}" if uses_older_rules(result) else ""
    return tuple(
        TransferBreakdown(
            "" if len(transfers) == 1 else f"flow {attribution.flow}, {attribution.transfer}",
            time_sentence(attribution, result) + older,
            attribution.seconds,
            tuple(_shares(attribution)),
        )
        for attribution in transfers
    )


def _shares(attribution: Attribution) -> Iterator[Share]:
    for part in attribution.parts:
        percent = round(100 * part.seconds / attribution.seconds, 2) if attribution.seconds else 0.0
        name = STATE_NAMES[part.state]
        room = len(name) * 0.9 <= percent and percent >= _MIN_LABELLED
        yield Share(
            part.state,
            name,
            part.seconds,
            percent,
            part.note,
            attribution.bound_without(part.state),
            name if room else "",
        )


def bands(result: CellResult, picture: Received | None) -> tuple[Band, ...]:
    """The bands of the first transfer, on the time axis of a picture of the bytes received."""
    transfers: Sequence[Attribution] = attributions(result)
    if picture is None or not transfers:
        return ()
    attribution, segments, end = transfers[0], list[Band](), 0
    for letter, count in _BAND.findall(attribution.bands):
        state, begin = _STATES[letter], end
        end += int(count)
        left, right = (picture.x(attribution.seconds * part / 100) for part in (begin, end))
        words = (
            f"{STATE_NAMES[state]}, {attribution.seconds * begin / 100:.2f} to {attribution.seconds * end / 100:.2f} s"
        )
        segments.append(Band(state, left, round(min(right, WIDTH) - left, 1), words))
    return tuple(segments)


# --- cell


@dataclass(frozen=True)
class MetricRow:
    """One metric over the runs."""

    name: str
    text: str
    """Median and interval."""
    unit: str
    n: int
    vantage: str


@dataclass(frozen=True)
class CheckLine:
    """One check of a test case over the runs."""

    check: str
    asked: str
    status: VerdictStatus
    """The check as a verdict: pass where it passed in every run, fail where it failed in one."""
    counted: str
    """'2 of 3 runs'."""
    sentence: str
    """The observation, of a run in which the check failed if there is one, with the first wrong packet."""


@dataclass(frozen=True)
class DirectionRow:
    """One direction of the link, as configured and as proven."""

    name: str
    rows: tuple[tuple[str, str, str], ...]
    """(property, configured, observed)."""


@dataclass(frozen=True)
class LinkProofRow:
    """The link proof."""

    valid: bool
    sentence: str
    problems: tuple[str, ...]
    directions: tuple[DirectionRow, ...]


@dataclass(frozen=True)
class ParameterRow:
    """One parameter of one role."""

    role: str
    name: str
    asked: str
    seen: tuple[tuple[str, str], ...]
    """(value with unit, source of the observation)."""
    departs: bool = False
    """Whether another value was observed than the one set."""


@dataclass(frozen=True)
class Qlog:
    """A trace that an endpoint wrote."""

    name: str
    """On the site."""
    whose: str
    """'flow0 server'."""
    run: str
    place: str
    """Below the run's folder."""
    file: Path


@dataclass(frozen=True)
class RunRow:
    """One run of the cell."""

    repetition: int
    name: str
    status: str
    detail: str
    started: str
    took: str
    counts: bool
    """Whether the verdict is based on it."""
    folder: Path
    kept: tuple[tuple[str, Path], ...]
    """(link text, file) of its stored files; empty where only its metrics are stored."""
    qlogs: tuple[Qlog, ...]
    log: tuple[str, ...]


@dataclass(frozen=True)
class CellPage:
    """The page."""

    result: CellResult
    title: str
    symbol: str
    scales: tuple[Scale, ...]
    received: Received | None
    because: tuple[TransferBreakdown, ...]
    """Where the time went."""
    unfinished: tuple[str, ...]
    """A sentence for each transfer that failed."""
    bands: tuple[Band, ...]
    """The same over time, beneath what was received."""
    checks: tuple[CheckLine, ...]
    figures: tuple[MetricRow, ...]
    proof: LinkProofRow
    parameters: tuple[ParameterRow, ...]
    runs: tuple[RunRow, ...]
    again: str
    """A shell command that repeats the last run."""
    warnings: tuple[str, ...]
    departures: tuple[str, ...]
    """The warnings about parameters that were observed at another value than the one set."""
    facts: tuple[tuple[str, str], ...]
    """(name, value): images and versions, kernel, machine."""


def cell_page(result: CellResult) -> CellPage:
    """The page of a cell that has runs. It lists files in the runs' folders, and does not read them."""
    cell, picture = result.cell, received_picture(result)
    return CellPage(
        result,
        result.name if cell.scenario.open_roles else cell.scenario.name,
        SYMBOLS[result.verdict.status][0],
        tuple(objective_scale(result, objective) for objective in result.verdict.objectives),
        picture,
        time_breakdowns(result),
        tuple(failure_sentence(*transfer) for transfer in failed_transfers(result)),
        bands(result, picture),
        tuple(_check_lines(result)),
        tuple(_figures(result)),
        _link_proof_row(result),
        tuple(_parameter_rows(result)),
        tuple(_runs(result)),
        result.reproduction or repeat_command(cell, result.runs[-1][0].repetition, result.words),
        tuple(run_warnings(result.runs, flows_too=True)),
        tuple(deviation_sentences(result.runs)),
        tuple(_facts(result)),
    )


#: With more flows, one row has a metric of all flows and phases: 250 flows have 68,000 metrics.
_MAX_FLOWS_APART = 20
#: In a metric's name, the phase and the flow that it belongs to.
_INDEX = re.compile(r"(phase|flow)\d+_")


def _figures(result: CellResult) -> Iterator[MetricRow]:
    together = len(result.cell.scenario.flows) > _MAX_FLOWS_APART
    rows: dict[str, list[tuple[Interval, Measurement]]] = {}
    for name, metrics in result.measurements_by_name.items():
        span = result.interval(*metrics[0].named)
        if span is not None:
            rows.setdefault(_INDEX.sub(r"\1*_", name) if together else name, []).append((span, metrics[0]))
    for name, items in rows.items():
        (span, metric), medians = items[0], [span.median for span, _ in items]
        text = span_text(span)
        if len(items) > 1:
            text = f"{number_text(median(medians))} [{number_text(min(medians))}, {number_text(max(medians))}]"
        yield MetricRow(name, text, unit_text(unit_of(metric)), sum(span.n for span, _ in items), metric.vantage)


def _check_lines(result: CellResult) -> Iterator[CheckLine]:
    by_name: dict[str, list[InteropCheck]] = {}
    for _, measured in result.runs:
        for check in measured.checks if measured is not None else ():
            by_name.setdefault(check.check, []).append(check)
    for name, checks in by_name.items():
        passed = sum(check.status == "passed" for check in checks)
        failed = next((check for check in checks if check.status == "failed"), None)
        unknown = next((check for check in checks if check.status in ("not_exercised", "unknown")), None)
        status: VerdictStatus = "fail" if failed else "inconclusive" if unknown else "pass"
        summary = failure_text(failed).removeprefix(f"{name}: ") if failed else (unknown or checks[-1]).sentence
        required = "" if checks[0].asked is True else str(checks[0].asked)
        yield CheckLine(name, required, status, f"{passed} of {format_count(len(checks), 'run')}", summary)


# --- the link


def _link_proof_row(result: CellResult) -> LinkProofRow:
    proofs = [measured.link for _, measured in result.runs if measured is not None and measured.link is not None]
    if not proofs:
        return LinkProofRow(False, "No run reached the point where the link can be proven.", (), ())
    valid_proofs = [link for link in proofs if link.valid]
    proof = (valid_proofs or proofs)[-1]
    sentence = (
        f"In {len(valid_proofs)} of {len(result.runs)} runs the emulated path was the one asked for: "
        "delays, rates and drops were held, packet by packet, against an ideal replay of the same arrivals."
        if valid_proofs
        else "In no run was the emulated path the one asked for."
    )
    problems = tuple(dict.fromkeys(problem for link in proofs for problem in link.problems))
    return LinkProofRow(bool(valid_proofs), sentence, problems, tuple(_directions(proof)))


def _directions(link: LinkProof) -> Iterator[DirectionRow]:
    directions = {"to the client": link.to_client, "to the server": link.to_server, **link.further}
    for name, proof in directions.items():
        yield DirectionRow(name, tuple(_direction_rows(proof)))


def _direction_rows(proof: DirectionProof) -> Iterator[tuple[str, str, str]]:
    yield (
        "delay, ms",
        number_text(proof.asked_delay_ms),
        "not seen" if proof.min_delay_ms is None else f"{proof.min_delay_ms:.3f}",
    )
    rate = "never busy for long enough" if proof.rate_mbps is None else f"{proof.rate_mbps:.3f}"
    yield "rate, Mbit/s", number_text(proof.asked_rate_mbps), rate
    yield "packets", "", f"{proof.packets:,}"
    yield "dropped by the queue", "as it must", f"{proof.queue_drops:,}"
    yield "lost at random", "as asked", f"{proof.loss_drops:,}"
    yield "lost and not asked for", "0", f"{proof.unasked_drops:,}"
    if proof.lateness_p50_ms is not None and proof.lateness_p99_ms is not None:
        yield (
            "late by, median and 99th percentile, ms",
            "0",
            f"{proof.lateness_p50_ms:.3f}, {proof.lateness_p99_ms:.3f}",
        )


# --- parameters


def _parameter_rows(result: CellResult) -> Iterator[ParameterRow]:
    """Parameters that were set, with the observations of the last run that has any; then its other observations."""
    cell = result.cell
    run, measured = next(
        ((run, measured) for run, measured in reversed(result.runs) if measured and measured.observed), result.runs[-1]
    )
    observed: Sequence[Observation] = measured.observed if measured is not None else ()
    by_parameter: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for observation in observed:
        by_parameter.setdefault((observation.role, observation.parameter), []).append(
            (_value(observation), observation.source)
        )
    settings = {name: str(value) for name, value in {**run.effective, **cell.parameters}.items()}
    flow = observed_flow(run)
    of_flow = {} if flow is None else {name: key for key, (name, _) in configured_values(run, flow).items()}
    departing = {departure.name for departure in find_deviations(run, measured)}
    for full, value in sorted(settings.items()):
        role, _, name = full.rpartition(".")
        yield ParameterRow(
            role, name, value, tuple(by_parameter.pop(of_flow.get(full, (role, name)), ())), full in departing
        )
    for (role, name), observations in sorted(
        by_parameter.items(), key=lambda item: (ROLES.index(item[0][0]), item[0][1])
    ):
        yield ParameterRow(role, name, "", tuple(observations))


def _value(observation: Observation) -> str:
    value = observation.value if isinstance(observation.value, str) else number_text(observation.value)
    return (
        value if observation.unit in ("1", "") or isinstance(observation.value, str) else f"{value} {observation.unit}"
    )


# --- runs


def _runs(result: CellResult) -> Iterator[RunRow]:
    evidence = set(result.verdict.evidence)
    for (run, measured), folder in zip(result.runs, result.folders, strict=True):
        outcome = proven_outcome(run, measured)
        clock = f"{run.virtual:.1f} s of virtual time in " if run.virtual is not None else ""
        yield RunRow(
            run.repetition,
            run.name,
            outcome.status.replace("_", " "),
            outcome.detail or outcome.reason,
            run.started_at,
            f"{clock}{run.wall:.1f} s",
            str(folder) in evidence,
            folder,
            tuple(_stored_files(folder)),
            tuple(_qlogs(run, folder)),
            outcome.log_tail[-8:] if outcome.status != "completed" else (),
        )


#: Files of a run's folder that the page links → the texts of the links.
_FILES = {
    "run.json": "record",
    "measured.json": "figures",
    "series.parquet": "series",
    "lab.json": "addresses and links",
    "compose.yaml": "the lab, to bring up by hand",
    "sim/captures.tar.zst": "captures",
    "sim/counters.jsonl.zst": "counters of the queues",
}


def _stored_files(folder: Path) -> Iterator[tuple[str, Path]]:
    if not folder.is_dir():
        return
    yield "all of it", folder
    for name, words in _FILES.items():
        if is_regular(folder / name):
            yield words, folder / name


def _qlogs(run: Run, folder: Path) -> Iterator[Qlog]:
    for index, file in enumerate(find_traces(folder) if folder.is_dir() else ()):
        place = file.relative_to(folder)
        name = f"{run.cell.key}-{run.repetition}-{index}"
        yield Qlog(name, " ".join(place.parts[:2]), run.name, place.as_posix(), file)


# --- facts


def _facts(result: CellResult) -> Iterator[tuple[str, str]]:
    cell, last = result.cell, result.runs[-1]
    run: Run = last[0]
    measured: MeasuredRun | None = last[1]
    yield "cell", cell.key
    if 1 < (flows := len(cell.scenario.flows)) <= _MAX_FLOWS_APART:
        yield "flows", ", ".join(f"{index} {flow_label(cell, index)}" for index in range(flows))
    for role in ROLES:
        players = {cell.implementation(role, index).name: index for index in range(len(cell.scenario.flows))}
        for index in players.values():
            implementation, image = cell.implementation(role, index), cell.image(role, index)
            yield (
                role,
                " ".join(
                    filter(
                        None,
                        [
                            implementation.title or implementation.name,
                            implementation.version,
                            f"image {image.identity[:12]}" if implementation.image is None else f"image {image.name}",
                        ],
                    )
                ),
            )
    yield "simulator", cell.sim_image.identity[:12]
    yield "queues of", run.sim_kernel or (measured.link.kernel if measured and measured.link else "")
    yield "seed", str(cell.seed)
    host = run.host
    yield "machine", ", ".join(str(host[name]) for name in ("cpu", "kernel") if host.get(name))
    if run.commit:
        yield "harness", run.commit
    if measured is not None:
        yield "measured by", f"version {measured.version} of the measuring code"


# --- The first events of a qlog, for the viewer of the site. Pure but for reading the file.


#: The most events in the viewer, and the most bytes that are read for them: the trace of 100 MB has 60 MB.
MOST, _READ = 5000, 8_000_000
#: The most characters of an event's data.
_MAX_EVENT_TEXT = 220
#: The "time" key, if events have one, occurs within this many bytes.
_OPENING = 65_536


@dataclass(frozen=True)
class TraceOpening:
    """The beginning of a trace."""

    events: tuple[tuple[float, str, str], ...]
    """(ms since the first, name, what it says)."""
    cut: bool
    """Whether the trace may go on."""


def read_opening(path: Path) -> TraceOpening:
    """The first events of a trace. Raises OSError."""
    data = read_head(path, _READ)
    # If events are arrays, they have no "time" key, but each begins a line.
    word = b'"time"' if b'"time"' in data[:_OPENING] else b"{"
    unit, relative = time_unit(data), counts_from_previous(data)
    rows: list[tuple[float, str, str]] = []
    first, now = None, 0.0
    for event in islice(events(data, word), MOST):
        now = now + event.time if relative else event.time
        first = now if first is None else first
        content = json.dumps(event.data, separators=(", ", ": "), ensure_ascii=False)
        text = content if len(content) <= _MAX_EVENT_TEXT else f"{content[:_MAX_EVENT_TEXT]}…"
        rows.append((round((now - first) * unit, 3), escape_controls(event.name), escape_controls(text)))
    return TraceOpening(tuple(rows), len(rows) == MOST or len(data) == _READ)


# --- Its address.


#: The page of all cells; its address says which cell it shows.
CELL = "cell.html"


def cell_address(cell: Cell) -> str:
    """The address of a cell's page, relative to the site's own folder; assets/site.js parses it."""
    return f"{CELL}?{cell.scenario.name}/{cell.key}"
