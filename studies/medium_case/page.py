"""What decides the medium case: the answers first, then the numbers they rest on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count, format_list
from harness.outcome import Interval
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from harness.report.studies import controller_of, measured_cells
from harness.scenario.schema import Scenario
from studies import FIGURE
from studies.medium_case.claims import INITIAL_WINDOW, LOSSY, SOURCE
from studies.medium_case.compared import (
    Times,
    connection_windows,
    initial_windows,
    middle_by_setting,
    neighbours,
    targets,
    textbook,
)

_SIZES = ("2 MB", "10 MB", "100 MB")
#: The largest window that is looked at for textbook slow start, packets.
_MOST = 2000
#: What changes the server in `studies/medium-neighbours`, and not the path.
_SERVER = "server."


def medium_case(results: Sequence[CellResult]) -> str:
    """The beginning of the page."""
    windows, connection = initial_windows(results), connection_windows(results)
    sentences = [
        *_initial_window_sentences(windows, results),
        *_connection_window_sentence(connection),
        *_own_start_sentence(results, windows),
        *_loss_sentence(results),
        *_neighbour_sentence(results),
    ]
    lines = [
        "# What decides a transfer over a satellite",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        f"The case is that of {SOURCE}. The path has 650 ms and",
        "50/10 Mbit/s. The objectives are 2 MB in 3 s, 10 MB in 5 s and 100 MB in 20 s.",
        "",
        *(f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1)),
        "",
        FIGURE,
        "",
        *_recommendations(windows, connection, results),
        *_window_table(windows, results),
        *_neighbour_table(results),
    ]
    return "\n".join(lines)


def _scenario(results: Sequence[CellResult]) -> Scenario | None:
    cells = measured_cells(results, INITIAL_WINDOW)
    return cells[0].cell.scenario if cells else None


def _initial_window_sentences(windows: Sequence[Times], results: Sequence[CellResult]) -> Iterator[str]:
    scenario, middle = _scenario(results), middle_by_setting(windows)
    if scenario is None or len(middle) < 2:
        return
    least, most = min(middle), max(middle)
    servers = len({row.server for row in windows})
    before, after, expected = (
        " / ".join(map(number_text, times)) for times in (middle[least], middle[most], textbook(scenario, most))
    )
    yield (
        f"**The initial window decides.** {' / '.join(_SIZES)} take {before} s with {least:.0f} packets, and {after} s "
        f"with {most:.0f} (the median of {servers} servers). Textbook slow start from {most:.0f} takes {expected} s."
    )
    clients = format_list(sorted({result.cell.client.name for result in measured_cells(results, INITIAL_WINDOW)}))
    yield (
        "**Servers need different windows to meet all three objectives.** The client is "
        f"{clients}. {' '.join(_passing_texts(windows, targets(scenario)))}"
    )


def _passing_texts(windows: Sequence[Times], goals: Sequence[float]) -> Iterator[str]:
    """Servers by the least window with which they meet the objectives, and how near the others come to them."""
    by_least: dict[float, list[str]] = {}
    for server in dict.fromkeys(row.server for row in windows):
        least = min((row.setting for row in windows if row.server == server and row.passes), default=math.inf)
        by_least.setdefault(least, []).append(server)
    for least, servers in sorted(by_least.items()):
        if math.isfinite(least):
            yield f"{least:.0f} packets are enough for {format_list(servers)}."
            continue
        late = {
            server: min(
                max(span.median - goal for span, goal in zip(row.seconds, goals, strict=True))
                for row in windows
                if row.server == server
            )
            for server in servers
        }
        misses = format_list([f"{server} (by {number_text(seconds)} s)" for server, seconds in late.items()])
        yield f"None of these windows is enough for {misses}."


def _connection_window_sentence(rows: Sequence[Times]) -> Iterator[str]:
    middle = {setting: times[-1] for setting, times in middle_by_setting(rows).items()}
    if len(middle) < 2:
        return
    parts = ", ".join(f"{number_text(seconds)} s with {setting:g}" for setting, seconds in middle.items())
    yield (
        f"**Flow control is a game changer.** 100 MB take {parts} bandwidth-delay products of credit. The credit is "
        f"the client's connection window, and the times are medians of {len({row.server for row in rows})} servers."
    )


def _own_start_sentence(results: Sequence[CellResult], windows: Sequence[Times]) -> Iterator[str]:
    """What makes picoquic fast, by what it is told, what it does, and who does the same."""
    own = [row for row in neighbours(results) if row.changed.startswith(_SERVER)]
    if not own:
        return
    times, met = [row.seconds[-1].median for row in own], sum(row.passes for row in own)
    text = (
        f"**picoquic's own start makes it fast, not its table of parameters.** In {format_count(len(own), 'cell')} it "
        "has Reno, CUBIC or BBR, and an initial window of 10 to 100 packets. 100 MB take "
        f"{number_text(min(times))} to {number_text(max(times))} s. {met} of the cells meet all three objectives."
    )
    flights = [row.first_flight for row in own if row.first_flight is not None]
    if flights:
        span = f"{number_text(min(flights))} to {number_text(max(flights))}"
        text += f" In the first round trip of data it sends {span} packets."
    like_it = [
        row for row in windows if flights and row.setting >= min(flights) and row.passes and row.server != "picoquic"
    ]
    if like_it:
        best = min(like_it, key=lambda row: row.seconds[-1].median)
        text += (
            f" The objectives are met by {format_list(sorted({row.server for row in like_it}))} too if you tell them "
            f"to begin like that. With {best.setting:.0f} packets {best.server} takes {_seconds_text(best.seconds)} s."
        )
    yield text


def _loss_sentence(results: Sequence[CellResult]) -> Iterator[str]:
    by_kind: dict[bool, list[float]] = {}
    for result in measured_cells(results, LOSSY):
        span = result.interval("milestone_10MB", 0, "first")
        if result.cell.virtual_time and span is not None:
            by_kind.setdefault(controller_of(result.cell) in ("reno", "cubic"), []).append(span.median)
    if set(by_kind) != {True, False}:
        return
    classic, others = (min(by_kind[kind]) for kind in (True, False))
    yield (
        f"**At 1 % random loss Reno and CUBIC are out.** At 250 Mbit/s, 10 MB take {number_text(classic)} s at the "
        f"soonest with either ({format_count(len(by_kind[True]), 'cell')}). They take {number_text(others)} s with "
        "others. [Response](response.md) says why."
    )


def _neighbour_sentence(results: Sequence[CellResult]) -> Iterator[str]:
    rows = [row for row in neighbours(results) if not row.changed.startswith(_SERVER)]
    if not rows:
        return
    met, missed = (
        [row.changed.removeprefix("path.forward.") for row in rows if row.passes == wanted] for wanted in (True, False)
    )
    yield (
        f"**The answer holds beside the case, up to a point.** With {len(met)} of {format_count(len(rows), 'change')} "
        "picoquic with itself still meets all three objectives. It misses one with "
        f"{format_list(missed) or 'none of them'}."
    )


def _recommendations(
    windows: Sequence[Times], connection: Sequence[Times], results: Sequence[CellResult]
) -> Iterator[str]:
    scenario = _scenario(results)
    advice = []
    if scenario is not None:
        goals = targets(scenario)
        least = next(
            (
                packets
                for packets in range(1, _MOST)
                if all(time <= goal for time, goal in zip(textbook(scenario, packets), goals, strict=True))
            ),
            None,
        )
        if least is not None:
            advice.append(
                f"Let a server begin with {least} packets and more, or let it [remember the path](remembered.md): with "
                "fewer, textbook slow start misses an objective. It fails where the queue has no room for them."
            )
    middle = {setting: times[-1] for setting, times in middle_by_setting(connection).items()}
    enough = [setting for setting, seconds in middle.items() if seconds <= 1.02 * min(middle.values())]
    if enough:
        lost = {setting: seconds - min(middle.values()) for setting, seconds in middle.items()}
        worst = min(lost)
        advice.append(
            f"Let the client grant {min(enough):g} bandwidth-delay products and more: {worst:g} costs "
            f"{number_text(lost[worst])} s of 100 MB. More does not help."
        )
    slow = _slow_starts(results)
    if slow:
        advice.append(
            "Tell a server with BBR an initial round-trip time that is no less than the path's. "
            + " ".join(slow)
            + " Others do not mind."
        )
    if advice:
        yield "Do this:"
        yield ""
        yield from (f"* {text}" for text in advice)
        yield ""


def _slow_starts(results: Sequence[CellResult]) -> list[str]:
    """Servers whose BBR takes twice as long for 10 MB with one initial RTT as with another."""
    by_server: dict[str, dict[str, list[float]]] = {}
    for result in measured_cells(results, "studies/fraction-50-10"):
        parameters = result.cell.parameters
        span = result.interval("milestone_10MB", 0, "first")
        if parameters.get("server.congestion_control") == "bbr" and "server.initial_rtt" in parameters and span:
            levels = by_server.setdefault(result.cell.server.name, {})
            levels.setdefault(str(parameters["server.initial_rtt"]), []).append(span.median)
    texts = []
    for server, levels in by_server.items():
        medians = sorted((statistics.median(values), level) for level, values in levels.items())
        (best, _), (worst, level) = medians[0], medians[-1]
        if worst > 2 * best:
            texts.append(
                f"With {level}, {server} takes {number_text(worst)} s for 10 MB, and {number_text(best)} s else."
            )
    return texts


def _window_table(windows: Sequence[Times], results: Sequence[CellResult]) -> Iterator[str]:
    scenario = _scenario(results)
    if scenario is None:
        return
    settings = sorted({row.setting for row in windows})
    yield f"## Initial windows (`{INITIAL_WINDOW}`)"
    yield ""
    yield "Seconds of 2 / 10 / 100 MB by packets of the initial window. **Bold** meets all three objectives."
    yield ""
    yield table_row(["server", *(f"{setting:.0f}" for setting in settings)])
    yield table_row(["---", *["---:"] * len(settings)])
    yield table_row(["textbook", *(" / ".join(map(number_text, textbook(scenario, one))) for one in settings)])
    by_server: dict[str, Mapping[float, str]] = {}
    for row in windows:
        by_server[row.server] = {**by_server.get(row.server, {}), row.setting: _cell(row.seconds, row.passes)}
    for server, cells in sorted(by_server.items()):
        yield table_row([server, *(cells.get(setting, "–") for setting in settings)])
    yield ""


def _neighbour_table(results: Sequence[CellResult]) -> Iterator[str]:
    rows = neighbours(results)
    if not rows:
        return
    yield "## Beside the case: picoquic with itself"
    yield ""
    yield table_row(["changed", *_SIZES, "all three"])
    yield table_row(["---", *["---:"] * 3, "---"])
    for row in rows:
        yield table_row([row.changed, *map(span_text, row.seconds), "met" if row.passes else "missed"])
    yield ""


def _seconds_text(seconds: Sequence[Interval]) -> str:
    return " / ".join(number_text(span.median) for span in seconds)


def _cell(seconds: Sequence[Interval], passes: bool) -> str:
    text = _seconds_text(seconds)
    return f"**{text}**" if passes else text
