"""The end of a `run`: the table, the best, why the others miss, the site, and what to try next. Pure."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult, attributions
from harness.evaluation.ranking import RankedCell, rank_cells
from harness.formatting import format_beyond
from harness.outcome import ENGINES, Cell
from harness.report.compare import MetricComparison
from harness.report.diagnosis import excess_seconds, failure_text, time_text
from harness.report.document import Block, BulletList, Document, Paragraph, Phrase, Span
from harness.report.grid import verdict_grid_blocks
from harness.report.numbers import number_text, unit_text
from harness.report.ranking import BEST_MARK
from harness.report.results import SYMBOLS, group_by_scenario
from harness.scenario.manifest_parameters import Setting
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import PARAMETERS, Role

#: Cells whose reason has a line. With more, a command gives the others.
MAX_REASONS = 20


def closing_document(
    results: Sequence[CellResult],
    *,
    site: str = "",
    compared: Sequence[MetricComparison] = (),
    commands: Sequence[str] | None = None,
) -> Document:
    """What matters of the cells of a `run`, for a terminal.

    `site`: address of the site that was written; empty for none. `compared`: both engines beside each other.
    `commands`: what to try next, instead of what follows from the cells.
    """
    return Document({}, closing_blocks(results, site=site, compared=compared, commands=commands))


def closing_blocks(
    results: Sequence[CellResult],
    *,
    site: str = "",
    compared: Sequence[MetricComparison] = (),
    commands: Sequence[str] | None = None,
) -> list[Block]:
    """The same as blocks. Empty without cells."""
    if not results:
        return []
    blocks: list[Block] = [Paragraph("")]
    for cells in group_by_scenario(results):
        if _is_grid(cells):
            blocks += verdict_grid_blocks(cells)
        blocks.append(_labelled("best", best_text(cells)))
        blocks += _miss_blocks(cells)
    if compared:
        blocks += [_labelled("real time beside virtual time", ""), BulletList(comparison_lines(compared))]
    blocks.append(_labelled("site", site or "none yet: 'harness report html site --open' makes one"))
    suggested = next_commands(results) if commands is None else commands
    return [*blocks, _labelled("try next", ""), BulletList(suggested)]


def _labelled(label: str, text: str) -> Paragraph:
    return Paragraph((Span(f"{label}:", strong=True), f" {text}" if text else ""))


def _is_grid(results: Sequence[CellResult]) -> bool:
    """Whether the cells are pairs on one path with one set of parameters, so that one grid shows all."""
    pairs = {(result.cell.client.name, result.cell.server.name) for result in results}
    return len(results) > 1 and len(pairs) == len(results)


# --- Sentences


def best_text(results: Sequence[CellResult]) -> str:
    """The best cell of one scenario by its first ranking, and how many meet every objective."""
    met = sum(result.verdict.status == "pass" for result in results)
    judged = sum(result.verdict.status in ("pass", "fail") for result in results)
    objectives = f"{met} of {len(results)} meet every objective" if judged else ""
    rankings = rank_cells(results)
    if not rankings:
        result = results[0]
        symbol = SYMBOLS[result.verdict.status][0]
        is_answer = len(results) == 1 and result.verdict.status != "error"
        only = f"{symbol} {result.name}: {result.verdict.sentence.rstrip('.')}" if is_answer else ""
        return only or objectives or "no cell has a figure to rank by"
    ranking = rankings[0]
    cells = [cell for cell in ranking.cells if _is_finite(cell)]
    if not cells:
        return f"no cell completed; {objectives}" if objectives else "no cell completed"
    best = cells[0]
    parts = [f"{BEST_MARK if ranking.has_clear_best else ''} {_name(best)} {_figure(best, ranking.unit)}".strip()]
    if ranking.path_label:
        parts[0] += f" ({ranking.path_label})"
    return "; ".join([*parts, *([objectives] if objectives else [])])


def _is_finite(cell: RankedCell) -> bool:
    return math.isfinite(cell.span.median)


def _name(cell: RankedCell) -> str:
    return cell.result.name


def _figure(cell: RankedCell, unit: str) -> str:
    return f"{number_text(cell.span.median)} {unit_text(unit)}".rstrip()


def _miss_blocks(results: Sequence[CellResult]) -> list[Block]:
    lines = miss_lines(results)
    if not lines:
        return []
    shown: list[Phrase] = list(lines[:MAX_REASONS])
    if len(lines) > MAX_REASONS:
        shown.append(f"… and {len(lines) - MAX_REASONS} more: 'harness report' has them")
    return [_labelled("why the others miss", ""), BulletList(shown)]


def miss_lines(results: Sequence[CellResult]) -> list[str]:
    """A line for each cell that misses an objective or failed, the nearest miss first."""
    late, failed = list[tuple[float, str]](), list[str]()
    for result in results:
        status = result.verdict.status
        if status in ("pass", "measured"):
            continue
        transfers = attributions(result)
        if status == "fail" and transfers:
            excess = excess_seconds(transfers[0], result)
            over = "" if excess is None else f", {format_beyond(excess, 0, 1)} s too late"
            text = f"{result.name}: {transfers[0].seconds:.1f} s{over}: {time_text(transfers[0])}"
            late.append((transfers[0].seconds, text))
        else:
            reason = failure_text(result) or result.verdict.sentence.rstrip(".")
            failed.append(f"{result.name}: {status}: {reason}")
    return [*(text for _, text in sorted(late)), *failed]


def comparison_lines(compared: Sequence[MetricComparison]) -> list[str]:
    """A line for each transfer of a pair: its time in virtual time and in real time, and the difference."""
    lines = []
    for item in compared:
        metric = MetricName.parse(item.metric)
        if metric.metric != "completion":
            continue
        name = "→".join(item.point.pair) + (", second connection" if metric.transfer == "repeat" else "")
        sides = {side.engine: side for side in (item.virtual, item.compose) if side is not None}
        figures = ", ".join(
            f"{_seconds(side.interval.median, item.unit)} in {ENGINES[engine].time}"
            for engine, side in sides.items()
            if side.interval is not None
        )
        if item.difference is None or not math.isfinite(item.difference):
            lines.append(f"{name}: {figures + '; ' if figures else ''}{item.explanation}")
            continue
        # The document's difference is that of virtual time from real time.
        agreement = "they agree" if item.within else item.explanation
        lines.append(f"{name}: {figures} ({item.difference:+.1%}): {agreement}")
    return lines


def _seconds(median: float, unit: str) -> str:
    return f"{number_text(median)} {unit}" if math.isfinite(median) else "did not finish"


def next_commands(results: Sequence[CellResult]) -> list[str]:
    """Three commands that go on from these cells."""
    first = results[0]
    scenario = shlex.quote(first.words.scenario or first.cell.scenario.name)
    store = _option(first.words.options, "--store")
    missing = next((result for result in results if result.verdict.status == "fail" and result.runs), None)
    worst = shlex.quote((missing or first).cell.key[:12])
    client, server = shlex.quote(first.cell.client.name), shlex.quote(first.cell.server.name)
    further = "".join(f" {shlex.quote(word)}" for word in first.words.options)
    why = f"harness why {worst}{store}  # what each cause of lost time is worth"
    plot = f"harness plot {worst}{store}  # window, round trip and queue of one run over time"
    return [
        why if missing is not None else plot,
        f"harness run {scenario} --engine virtual --clients {client} --servers {server}{further} "
        f"--vary {_sweep(first.cell)}  # what one parameter is worth",
        f"harness report html site --open{store}  # every cell with its evidence",
    ]


#: Sweeps that a closing suggests, the most telling first: those whose parameter the endpoint can be told.
_SWEEPS: tuple[tuple[Role, str, str], ...] = (
    ("server", "congestion_control", "cubic,bbr"),
    ("client", "ack_ratio", "2,10"),
    ("server", "initial_cwnd", "10,32"),
)


def _sweep(cell: Cell) -> str:
    """A sweep that this pair can run; of the path where neither endpoint can be told any parameter of `_SWEEPS`."""
    for role, name, values in _SWEEPS:
        setting = (cell.client if role == "client" else cell.server).setting(role, name)
        if setting is not None and setting.settable and _takes(setting, name, values.split(",")):
            return f"{role}.{name}={values}"
    return shlex.quote("path.forward.loss=0 %,0.1 %")


def _takes(setting: Setting, name: str, values: Sequence[str]) -> bool:
    parameter = PARAMETERS[name]
    try:
        for value in values:
            setting.own(parameter, parameter.canonical(value))
    except ValueError:
        return False
    return True


def _option(words: Sequence[str], name: str) -> str:
    """One option of a command with its value, and a space before it; empty where it is not there."""
    for word, value in itertools.pairwise(words):
        if word == name:
            return f" {name} {shlex.quote(value)}"
    return ""
