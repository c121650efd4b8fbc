"""The parts of pages that are generated from the model and from stored runs, between markers."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from harness.analysis.interop.registry import case_of
from harness.analysis.metrics.wire import EXCESS, stored_excess
from harness.doe.interventions import Explained
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult, attributions, notable_parts
from harness.evaluation.objective_claim import judged, meeting_pairs
from harness.formatting import format_count, format_list
from harness.outcome import Attribution, Interval, proven_outcome
from harness.report.compare import comparison_blocks, comparisons
from harness.report.diagnosis import STATE_NAMES, diagnosis_blocks
from harness.report.document import Block, Column, Row, Table
from harness.report.grid import grid_blocks, verdict_grid_blocks
from harness.report.markdown import render_blocks, render_markdown
from harness.report.parameters import defaults, defaults_blocks, observations, vocabulary_document
from harness.report.results import group_by_scenario, results_blocks, slowest_families, total_effort, totals_blocks
from harness.report.studies import Drawing
from harness.report.why import why_blocks
from harness.scenario.schema import Implementation
from studies import findings
from studies.charts import Axis, Mark, draw_rows
from studies.coexistence.claims import PATHS, QUEUE
from studies.coexistence.compared import contests
from tools.reference.study_pages import image_line

#: The scenario that `make run` runs: its verdicts stand in the README, its tables on the page of results.
SHOWN = "satellite/medium"
#: The scenario in which everyone meets everyone; it stands there as a grid.
EVERYONE = "interop/medium-10mb"


def between(text: str, name: str, content: str, page: str) -> str:
    """A page's text with what stands between two markers made anew. InputError when they are missing."""
    before, begin, rest = text.partition(f"<!-- {name} -->")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise InputError(f"{page} lacks the markers <!-- {name} --> and <!-- /{name} -->")
    return f"{before}{begin}\n{content}{end}{after}"


def with_verdicts(text: str, results: Sequence[CellResult]) -> str:
    """The README's text with its tables made anew: who meets the objectives with its own settings, and why others, with
    whatever settings, do not. InputError when the markers are missing.
    """
    shown = [result for result in results if result.cell.scenario.name == SHOWN and result.cell.virtual_time]
    plain = [result for result in shown if not result.cell.parameters]
    tables = render_blocks([*verdict_grid_blocks(plain, _beside_tcp(results)), *diagnosis_blocks(shown)])
    content = "\n".join(filter(None, [tables, _totals(results)]))
    return between(text, "verdicts", content, "the README")


def _beside_tcp(results: Sequence[CellResult]) -> dict[str, dict[str, str]]:
    """What each server leaves to TCP on a link of both, by path: what it costs others that it wins."""
    rows = {
        f"TCP beside it, {path}, {QUEUE}": {
            contest.server: f"{contest.tcp.median:.1f} of {contest.own.median + contest.tcp.median:.1f} Mbit/s"
            for contest in contests(results, scenario)
        }
        for scenario, path in PATHS.items()
    }
    return {title: texts for title, texts in rows.items() if texts}


def _totals(results: Sequence[CellResult]) -> str:
    """What all runs in virtual time took together; empty without any."""
    simulated = [result for result in results if result.cell.virtual_time and result.runs]
    runs, virtual, wall = total_effort(simulated)
    if not wall:
        return ""
    longest = ", ".join(f"`{name}` {seconds / 3600:.1f} h" for name, seconds in slowest_families(simulated, 3))
    return (
        f"Other releases aside, all pages rest on {len(simulated):,} cells in virtual time. Their {runs:,} runs' "
        f"transfers took {virtual / 3600:,.1f} h of virtual time. With the labs' set-up that was {wall / 3600:,.1f} h "
        f"of one core, without measuring. That is {virtual / wall:.1f} times real time, or {3600 * runs / wall:,.0f} "
        f"runs an hour and core. Longest were {longest}.\n"
    )


def with_implementations(text: str, implementations: Sequence[Implementation]) -> str:
    """The README's text with the names of the implementations made anew, the tested ones first. InputError likewise."""
    tested = [item.name for item in implementations if item.tested]
    untested = [item.name for item in implementations if not item.tested]
    content = (
        f"* Built here and tested ({len(tested)}): {', '.join(tested)}.\n"
        f"* By manifest alone, never run by us ({len(untested)}): {', '.join(untested)}.\n"
    )
    return between(text, "implementations", content, "the README")


