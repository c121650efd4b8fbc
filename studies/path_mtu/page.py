"""The page: who survives a path whose MTU falls, told and not told, and how long it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_list
from harness.outcome import Interval
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from studies import FIGURE, list_items
from studies.path_mtu.claims import CASES, MOMENT, MTU, SILENT, SOURCE, STATED, TOLD
from studies.path_mtu.compared import Row, rows

_COLUMNS = (
    "sender", "downloads that ended", "download, s", "data came again after, s", "too large, packets",
    "largest packet after, B", "how others ended",
)  # fmt: skip


def path_mtu(results: Sequence[CellResult]) -> str:
    """The page."""
    found = {case.name: rows(results, case) for case in CASES}
    there = any(found.values())
    lines = [
        "# A path whose MTU falls in mid-transfer",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        *(list_items(sentences(found[TOLD.name], found[SILENT.name])) if there else []),
        FIGURE,
        "",
        f"The sources are {SOURCE}.",
        *STATED,
        "",
        f"Here the path's MTU falls to {MTU} B, {MOMENT} into a download of 10 MB over 20 Mbit/s, in both directions.",
        "With ICMP a router answers each packet that is too large. Without ICMP the packet vanishes.",
        "The client is the same for all servers. The delay is drawn anew for each repetition.",
        "*Data came again* is when 12 kB had arrived of what left the queue after the fall (`mtu_recovery_time`).",
        "A sender of smaller packets does not notice anything.",
        "",
        "```",
        f"harness run {' '.join(name for case in CASES for name in (case.quic, case.tcp))} --engine virtual",
        "```",
        "",
    ]
    if not there:
        return "\n".join([*lines, "No runs are stored.", ""])
    for case in CASES:
        lines += [f"## {case.title[0].upper()}{case.title[1:]}", ""]
        lines += [table_row(_COLUMNS), table_row(["---", *["---:"] * (len(_COLUMNS) - 2), "---"])]
        lines += [*(table_row(_cells(row)) for row in found[case.name]), ""]
    return "\n".join(lines)


def _cells(row: Row) -> list[str]:
    return [
        row.name,
        f"{row.completed} of {row.runs}",
        span_text(row.seconds),
        span_text(row.recovery),
        span_text(row.size_drops),
        span_text(row.largest),
        ", ".join(row.endings) or "–",
    ]


def sentences(told: Sequence[Row], silent: Sequence[Row]) -> list[str]:
    """Three texts of one to three sentences: who survives, how long it takes, what ICMP is worth."""
    return [_survivors(told, silent), _times(silent), _worth(told, silent)]


def _survivors(told: Sequence[Row], silent: Sequence[Row]) -> str:
    parts = []
    for words, found in (("with", told), ("without", silent)):
        quic = [row for row in found if not row.is_tcp]
        lost = [row.name for row in quic if not row.survives]
        parts.append(
            f"{sum(row.survives for row in quic)} of {len(quic)} stacks of QUIC end every download {words} ICMP"
            + (f"; {format_list(lost)} {'does' if len(lost) == 1 else 'do'} not." if lost else ".")
        )
    return " ".join(parts)


def _times(silent: Sequence[Row]) -> str:
    timed = [
        (span.median, row.name)
        for row in silent
        if row.is_affected and row.survives and not row.is_tcp
        if (span := row.recovery) is not None and math.isfinite(span.median)
    ]
    unaffected = [row.name for row in silent if not row.is_affected and not row.is_tcp]
    aside = f" These sent nothing that was too large: {format_list(unaffected)}." if unaffected else ""
    if not timed:
        return f"No stack that sent larger packets survives without ICMP.{aside}"
    (least, first), (most, last) = min(timed), max(timed)
    to = f" to {number_text(most)} s ({last})" if len(timed) > 1 else ""
    of = f"the medians of the {len(timed)} stacks that sent larger packets and survive"
    return (
        f"Data come again without ICMP after {number_text(least)} s ({first}){to}, "
        f"{of if to else 'the only one to survive'}.{aside}"
    )


def _worth(told: Sequence[Row], silent: Sequence[Row]) -> str:
    without = {row.name: row for row in silent}
    both = [(row, without[row.name]) for row in told if not row.is_tcp and row.name in without and row.survives]
    alone = [row.name for row, other in both if not other.survives]
    sooner = [row.name for row, other in both if other.survives and _is_sooner(row.recovery, other.recovery)]
    parts = [f"Only ICMP saves {format_list(alone)}."] if alone else []
    parts += [f"Data of {format_list(sooner)} come again sooner with ICMP in every run."] if sooner else []
    tcp = [
        f"{'ends' if row.survives else 'does not end'} {when}"
        for when, found in (("with ICMP", told), ("without", silent))
        for row in found
        if row.is_tcp
    ]
    beside = [f"The same download over Linux's TCP {' and '.join(tcp)}."] if tcp else []
    return " ".join([*(parts or ["ICMP helps no stack of QUIC."]), *beside])


def _is_sooner(told: Interval | None, silent: Interval | None) -> bool:
    """Whether every run with ICMP was sooner than any without."""
    return told is not None and silent is not None and told.high < silent.low
