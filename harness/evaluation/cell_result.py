"""The result of a cell: its runs, their measurements, and the verdict. Reports, plots and studies read it."""

from __future__ import annotations

import math
import shlex
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.engine.compose_file import VARIABLES, compose_text
from harness.engine.images.cache import is_cache
from harness.evaluation.missing_metrics import flow_absences
from harness.outcome import (
    STATES,
    Attributed,
    Attribution,
    Cell,
    Interval,
    MeasuredRun,
    Measurement,
    Run,
    State,
    StateShare,
    Verdict,
    proven_outcome,
)
from harness.planning.endpoint_config import UnsupportedError, effective_parameters, endpoint_parameters
from harness.reading import file_status, read_regular
from harness.scenario.metric_names import MetricName, TransferName
from harness.scenario.schema import Scenario
from harness.stats.intervals import interval
from harness.topology import build_lab

#: Maximum bytes of a file of the lab for manual use: with fifty flows it has a thousandth of that.
MAX_LAB_FILE = 64 << 20


def path_settings_text(cell: Cell) -> str:
    """The parameters of the path and of single flows, in brackets; empty if there are none."""
    pair = endpoint_parameters(cell.parameters)
    settings = [f"{name}={value}" for name, value in cell.parameters.items() if name not in pair]
    return f" ({', '.join(settings)})" if settings else ""


def pair_of(cell: Cell) -> tuple[str, str]:
    """Client and server, each with its requested parameters."""
    names = {"client": cell.client.name, "server": cell.server.name}
    for full, value in sorted(endpoint_parameters(cell.parameters).items()):
        role, _, name = full.partition(".")
        names[role] += f" {name}={value}"
    return names["client"], names["server"]


def cell_names(cell: Cell) -> list[str]:
    """All names of a cell in tables, lists and progress lines, with and without its scenario, and its key."""
    bare, path_settings = f"{cell.client.name}→{cell.server.name}", path_settings_text(cell)
    with_parameters = " ".join([bare, *(f"{name}={value}" for name, value in cell.parameters.items())])
    pairs = dict.fromkeys(["→".join(pair_of(cell)) + path_settings, bare + path_settings, with_parameters, bare])
    names = [*pairs, *(f"{cell.scenario.name} {pair}" for pair in pairs)]
    return [cell.key, *names, *(name.replace("→", "->") for name in names)]


def point_of(cell: Cell) -> tuple[object, ...]:
    """The identity of a cell for people, independent of code and image versions."""
    return (
        cell.scenario.name,
        cell.client.name,
        cell.server.name,
        cell.engine,
        cell.seed,
        cell.host_cpu,
        tuple(sorted(cell.parameters.items())),
    )


def initial_window_bytes(cell: Cell) -> int:
    """Initial congestion window of the first flow's sender, bytes: as configured, else ten packets of 1200 bytes (RFC
    9002 §7.2).
    """
    effective = effective_parameters(cell, 0)
    return int(effective.get(f"{cell.scenario.flows[0].sender}.initial_cwnd", 10)) * 1200


def newest(results: Sequence[CellResult]) -> CellResult:
    """The result with the run that began last. Others may be of an older definition of their scenario.

    Raises ValueError without results.
    """
    return max(results, key=lambda result: max((run.started_at for run, _ in result.runs), default=""))


def current_scenario(results: Sequence[CellResult]) -> Scenario:
    """The definition of their scenario that the newest result has: title, metrics and objectives of a table of them.

    Raises ValueError without results.
    """
    return newest(results).cell.scenario


def is_observation(run: Run, measured: MeasuredRun | None) -> bool:
    """Whether a run's figures count: it completed, or its transfer failed."""
    outcome = proven_outcome(run, measured)
    return outcome.status == "completed" or outcome.failed_transfer


def unreached_value(run: Run, name: MetricName, *, failed: bool) -> float | None:
    """The value of a metric for a run whose transfer failed too early to have it: infinite time, or zero goodput.

    `failed`: whether the transfer failed. None if it did not, or if the metric is not one that a transfer reaches. Any
    other missing value is unknown: some are left out as too vague (`harness.analysis.metrics.times`).
    """
    flows, number = run.cell.scenario.flows, name.flow or 0
    if not failed or (name.phase, name.move) != (None, None) or number >= len(flows):
        return None
    flow, is_repeat = flows[number], name.transfer == "repeat"
    if flow.carried is None or (is_repeat and flow.repeat_after is None):
        return None
    size = {
        **{f"milestone_{size.label()}": size.bytes for size in run.cell.scenario.milestones_within()},
        "completion": flow.carried.bytes,
        "goodput": flow.carried.bytes,
        "first_byte": 1,
        "handshake": 1,
    }.get(name.metric)
    if size is None:
        return None
    received = next(
        (
            transfer.received
            for transfer in run.transfers
            if (transfer.flow, transfer.index) == (number, int(is_repeat))
        ),
        0,
    )
    if received >= size > 0:
        return None
    return 0.0 if name.metric == "goodput" else math.inf


