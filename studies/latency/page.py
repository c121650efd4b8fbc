"""The page about latency under load."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import groupby

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_list
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from studies import FIGURE, list_items
from studies.latency.claims import IDLE, LOADED
from studies.latency.compared import ALONE, Response, responses

_HEAD = ("queue", "client → server", "median, ms", "95 %, ms", "a minute", "unanswered")


def latency(results: Sequence[CellResult]) -> str:
    """The page."""
    rows = responses(results)
    lines = [
        "# Small requests beside a load",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        *list_items(_sentences(rows)),
        FIGURE,
        "",
        "Every 100 ms a client asks for 1 kB over one connection. The path is a home access of 50/10 Mbit/s and 20 ms.",
        f"The client is alone (`{IDLE}`), or a download and an upload of Linux's TCP CUBIC are beside it (`{LOADED}`).",
        "Both directions then have the queue that the row names.",
        "*A minute* is how many requests in a row a minute has room for (60 s / median).",
        "Apple's responsiveness test calls this round trips per minute.",
        "",
    ]
    if not rows:
        return "\n".join([*lines, "No runs are stored.", ""])
    lines += [table_row(_HEAD), table_row(["---", "---", *["---:"] * 4])]
    return "\n".join([*lines, *(table_row(_row(row)) for row in rows), ""])


def _row(row: Response) -> list[str]:
    return [
        row.load,
        row.pair,
        span_text(row.median),
        span_text(row.late),
        span_text(row.per_minute),
        span_text(row.unanswered),
    ]


def _sentences(rows: Sequence[Response]) -> list[str]:
    """The middle of the pairs with each queue, from the longest to the shortest."""
    medians = {
        load: statistics.median(row.median.median for row in own) for load, own in groupby(rows, lambda row: row.load)
    }
    loaded = sorted(((value, load) for load, value in medians.items() if load != ALONE), reverse=True)
    if not loaded or ALONE not in medians:
        return []
    texts = format_list([f"{number_text(value)} ms with {load}" for value, load in loaded])
    return [
        f"A request takes {number_text(medians[ALONE])} ms alone, in the middle of the pairs.",
        f"A load beside it makes that {texts}.",
    ]
