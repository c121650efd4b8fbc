"""The page: who takes packets that are overtaken for lost, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from harness.evaluation.cell_result import CellResult
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from studies.reordering.claims import CASES, IN_ORDER, LIMIT, SOURCE, STATED, Case
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
    found = stacks(results)
    if not found:
        return "\n".join([*lines, "No runs are stored.", ""])
    lines += ["\n\n".join(sentences(found)), ""]
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
    """Three paragraphs: who takes reordering for loss, what it costs, and what TCP does."""
    quic = [stack for stack in found if not stack.is_tcp]
    return [text for text in (_mistaken(quic), _costs(quic), _beside_tcp(found)) if text]


def _by_case(lead: str, texts: Mapping[Case, str]) -> str:
    """A lead with an item per kind of reordering; empty without one."""
    items = [f"* {case.title}: {text}" for case, text in texts.items()]
    return "\n".join([lead, "", *items]) if items else ""


def _mistaken(quic: Sequence[Stack]) -> str:
    """How many packets stacks take for lost in each case: the fewest and the most."""
    texts = {}
    for case in CASES:
        counts = {stack.name: count for stack in quic if (count := stack.spurious(case)) is not None}
        if counts:
            least, most = (choose(counts, key=lambda name: counts[name]) for choose in (min, max))
            texts[case] = " to ".join(f"{number_text(counts[name])} ({name})" for name in (least, most))
    return _by_case("These are the fewest and the most spurious losses of a download over QUIC:", texts)


def _costs(quic: Sequence[Stack]) -> str:
    """What the cases cost: those who pay least and most."""
    texts = {}
    for case in CASES:
        costs = {stack.name: cost for stack in quic if (cost := stack.slowdown(case)) is not None}
        if not costs:
            continue
        least, most = (choose(costs, key=lambda name: costs[name]) for choose in (min, max))
        texts[case] = (
            f"less than {_NOTICEABLE:g} times as long for every stack"
            if costs[most] < _NOTICEABLE
            else f"{_times(costs[least])} ({least}) to {_times(costs[most])} ({most})"
        )
    return _by_case("A download over QUIC takes, compared with the same path in order:", texts)


def _times(cost: float) -> str:
    return f"no end in {LIMIT}" if math.isinf(cost) else f"{cost:.2f} times as long"


def _beside_tcp(found: Sequence[Stack]) -> str:
    """What Linux's TCP pays."""
    tcp = next((stack for stack in found if stack.is_tcp), None)
    if tcp is None:
        return ""
    texts = {}
    for case in CASES:
        cost, spurious = tcp.slowdown(case), tcp.spurious(case)
        if cost is not None:
            count = "" if spurious is None else f", with {number_text(spurious)} spurious losses"
            texts[case] = f"{_times(cost)}{count}"
    return _by_case("The same download over Linux's TCP takes:", texts)