@dataclass(frozen=True)
class CommandWords:
    """The words of a command line that the cell itself does not know."""

    scenario: str = ""
    """The scenario's file, where its name alone does not find it; empty where it does."""
    options: tuple[str, ...] = ()
    """Further options: `--store`, `--image`, `--manifest`, each followed by its value."""


@dataclass(frozen=True)
class CellResult:
    """The runs of one cell, and their verdict."""

    cell: Cell
    runs: tuple[tuple[Run, MeasuredRun | None], ...]
    verdict: Verdict
    folders: tuple[Path, ...]
    """Folder of each run."""
    staleness: tuple[str, ...] = ()
    """What of it is not of today, in words (see `harness.evaluation.staleness`); empty where all is, or nobody asked.
    """
    words: CommandWords = CommandWords()
    """What a command that runs the cell again has to name besides the cell's own parts."""

    @cached_property
    def outcomes(self) -> dict[str, int]:
        """Outcome → number of runs."""
        return dict(sorted(Counter(proven_outcome(run, measured).status for run, measured in self.runs).items()))

    @property
    def all_completed(self) -> bool:
        """Whether every run completed."""
        return self.outcomes.get("completed", 0) == len(self.runs)

    @cached_property
    def measurements(self) -> dict[MetricName, list[Measurement]]:
        """Metric → measurements of the runs that completed, or reached the metric before their transfer failed."""
        by_metric: dict[MetricName, list[Measurement]] = {}
        for run, measured in self.runs:
            if measured is not None and is_observation(run, measured):
                for measurement in measured.measurements:
                    by_metric.setdefault(measurement.named, []).append(measurement)
        return by_metric

    @cached_property
    def measurements_by_name(self) -> dict[str, list[Measurement]]:
        """The same by the names that people use, sorted."""
        flows = len(self.cell.scenario.flows)
        named = ((name.text(flows), measurements) for name, measurements in self.measurements.items())
        return dict(sorted(named, key=lambda item: item[0]))

    @cached_property
    def _values(self) -> dict[tuple[object, ...], list[float]]:
        return {
            name.key: [measurement.value for measurement in measurements]
            for name, measurements in self.measurements.items()
        }

    def values(
        self,
        metric: str,
        flow: int | None = None,
        transfer: TransferName | None = None,
        phase: int | None = None,
        move: int | None = None,
    ) -> list[float]:
        """Values of exactly this metric (see `MetricName`), one per run; infinite if a transfer did not reach it."""
        name = MetricName(metric, flow, transfer, phase, move)
        return [*self._values.get(name.key, []), *self.failed_values(name)]

    def failed_values(self, name: MetricName) -> list[float]:
        """The values of the runs whose transfers failed before they reached a metric, one per run."""
        return [
            value
            for run, measured in self._failed
            if measured.value(*name) is None and (value := unreached_value(run, name, failed=True)) is not None
        ]

    @cached_property
    def _failed(self) -> list[tuple[Run, MeasuredRun]]:
        return [
            (run, measured)
            for run, measured in self.runs
            if measured is not None and proven_outcome(run, measured).failed_transfer
        ]

    def interval(
        self,
        metric: str,
        flow: int | None = None,
        transfer: TransferName | None = None,
        phase: int | None = None,
        move: int | None = None,
    ) -> Interval | None:
        """Median and interval of exactly this metric, or None if it was not measured."""
        values = self.values(metric, flow, transfer, phase, move)
        return interval(values) if values else None

    @property
    def pair(self) -> tuple[str, str]:
        """Client and server, each with its requested parameters."""
        return pair_of(self.cell)

    @property
    def name(self) -> str:
        """The cell for people: the pair, and the parameters of the path and of single flows."""
        return "→".join(self.pair) + path_settings_text(self.cell)

    @property
    def shortfall(self) -> str:
        """How many runs completed, and why the others did not, for the first of each status; empty if all did."""
        reasons: dict[str, str] = {}
        for run, measured in self.runs:
            outcome = proven_outcome(run, measured)
            reasons.setdefault(outcome.status, outcome.detail or outcome.reason)
        parts = [
            f"{count} {status.replace('_', ' ')}" + (f" ({reasons[status].rstrip('.')})" if reasons[status] else "")
            for status, count in self.outcomes.items()
            if status != "completed"
        ]
        return f"{self.outcomes.get('completed', 0)} of {len(self.runs)} completed: {'; '.join(parts)}" if parts else ""

    @property
    def absences(self) -> dict[str, int]:
        """Sentence that explains why metrics of flows are missing or lack samples → number of runs."""
        flows = len(self.cell.scenario.flows)
        run_texts = [flow_absences(measured, flows) for _, measured in self.runs if measured is not None]
        return dict(Counter(text for texts in run_texts for text in texts))

    @property
    def last(self) -> tuple[Run, MeasuredRun | None, Path] | None:
        """The last run, with its folder."""
        if not self.runs:
            return None
        run, measured = self.runs[-1]
        return run, measured, self.folders[-1]

    @property
    def reproduction(self) -> str:
        """A shell command that repeats the last run; empty if there is none.

        In real time it starts the lab from the run's own files, if they are as this harness writes them. Virtual time
        has no such lab.
        """
        if self.last is None:
            return ""
        run, _, folder = self.last
        if self.cell.virtual_time:
            return repeat_command(self.cell, run.repetition, self.words)
        if file_status(folder.resolve() / "compose.yaml") is None:
            return ""
        if not _is_lab_of(run, folder.resolve()):
            return repeat_command(self.cell, run.repetition, self.words)
        files = ["--env-file", str(folder / "cell.env"), "-f", str(folder / "compose.yaml")]
        return shlex.join(["docker", "compose", *files, "up", "--abort-on-container-exit"])


