"""The page: who takes packets that are overtaken for lost, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_list
from harness.outcome import Interval
from harness.report.markdown import table_row
from harness.report.numbers import span_text
from studies import FIGURE, extremes_text, list_items
from studies.reordering.claims import CASES, IN_ORDER, LIMIT, SOURCE, STATED
from studies.reordering.compared import Stack, stacks


def reordering(results: Sequence[CellResult]) -> str:
    """The page."""
    found = stacks(results)
    lines = [
        "# Packets that overtake others",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        *list_items(sentences(found)),
        FIGURE,
        "",
        f"The sources are {SOURCE}.",
        STATED,
        "",
        "Each stack downloads 20 MB from itself over 20 Mbit/s, with a round trip of 40 ms. It does so on four paths:",
        "",
        f"* in order (`{IN_ORDER}`);",
        *(f"* {case.title}: {case.words} (`{case.scenario}`);" for case in CASES[:-1]),
        f"* {CASES[-1].title}: {CASES[-1].words} (`{CASES[-1].scenario}`).",
        "",
        "Only the full queue drops packets. A *spurious loss* is a packet that its sender took for lost, and that",
        "came. The delay is drawn anew for each repetition. All stacks have the same draws. `https` is HTTPS over",
        f"Linux's TCP. The lab ends a download after {LIMIT}.",
        "",
        "```",
        "harness run reordering --clients picoquic --servers picoquic --engine virtual    # one stack",
        "python -m tools.reference run --only reordering                                  # all of this page",
        "```",
        "",
    ]
    if not found:
        return "\n".join([*lines, "No runs are stored.", ""])
    columns = ["stack", "runs", "in order, s", "spurious losses"]
    columns += [f"{case.title}: {what}" for case in CASES for what in ("s", "spurious losses")]
    lines += [table_row(columns), table_row(["---", *["---:"] * (len(columns) - 1)])]
    return "\n".join([*lines, *(table_row(_cells(stack)) for stack in found), ""])


def _cells(stack: Stack) -> list[str]:
    transfers = [stack.in_order, *(stack.reordered.get(case) for case in CASES)]
    runs = sorted({transfer.runs for transfer in transfers if transfer is not None})
    return [
        stack.title,
        str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}",
        *(
            span_text(span)
            for transfer in transfers
            for span in ((None, None) if transfer is None else (transfer.seconds, transfer.spurious))
        ),
    ]


def sentences(found: Sequence[Stack]) -> list[str]:
    """By kind of reordering: who takes it for loss, and what it costs; then what TCP does."""
    quic, tcp = ([stack for stack in found if stack.is_tcp == is_tcp] for is_tcp in (False, True))
    texts = []
    for case in CASES:
        counts = {stack.name: count for stack in quic if (count := stack.spurious(case)) is not None}
        costs = {stack.name: cost for stack in quic if (cost := stack.slowdown(case)) is not None}
        parts = [f"has {extremes_text(counts)} spurious losses"] if counts else []
        parts += [f"takes {extremes_text(costs, text=_times)} times as long"] if costs else []
        if parts:
            texts.append(f"{case.title}: QUIC {format_list(parts)}.")
    beside = {case.title: cost for case in CASES for stack in tcp if (cost := stack.slowdown(case)) is not None}
    if beside:
        costs_of_tcp = format_list([f"{_times(cost)} ({title})" for title, cost in beside.items()])
        texts.append(f"Linux's TCP takes {costs_of_tcp} times as long as in order.")
    return texts


def _times(cost: Interval) -> str:
    median, low, high = (f"{end:.2f}" if math.isfinite(end) else "∞" for end in (cost.median, cost.low, cost.high))
    return median if median == low == high else f"{median} [{low}, {high}]"
