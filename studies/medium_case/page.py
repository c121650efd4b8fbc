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
from studies.medium_case.claims import CONTROLLERS, INITIAL_RTT, INITIAL_WINDOW, LOSSY, SOURCE
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
#: Controllers of RFC 5681 and RFC 9438, and their names in prose.
_CLASSIC = {"reno": "Reno", "cubic": "CUBIC"}
_ANSWERS = {"meets": "met", "misses": "missed", "undecided": "not decided"}


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
    for server, packets in _least_windows(windows).items():
        by_least.setdefault(packets, []).append(server)
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


def _least_windows(windows: Sequence[Times]) -> dict[str, float]:
    """Server → the least window with which it meets the objectives, packets; infinite if none of them is enough."""
    return {
        server: min((row.setting for row in windows if row.server == server and row.passes), default=math.inf)
        for server in dict.fromkeys(row.server for row in windows)
    }


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
    times, met = [row.seconds[-1].median for row in own], sum(row.answer == "meets" for row in own)
    text = (
        f"**picoquic's own start makes it fast, not its table of parameters.** In {format_count(len(own), 'cell')} it "
        "has Reno, CUBIC or BBR, and an initial window of 10 to 100 packets. 100 MB take "
        f"{number_text(min(times))} to {number_text(max(times))} s. {met} of the cells meet all three objectives."
    )
    flights = [row.first_flight for row in own if row.first_flight is not None]
    if flights:
        span = f"{number_text(min(flights))} to {number_text(max(flights))}"
        text += f" In the first round trip of data it sends {span} packets."
    least = {server: packets for server, packets in _least_windows(windows).items() if server != "picoquic"}
    enough = {server: packets for server, packets in least.items() if math.isfinite(packets)}
    if enough:
        packets = max(enough.values())
        best = min(
            (row for row in windows if row.server in enough and row.setting == packets),
            key=lambda row: row.seconds[-1].median,
        )
        text += (
            f" The objectives are met by {format_list(sorted(enough))}, too, if you tell them to begin with "
            f"{packets:.0f} packets: {best.server} then takes {_seconds_text(best.seconds)} s."
        )
    yield text


def _loss_sentence(results: Sequence[CellResult]) -> Iterator[str]:
    """Reno and CUBIC beside other controllers, each server's own or told. A server whose CUBIC keeps up is named."""
    by_controller: dict[tuple[str, str], list[float]] = {}
    for result in [*measured_cells(results, LOSSY), *measured_cells(results, CONTROLLERS)]:
        span = result.interval("milestone_10MB", 0, "first")
        if result.cell.virtual_time and span is not None:
            key = result.cell.server.name, controller_of(result.cell)
            by_controller.setdefault(key, []).append(span.median)
    classic = {key: times for key, times in by_controller.items() if key[1] in _CLASSIC}
    others = [min(times) for key, times in by_controller.items() if key not in classic]
    if not classic or not others:
        return
    best = min(others)
    kept_up = {key: times for key, times in classic.items() if statistics.median(times) < 2 * best}
    rest = [seconds for key, times in classic.items() if key not in kept_up for seconds in times]
    if not rest:
        return
    aside = format_list([f"{server}'s {_CLASSIC[name]}" for server, name in kept_up])
    yield (
        f"**At 1 % random loss Reno and CUBIC are out{f', {aside} aside' if aside else ''}.** At 250 Mbit/s, 10 MB "
        f"take {number_text(min(rest))} s at the soonest with either ({format_count(len(rest), 'cell')}). They take "
        f"{number_text(best)} s with others."
        + "".join(
            f" {server}'s {_CLASSIC[name]} takes {number_text(statistics.median(times))} s at the median."
            for (server, name), times in kept_up.items()
        )
        + " [Response](response.md) says why."
    )


def _neighbour_sentence(results: Sequence[CellResult]) -> Iterator[str]:
    rows = [row for row in neighbours(results) if not row.changed.startswith(_SERVER)]
    if not rows:
        return
    met, missed, undecided = (
        [row.changed.removeprefix("path.forward.") for row in rows if row.answer == answer]
        for answer in ("meets", "misses", "undecided")
    )
    text = (
        f"**The answer holds beside the case, up to a point.** With {len(met)} of {format_count(len(rows), 'change')} "
        "picoquic with itself still meets all three objectives."
    )
    if missed:
        text += f" It misses one with {format_list(missed)}."
    if undecided:
        text += f" Its runs do not decide it with {format_list(undecided)}."
    yield text


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
    advice += _initial_rtt_advice(results)
    if advice:
        yield "Do this:"
        yield ""
        yield from (f"* {text}" for text in advice)
        yield ""


def _initial_rtt_advice(results: Sequence[CellResult]) -> Iterator[str]:
    """Which servers' BBR takes twice as long for 10 MB with one initial RTT as with another; nothing if none does."""
    by_server: dict[str, dict[str, list[float]]] = {}
    for result in measured_cells(results, INITIAL_RTT):
        parameters = result.cell.parameters
        span = result.interval("milestone_10MB", 0, "first")
        if parameters.get("server.congestion_control") == "bbr" and "server.initial_rtt" in parameters and span:
            levels = by_server.setdefault(result.cell.server.name, {})
            levels.setdefault(str(parameters["server.initial_rtt"]), []).append(span.median)
    texts, ratios = list[str](), dict[str, float]()
    for server, levels in by_server.items():
        medians = sorted((statistics.median(values), level) for level, values in levels.items())
        (best, _), (worst, level) = medians[0], medians[-1]
        if worst > 2 * best:
            texts.append(
                f"With {level}, {server} takes {number_text(worst)} s for 10 MB, and {number_text(best)} s else."
            )
        else:
            ratios[server] = worst / best
    if texts:
        least_sensitive = (
            f" It costs {format_list(sorted(ratios))} {max(ratios.values()) - 1:.0%} of the time at most."
            if ratios
            else ""
        )
        yield (
            "Tell a server with BBR an initial round-trip time that is no less than the path's. "
            f"{' '.join(texts)}{least_sensitive}"
        )


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
        yield table_row([row.changed, *map(span_text, row.seconds), _ANSWERS[row.answer]])
    yield ""


def _seconds_text(seconds: Sequence[Interval]) -> str:
    return " / ".join(number_text(span.median) for span in seconds)


def _cell(seconds: Sequence[Interval], passes: bool) -> str:
    text = _seconds_text(seconds)
    return f"**{text}**" if passes else text
