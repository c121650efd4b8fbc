"""The page about windows under random loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_list
from harness.report.markdown import table_row
from harness.report.numbers import span_text
from studies import FIGURE, list_items
from studies.response.claims import CUBIC_DECREASE, CUBIC_FACTOR, SCENARIOS, WHY, reno_window
from studies.response.compared import CLOSE, Window, windows

_TITLES = {"reno": "Reno", "cubic": "CUBIC"}
_RFCS = {"reno": "RFC 5681", "cubic": "RFC 9438"}
#: Of those furthest from the RFC, the findings name so many.
_NAMED = 3


def response(results: Sequence[CellResult]) -> str:
    """The page."""
    rows = windows(results)
    lines = [
        "# The window under random loss",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        *list_items(_sentences(rows)),
        FIGURE,
        "",
        "```",
        f"harness run {SCENARIOS[0]} --servers quinn --set server.congestion_control=reno --engine virtual",
        "```",
        "",
        "Nothing but random loss holds these senders back. A controller then has a window that depends on the loss",
        "alone, or on loss and round trip: its *response function*. The tables have the packets that a sender sends in",
        "a round trip, and in brackets how many times the RFC's window that is. **Bold** is more than",
        f"{CLOSE:.0%} away from it, which is more than chance does. †: the queue overflowed, too. –: no run there has",
        "a figure. tquic is not among the servers: its tool holds a file in memory, and this one has 2 GB.",
        "",
        "Reno is that of RFC 5681 and RFC 9002: one packet more a round trip, half the window at a loss, √(3/2p).",
        f"A sender that falls to {CUBIC_DECREASE} of its window, with the same growth, has",
        f"{reno_window(1, CUBIC_DECREASE) / reno_window(1):.2f} times as much. CUBIC is that of RFC 9438: the larger",
        f"of {CUBIC_FACTOR:.3f}·(RTT/p)^¾ and Reno's window.",
        "",
    ]
    if not rows:
        return "\n".join([*lines, "No runs are stored.", ""])
    return "\n".join([*lines, *_tables(rows)])


def _sentences(rows: Sequence[Window]) -> Iterator[str]:
    """By controller: who has the RFC's window on every path, and who is furthest from it, and where."""
    for controller, of_controller in groupby(rows, lambda window: window.controller):
        own = list(of_controller)
        stacks, apart = {window.stack for window in own}, _apart(own)
        near = sorted(stacks - set(apart))
        named = f": {format_list(near)}" if near else ""
        yield (
            f"{_TITLES[controller]}: {len(near)} of {len(stacks)} servers stay within {CLOSE:.0%} of "
            f"{_RFCS[controller]} wherever they ran{named}."
        )
        worst = [max((window for window in own if window.stack == name), key=_distance) for name in apart]
        texts = [
            f"{window.stack} with {window.ratio:.2f} times it ({window.path})"
            for window in sorted(worst, key=_distance, reverse=True)[:_NAMED]
        ]
        if texts:
            yield f"{_TITLES[controller]}: {format_list(texts)} {'are' if texts[1:] else 'is'} furthest from it."


def _distance(window: Window) -> float:
    return abs(math.log(window.ratio)) if window.ratio else math.inf


def _tables(rows: Sequence[Window]) -> Iterator[str]:
    for controller, of_controller in groupby(rows, lambda window: window.controller):
        own = list(of_controller)
        paths = sorted({(window.rtt, window.loss): window for window in own}.items())
        yield f"## {_TITLES[controller]}"
        yield ""
        yield table_row(["server", *(window.path for _, window in paths)])
        yield table_row(["---", *["---:"] * len(paths)])
        yield table_row(["RFC", *(f"{window.expected:.1f}" for _, window in paths)])
        for stack, of_stack in groupby(own, lambda window: window.stack):
            cells = {(window.rtt, window.loss): _cell(window) for window in of_stack}
            yield table_row([stack, *(cells.get(path, "–") for path, _ in paths)])
        yield ""
        reasons = [f"* {name}: {WHY[name, controller]}" for name in _apart(own) if (name, controller) in WHY]
        if reasons:
            yield "Why, by what the sources say:"
            yield ""
            yield from reasons
            yield ""


def _apart(windows: Sequence[Window]) -> list[str]:
    """Servers with a window that is not the RFC's."""
    return sorted({window.stack for window in windows if not window.is_close})


def _cell(window: Window) -> str:
    ratio = f"{window.ratio:.2f}"
    if not window.is_close:
        ratio = f"**{ratio}**"
    return f"{span_text(window.packets)} ({ratio})" + ("†" if window.overflowed else "")
