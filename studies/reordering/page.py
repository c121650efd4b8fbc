"""The page: who takes packets that are overtaken for lost, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_list
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from studies.reordering.claims import CASES, FAR_AHEAD, IN_ORDER, JITTER, LIMIT, NEIGHBOURS, SOURCE, STATED
from studies.reordering.compared import Stack, stacks

#: A download that takes less than this many times as long as in order pays nothing worth a word: this lab's own bound.
_NOTICEABLE = 1.05


def reordering(results: Sequence[CellResult]) -> str:
    """The page."""
    lines = [
        "# Packets that overtake others",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        f"{SOURCE}: {STATED}.",
        "Here each stack downloads 20 MB from itself over 20 Mbit/s, with a round trip of 40 ms, on four paths:",
        "",
        f"* in order (`{IN_ORDER}`);",
        *(f"* {case.title}: {case.words} (`{case.scenario}`);" for case in CASES[:-1]),
        f"* {CASES[-1].title}: {CASES[-1].words} (`{CASES[-1].scenario}`).",
        "",
        "Nothing is lost on the way but what the full queue drops. A *spurious loss* is a packet that its sender took",
        "for lost, and that came. The delay is drawn anew for each repetition, and the same for all stacks. `https` is",
        f"HTTPS over Linux's TCP. A download that has not ended after {LIMIT} is said to take for ever.",
        "",
        "```",
        "harness run reordering --clients picoquic --servers picoquic --engine virtual    # one stack",
        "python -m tools.reference run --only reordering                                  # all of this page",
        "```",
        "",
    ]
    found = stacks(results)
    if not found:
        return "\n".join([*lines, "No runs are stored.", ""])
    lines += [*sentences(found), ""]
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
    """Three sentences: who takes reordering for loss, what it costs, and what TCP does."""
    quic = [stack for stack in found if not stack.is_tcp]
    return [text for text in (_mistaken(quic), _costs(quic), _beside_tcp(found)) if text]


def _mistaken(quic: Sequence[Stack]) -> str:
    """How many packets stacks take for lost in each case: the fewest and the most."""
    parts = []
    for case in CASES:
        counts = {stack.name: count for stack in quic if (count := stack.spurious(case)) is not None}
        if counts:
            least, most = (choose(counts, key=lambda name: counts[name]) for choose in (min, max))
            numbers = [f"{number_text(counts[name])} ({name})" for name in (least, most)]
            parts.append(f"{' to '.join(numbers)} {_WHEN[case]}")
    return f"Senders of QUIC take packets of a download for lost that come: {format_list(parts)}." if parts else ""


_WHEN = {
    NEIGHBOURS: "where neighbours change places",
    FAR_AHEAD: "where 1 % come far ahead",
    JITTER: "where delays vary by ±5 ms",
}


def _costs(quic: Sequence[Stack]) -> str:
    """What the cases cost: those who pay least and most."""
    parts = []
    for case in CASES:
        costs = {stack.name: cost for stack in quic if (cost := stack.slowdown(case)) is not None}
        if not costs:
            continue
        least, most = (choose(costs, key=lambda name: costs[name]) for choose in (min, max))
        parts.append(
            f"less than {_NOTICEABLE:g} times as long for everyone {_WHEN[case]}"
            if costs[most] < _NOTICEABLE
            else f"{_times(costs[least])} ({least}) to {_times(costs[most])} ({most}) {_WHEN[case]}"
        )
    return f"A download takes {format_list(parts)}, compared with the same path in order." if parts else ""


def _times(cost: float) -> str:
    return "for ever" if math.isinf(cost) else f"{cost:.2f} times as long"


def _beside_tcp(found: Sequence[Stack]) -> str:
    """What Linux's TCP pays."""
    tcp = next((stack for stack in found if stack.is_tcp), None)
    if tcp is None:
        return ""
    parts = []
    for case in CASES:
        cost, spurious = tcp.slowdown(case), tcp.spurious(case)
        if cost is not None:
            count = "" if spurious is None else f" with {number_text(spurious)} spurious losses"
            parts.append(f"{_times(cost)}{count} {_WHEN[case]}")
    return f"The same download over Linux's TCP takes {format_list(parts)}." if parts else ""
