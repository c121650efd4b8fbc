"""The page about senders beside TCP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import escape_stored
from harness.outcome import Interval
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from studies import FIGURE, extremes_text, list_items, share_text
from studies.coexistence.claims import HARMLESS, PATHS, QUEUE, TCP
from studies.coexistence.compared import Contest, contests, left_to_tcp, without_row

#: quinn's reason phrase where a stream's reassembly has too many parts.
_GAPS = "too many gaps in stream buffer"
_HEAD = ("server", "controller", "its Mbit/s", "TCP's Mbit/s", "its share", "Jain's index", "of TCP's own", "queue, ms")


def coexistence(results: Sequence[CellResult]) -> str:
    """The page."""
    scenario = next(iter(PATHS))
    lines = [
        "# Beside TCP CUBIC",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        *list_items(_sentences(results)),
        FIGURE,
        "",
        "```",
        f"harness run {scenario} --servers picoquic --engine virtual",
        "```",
        "",
        "Each server sends beside one flow of Linux's TCP CUBIC, from the same moment on, over a link whose queue has",
        f"one bandwidth-delay product ({QUEUE}). A sender that is fast alone may be so at the cost of others:",
        f"*of TCP's own* is how much TCP has, as a part of what it has beside another TCP ({TCP}). **Bold**: less",
        f"than {HARMLESS:.0%}.",
        "A sender with a run that did not complete has no row: below the table you find what happened.",
        "Shares depend on the path. [Behind queues old and new](queues.md) has those of another one.",
        "",
    ]
    for name, path in PATHS.items():
        lines += _path(path, contests(results, name), without_row(results, name))
    return "\n".join(lines)


def _sentences(results: Sequence[CellResult]) -> Iterator[str]:
    """On each path: who leaves TCP least and most, and how many leave it less than is harmless."""
    for name, path in PATHS.items():
        spans = {row.title: span for row, span in left_to_tcp(contests(results, name)).items() if row.server != TCP}
        if spans:
            harmful = sum(span.median < HARMLESS for span in spans.values())
            yield (
                f"{path}, {QUEUE}: {harmful} of {len(spans)} senders leave TCP less than {HARMLESS:.0%} of what it has "
                f"beside another TCP. It has {extremes_text(spans, '{} beside {}', share_text)}."
            )


def _path(path: str, rows: Sequence[Contest], failed: Sequence[CellResult]) -> Iterator[str]:
    yield f"## {path}"
    yield ""
    if rows:
        yield table_row(_HEAD)
        yield table_row(["---", "---", *["---:"] * (len(_HEAD) - 2)])
        shares = left_to_tcp(rows)
        yield from (table_row(_row(row, shares.get(row))) for row in rows)
    else:
        yield "No sender completed its runs." if failed else "No runs are stored."
    yield ""
    yield from list_items(f"{result.name}: {escape_stored(result.shortfall)}." for result in failed)
    if any(_GAPS in result.shortfall for result in failed):
        yield "quinn closes a connection whose stream has more gaps than it keeps account of (its pull request 2694)."
        yield "The client's qlog shows how they come about: behind the full queue every second pair of packets is lost."
        yield ""


def _row(row: Contest, share: Interval | None) -> list[str]:
    left = "–" if share is None else f"{share.median:.0%}"
    if share is not None and share.median < HARMLESS:
        left = f"**{left}**"
    return [
        row.server,
        row.controller or "–",
        span_text(row.own),
        span_text(row.tcp),
        f"{row.share:.0%}",
        "–" if row.fairness is None else number_text(row.fairness.median),
        left,
        span_text(row.queue),
    ]