def _is_lab_of(run: Run, folder: Path) -> bool:
    """Whether the lab files in a run's folder are as this harness writes them for that run on this machine.

    Docker does what the files say, and they may come from somebody else: a file may mount any folder.
    """
    try:
        compose = read_regular(folder / "compose.yaml", MAX_LAB_FILE).decode()
        lines = read_regular(folder / "cell.env", MAX_LAB_FILE).decode().splitlines()
        lab = compose_text(build_lab(run.cell, run.repetition))
    except (OSError, ValueError, UnsupportedError):
        return False
    env = {name: value for name, _, value in (line.partition("=") for line in lines)}
    if compose != lab or len(env) != len(lines) or env.keys() != set(VARIABLES):
        return False
    if (env["LAB_PLAN"], env["LAB_OUT"], env["LAB_OWNER"]) != ("./plan", "./by-hand", "by-hand"):
        return False
    www, certificates = Path(env["LAB_WWW"]), Path(env["LAB_CERTS"])
    cache = www.parent
    parts = (www.name, certificates.name.partition("-")[0], certificates.parent)
    return parts == ("www", "certs", cache) and cache.is_absolute() and ".." not in cache.parts and is_cache(cache)


def repeat_command(cell: Cell, repetition: int, further: CommandWords = CommandWords()) -> str:
    """A shell command that makes a repetition of a cell again with its engine."""
    words = [
        "harness",
        "run",
        further.scenario or cell.scenario.name,
        "--clients",
        cell.client.name,
        "--servers",
        cell.server.name,
    ]
    words += ["--engine", cell.engine, "--seed", str(cell.seed), "--repeat", str(repetition + 1)]
    for name, value in sorted(cell.parameters.items()):
        words += ["--set", f"{name}={value}"]
    return ("HARNESS_CPU=host " if cell.host_cpu else "") + shlex.join([*words, *further.options, "--fresh"])


# --- Where the time of a cell's transfers went.


#: States that every transfer needs.
_REQUIRED_STATES: tuple[State, ...] = ("handshake", "request", "line_rate")
#: Texts omit states below this share of the transfer's time.
MIN_SHARE = 0.01


def median_attribution(result: CellResult) -> Attributed | None:
    """Return the completed run whose first transfer took the median time. None without such a run."""
    completed = [
        measured.attributed
        for run, measured in result.runs
        if measured is not None
        and measured.attributed is not None
        and measured.attributed.transfers
        and proven_outcome(run, measured).status == "completed"
    ]
    ordered = sorted(completed, key=lambda attributed: attributed.transfers[0].seconds)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def attributions(result: CellResult) -> list[Attribution]:
    """The attributions of the cell's median run, one per transfer."""
    median_run = median_attribution(result)
    return [] if median_run is None else list(median_run.transfers)


def notable_parts(transfer: Attribution) -> list[StateShare]:
    """The time in states that not every transfer needs, the largest first, without negligible parts."""
    least = MIN_SHARE * transfer.seconds
    return sorted(
        (part for part in transfer.parts if part.state not in _REQUIRED_STATES and part.seconds >= least),
        key=lambda part: -part.seconds,
    )


#: A state's change is named from this share of the longer transfer's time on.
_NAMED_CHANGE = 0.01


def state_changes(before: CellResult, after: CellResult) -> dict[State, tuple[float, float]]:
    """State of the first transfer → seconds before and after, medians over runs, the largest change first.

    Without negligible changes; empty where a side has no run whose time was attributed.
    """
    earlier, later = _state_times(before), _state_times(after)
    if not earlier or not later:
        return {}
    least = _NAMED_CHANGE * max(sum(earlier.values()), sum(later.values()))
    named = [state for state in STATES if abs(later[state] - earlier[state]) >= least]
    return {
        state: (earlier[state], later[state])
        for state in sorted(named, key=lambda state: -abs(later[state] - earlier[state]))
    }


def _state_times(result: CellResult) -> dict[State, float]:
    first = [
        attribution
        for run, measured in result.runs
        if measured is not None and measured.attributed is not None and is_observation(run, measured)
        if (attribution := measured.attributed.of()) is not None
    ]
    return {state: statistics.median(item.seconds_in(state) for item in first) for state in STATES} if first else {}
