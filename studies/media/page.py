"""The page about videos: startup and stalls of each pair, by rung."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.planning.endpoint_config import application_protocol
from harness.report.markdown import table_row
from harness.report.numbers import span_text
from harness.report.studies import measured_cells
from studies.media.claims import CALL, CALL_ALONE, RUNGS, SOURCES

_SHARES = ("p50", "p95", "max")


def media(results: Sequence[CellResult]) -> str:
    """The page."""
    lines = [
        "# A video",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
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


def _videos(results: Sequence[CellResult]) -> list[str]:
    cells = [
        (scenario, result)
        for scenario in RUNGS
        for result in measured_cells(results, scenario)
        if result.cell.virtual_time
    ]
    pairs = sorted({_pair(result) for _, result in cells})
    by_pair = {(scenario, _pair(result)): result for scenario, result in cells}
    if not pairs:
        return []
    columns = [name for rate in RUNGS.values() for name in (f"{rate:g} Mbit/s: startup, s", "stalls", "stalled, s")]
    head = ["client → server", *columns, "highest without a stall"]
    lines = [table_row(head), table_row(["---", *["---:"] * (3 * len(RUNGS)), "---:"])]
    for pair in pairs:
        row, smooth = [pair], ""
        for scenario, rate in RUNGS.items():
            result = by_pair.get((scenario, pair))
            if result is None:
                row += ["–"] * 3
                continue
            spans = [result.interval(metric, 0, "first") for metric in ("startup_time", "stalls", "stalled_time")]
            row += map(span_text, spans)
            if spans[1] is not None and spans[1].high == 0:
                smooth = f"{rate:g} Mbit/s"
        lines.append(table_row([*row, smooth or "none"]))
    return lines


def _sources(results: Sequence[CellResult]) -> list[str]:
    rows = [
        [source, _pair(result), *(span_text(result.interval(f"response_time_{name}", 0, "first")) for name in _SHARES)]
        for scenario, source in SOURCES.items()
        for result in measured_cells(results, scenario)
        if result.cell.virtual_time
    ]
    head = ["source", "client → server", "median, ms", "95 %, ms", "longest, ms"]
    return [table_row(head), table_row(["---", "---", *["---:"] * 3]), *map(table_row, rows)] if rows else []


def _calls(results: Sequence[CellResult]) -> list[str]:
    metrics = ("datagram_loss", "datagram_delay_p50", "datagram_delay_p95", "datagram_jitter")
    rows = [
        [str(result.cell.parameters.get("path.forward.queue", "idle")), _pair(result), *map(span_text, spans)]
        for scenario in (CALL_ALONE, CALL)
        for result in measured_cells(results, scenario)
        if result.cell.virtual_time and any(spans := [result.interval(metric, 0, "first") for metric in metrics])
    ]
    head = ["queue", "client → server", "loss", "median, ms", "95 %, ms", "jitter, ms"]
    return [table_row(head), table_row(["---", "---", *["---:"] * 4]), *map(table_row, rows)] if rows else []


def _pair(result: CellResult) -> str:
    return f"{result.cell.client.name} → {result.cell.server.name}, {application_protocol(result.cell, 0)}"
