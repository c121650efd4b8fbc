"""The page about senders beside TCP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.evaluation.cell_result import CellResult
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from studies.coexistence.claims import PATHS, TCP
from studies.coexistence.compared import Contest, contests

_HEAD = ("server", "controller", "its Mbit/s", "TCP's Mbit/s", "its share", "Jain's index", "of TCP's own", "queue, ms")
#: From this share of what TCP leaves to TCP on, a sender harms it no more than TCP does. RFC 9743 §5.1 has no number.
HARMLESS = 0.8


def coexistence(results: Sequence[CellResult]) -> str:
    """The page."""
    scenario = next(iter(PATHS))
    lines = [
        "# Beside TCP CUBIC",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        "```",
        f"harness run {scenario} --servers picoquic --engine virtual",
        "```",
        "",
        "Each server sends beside one flow of Linux's TCP CUBIC, from the same moment on, over a link whose queue has",
        "one bandwidth-delay product. A sender that is fast alone may be so at the cost of others: *of TCP's own* is",
        f"how much TCP has, as a part of what it has beside another TCP ({TCP}). **Bold**: less than {HARMLESS:.0%}.",
        "",
    ]
    for name, path in PATHS.items():
        lines += _path(path, contests(results, name))
    return "\n".join(lines)


def _path(path: str, rows: Sequence[Contest]) -> Iterator[str]:
    yield f"## {path}"
    yield ""
    if not rows:
        yield "No runs are stored."
        yield ""
        return
    yield table_row(_HEAD)
    yield table_row(["---", "---", *["---:"] * (len(_HEAD) - 2)])
    base = next((row.tcp.median for row in rows if row.server == TCP), None)
    for row in rows:
        yield table_row(_row(row, base))
    yield ""


def _row(row: Contest, base: float | None) -> list[str]:
    left = "–"
    if base:
        left = f"{row.tcp.median / base:.0%}"
        if row.tcp.median < HARMLESS * base:
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
