"""The page about videos: startup and stalls of each pair, by rung."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_list
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from studies import FIGURE, extremes_text, list_items
from studies.media.claims import CALL, CALL_ALONE, RUNGS, SOURCES
from studies.media.compared import cells_of, in_virtual_time, is_smooth, pair_text, spans_of

_SHARES = ("p50", "p95", "max")


def media(results: Sequence[CellResult]) -> str:
    """The page."""
    lines = [
        "# A video",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        *list_items(_sentences(results)),
        FIGURE,
        "",
        "A player fetches fifteen segments of 4 s over a small GEO access (10/2 Mbit/s, 650 ms).",
        "It fetches one after the other, and none more than 12 s before it is due.",
        "*Startup* is the time from the client's first datagram until the first segment is whole.",
        "A *stall* is a segment that is not there when the one before it ends.",
        "",
    ]
    lines += _videos(results) or ["No runs are stored."]
    lines += ["", "## Sources that are on and off, or limited", ""]
    lines += [
        "The client sends its requests at equal times over a GEO access of 50/10 Mbit/s and 650 ms.",
        "One source comes in bursts, between which the link is idle. The other has a fifth of the link's rate.",
        "The time is from a request to the end of its response. The first responses come in slow start.",
        "",
    ]
    lines += _sources(results) or ["No runs are stored."]
    lines += ["", "## A call", ""]
    lines += [
        "The server sends a datagram of 160 B every 20 ms over a home access of 50/10 Mbit/s and 20 ms.",
        "The call is alone, or a download and an upload of Linux's TCP CUBIC are beside it.",
        "Both directions then have the queue that the row names.",
        "*Loss* is the share of datagrams that never came to the application.",
        "The delay is one way, from application to application.",
        "",
    ]
    return "\n".join([*lines, *(_calls(results) or ["No runs are stored."]), ""])


def _sentences(results: Sequence[CellResult]) -> Iterator[str]:
    """Who plays which video, the startup at the highest that plays; the other sources; calls by their queue."""
    videos = {rate: cells_of(results, scenario) for scenario, rate in RUNGS.items()}
    played = {rate: sum(is_smooth(result) for result in cells.values()) for rate, cells in videos.items() if cells}
    if played:
        texts = [f"{count} of {len(videos[rate])} play {rate:g} Mbit/s" for rate, count in played.items()]
        yield f"Pairs that play a video without a stall: {format_list(texts)}."
        best = max((rate for rate, count in played.items() if count), default=min(played))
        if startups := spans_of(videos[best], "startup_time"):
            yield f"At {best:g} Mbit/s a video starts after {extremes_text(startups, '{} s ({})')}."
    for scenario, source in SOURCES.items():
        if late := spans_of(cells_of(results, scenario), "response_time_p95"):
            yield f"{source}: 95 % of responses come within {extremes_text(late, '{} ms ({})')}."
    delays: dict[str, list[float]] = {}
    for scenario in (CALL_ALONE, CALL):
        for result in in_virtual_time(results, scenario):
            if (span := result.interval("datagram_delay_p95", 0, "first")) is not None:
                delays.setdefault(_queue(result), []).append(span.median)
    if delays:
        texts = [f"{number_text(statistics.median(values))} ms ({queue})" for queue, values in delays.items()]
        yield f"95 % of a call's datagrams come within {format_list(texts)}, in the middle of the pairs."


def _videos(results: Sequence[CellResult]) -> list[str]:
    by_rung = {scenario: cells_of(results, scenario) for scenario in RUNGS}
    pairs = sorted({pair for cells in by_rung.values() for pair in cells})
    if not pairs:
        return []
    columns = [name for rate in RUNGS.values() for name in (f"{rate:g} Mbit/s: startup, s", "stalls", "stalled, s")]
    head = ["client → server", *columns, "highest without a stall"]
    lines = [table_row(head), table_row(["---", *["---:"] * (3 * len(RUNGS)), "---:"])]
    for pair in pairs:
        row, smooth = [pair], ""
        for scenario, rate in RUNGS.items():
            result = by_rung[scenario].get(pair)
            if result is None:
                row += ["–"] * 3
                continue
            spans = [result.interval(metric, 0, "first") for metric in ("startup_time", "stalls", "stalled_time")]
            row += map(span_text, spans)
            if is_smooth(result):
                smooth = f"{rate:g} Mbit/s"
        lines.append(table_row([*row, smooth or "none"]))
    return lines


def _sources(results: Sequence[CellResult]) -> list[str]:
    rows = [
        [
            source,
            pair_text(result),
            *(span_text(result.interval(f"response_time_{name}", 0, "first")) for name in _SHARES),
        ]
        for scenario, source in SOURCES.items()
        for result in in_virtual_time(results, scenario)
    ]
    head = ["source", "client → server", "median, ms", "95 %, ms", "longest, ms"]
    return [table_row(head), table_row(["---", "---", *["---:"] * 3]), *map(table_row, rows)] if rows else []


def _calls(results: Sequence[CellResult]) -> list[str]:
    metrics = ("datagram_loss", "datagram_delay_p50", "datagram_delay_p95", "datagram_jitter")
    rows = [
        [_queue(result), pair_text(result), *map(span_text, spans)]
        for scenario in (CALL_ALONE, CALL)
        for result in in_virtual_time(results, scenario)
        if any(spans := [result.interval(metric, 0, "first") for metric in metrics])
    ]
    head = ["queue", "client → server", "loss", "median, ms", "95 %, ms", "jitter, ms"]
    return [table_row(head), table_row(["---", "---", *["---:"] * 4]), *map(table_row, rows)] if rows else []


def _queue(result: CellResult) -> str:
    return str(result.cell.parameters.get("path.forward.queue", "idle"))