def with_results(text: str, results: Sequence[CellResult], claims: str, drawn: Collection[str] = ()) -> str:
    """The text of docs/results.md with its tables made anew, the studies' claims below. InputError likewise.

    `drawn`: files of figures that are there.
    """
    shown = [result for result in results if result.cell.scenario.name == SHOWN]
    everyone = [result for result in results if result.cell.scenario.name == EVERYONE]
    page = "docs/results.md"
    figure = filter(None, [image_line(TIMES.caption, TIMES.file, drawn)])
    opening = [*findings(_sentences(results)), *figure, render_blocks(grid_blocks(everyone))]
    text = between(text, "findings", "\n".join(opening), page)
    tables = render_blocks([*totals_blocks(results), *results_blocks(shown)])
    return between(text, "results", f"{tables}\n{claims}", page)


def _times(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of each server's time in the grid of all pairs, over its clients; None without runs."""
    by_server: dict[str, list[float]] = {}
    for result in results:
        span = result.interval("completion", 0, "first")
        if result.cell.scenario.name == EVERYONE and not result.cell.parameters and span is not None:
            by_server.setdefault(result.cell.server.name, []).append(span.median)
    marks = []
    for name, times in by_server.items():
        ends = {"low": min(times), "high": max(times), "coverage": 1 - 2 ** (1 - len(times))}
        marks.append(Mark(name, "10 MB", Interval(n=len(times), median=statistics.median(times), **ends)))
    return draw_rows(
        sorted(marks, key=lambda mark: mark.span.median),
        Axis("seconds to the last byte", alt.Scale(zero=True)),
        "10 MB on the medium case, by server",
        ["a point is the median over the clients, a line goes from the soonest client to the latest"],
    )


#: The figure of docs/results.md.
TIMES = Drawing("everyone-times.svg", "How long each server takes for 10 MB on the medium case", _times)


def _sentences(results: Sequence[CellResult]) -> Iterator[str]:
    """Which satellite cases any pair meets all objectives of, and the quickest and the slowest of all pairs."""
    if not results:
        return
    runs, _, _ = total_effort(results)
    yield f"The store has {runs:,} runs of {len(results):,} cells."
    asked = [
        result
        for result in judged(results)
        if (cell := result.cell).scenario.name.startswith("satellite/")
        and cell.scenario.objectives
        and cell.virtual_time
    ]
    met, missed = list[str](), list[str]()
    for group in group_by_scenario(asked):
        name, meeting = f"`{group[0].cell.scenario.name}`", meeting_pairs(group)
        pairs = format_list([f"{' → '.join(_pair(result))}" for result in meeting])
        if meeting:
            count = f"{len(meeting)} of {format_count(len(group), 'pair')}"
            verb = "meets" if len(meeting) == 1 else "meet"
            met.append(f"{count} {verb} all objectives of {name} in virtual time: {pairs}.")
        else:
            missed.append(f"{name} ({len(group)})")
    yield from met
    if missed:
        yield (
            f"No pair is shown to meet all objectives of {format_list(missed)}; "
            "the number of pairs that were held against them stands in brackets."
        )
    times = {
        " → ".join(_pair(result)): span.median
        for result in results
        if result.cell.scenario.name == EVERYONE and not result.cell.parameters
        if (span := result.interval("completion", 0, "first")) is not None and math.isfinite(span.median)
    }
    if times:
        first, last = (choose(times, key=lambda name: times[name]) for choose in (min, max))
        yield (
            f"{format_count(len(times), 'pair')} end in the grid below: {first} soonest ({times[first]:.1f} s), "
            f"and {last} latest ({times[last]:.1f} s)."
        )


def _pair(result: CellResult) -> tuple[str, str]:
    return result.cell.client.name, result.cell.server.name


def with_experiments(text: str, entries: Sequence[Explained], results: Sequence[CellResult], figure: str = "") -> str:
    """The text of docs/because.md with the experiments on the README's cells made anew, and what the README's matrix
    (`results`) shows. `figure`: the line that shows it. InputError likewise.
    """
    opening = "\n".join([*findings(_causes(results)), *filter(None, [figure])])
    text = between(text, "findings", opening, "docs/because.md")
    content = render_blocks(why_blocks(entries)) if entries else "No experiment is stored.\n"
    return between(text, "why", content, "docs/because.md")


def plain_transfers(results: Sequence[CellResult]) -> dict[str, Attribution]:
    """Pair → its transfer in the README's matrix; pairs with their own settings that completed."""
    return {
        result.name: transfers[0]
        for result in results
        if (cell := result.cell).scenario.name == SHOWN and cell.virtual_time and not cell.parameters
        if (transfers := attributions(result))
    }


def _causes(results: Sequence[CellResult]) -> Iterator[str]:
    """Where the pairs of the README's matrix lose most of their time."""
    transfers = list(plain_transfers(results).values())
    largest = Counter(parts[0].state for transfer in transfers if (parts := notable_parts(transfer)))
    if not largest:
        return
    names = format_list([f"{STATE_NAMES[state]} ({count})" for state, count in largest.most_common()])
    yield (
        f"Most time beyond what every transfer needs goes to {names}, in {format_count(len(transfers), 'pair')} of the "
        "README's matrix that completed."
    )
    shares = [transfer.seconds_in("line_rate") / transfer.seconds for transfer in transfers]
    starts = [transfer.seconds_in("slow_start") for transfer in transfers]
    yield (
        f"The link sends at its rate for {min(shares):.0%} to {max(shares):.0%} of the time. Slow start takes "
        f"{statistics.median(starts):.1f} s in the middle, from {min(starts):.1f} to {max(starts):.1f} s."
    )


def with_datagrams(text: str, results: Sequence[CellResult]) -> str:
    """The text of docs/limits.md with the distribution of datagrams beyond need made anew. InputError likewise."""
    excesses: dict[str, list[float]] = {}
    for result in results:
        flow = result.cell.scenario.flows[0]
        if flow.kind != "quic" or flow.amount is None or flow.schedule:
            continue
        sender = result.cell.implementation(flow.sender, 0)
        for run, measured in result.runs:
            if measured is None or proven_outcome(run, measured).status != "completed":
                continue
            if (excess := stored_excess(measured, flow.sender, result.cell.scenario.ip_version)) is not None:
                excesses.setdefault(sender.base_name, []).append(excess)
    return between(text, "datagrams", render_blocks(_datagram_blocks(excesses)), "docs/limits.md")


def _datagram_blocks(excesses: Mapping[str, Sequence[float]]) -> list[Block]:
    """Senders with a run that gets the caution, then all others as one."""
    above = {name for name, values in excesses.items() if max(values) >= EXCESS}
    groups = {name: excesses[name] for name in sorted(above)}
    ordinary = [value for name, values in excesses.items() if name not in above for value in values]
    groups |= {"every other sender": ordinary} if ordinary else {}
    columns = [Column("sender"), *(Column(name, right=True) for name in ("runs", "median", "95 %", "most", "cautions"))]
    rows = [
        Row(
            [
                name,
                f"{len(values):,}",
                f"{np.median(values):.2f}",
                f"{np.quantile(values, 0.95):.2f}",
                f"{max(values):.2f}",
                f"{sum(value >= EXCESS for value in values):,}",
            ]
        )
        for name, values in groups.items()
    ]
    return [Table(columns, rows)]


def with_parameters(text: str, implementations: Sequence[Implementation], results: Sequence[CellResult]) -> str:
    """The text of images/PARAMETERS.md with the vocabulary and the defaults made anew."""
    page = "images/PARAMETERS.md"
    known = [item for item in implementations if item.parameters]
    table = render_blocks(defaults_blocks(defaults(known, observations(results))))
    return between(between(text, "parameters", render_markdown(vocabulary_document()), page), "defaults", table, page)


def reference_page(results: Sequence[CellResult]) -> str:
    """The page with every table, beside the runs themselves."""
    head = (
        "# Reference runs\n\nThe runs behind the README: run.json and measured.json of each, without their artefacts. "
        "This page is generated\n(`make generate`).\n\n"
    )
    every = render_blocks(totals_blocks(results))
    # Whose verdicts come from checks stand as a matrix on a page of their own, and cells of a design by their effects.
    results = [
        result
        for result in results
        if case_of(result.cell.scenario.name) is None and result.cell.scenario.study is None
    ]
    # Most cells run in virtual time alone.
    compared = [comparison for comparison in comparisons(results) if comparison.compose is not None]
    both = f"## Real time against virtual time\n\n{render_blocks(comparison_blocks(compared))}"
    cases = (
        "The test cases of the interop runner are on [a page of their own](../../docs/interop.md), and so is "
        "[what the factors of studies are worth](../../docs/studies.md).\n"
    )
    return f"{head}{every}\n{cases}\n{render_blocks(results_blocks(results))}\n{both}"
