"""The page about windows under random loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from harness.evaluation.cell_result import CellResult
from harness.report.markdown import table_row
from harness.report.numbers import span_text
from studies.response.claims import CUBIC_DECREASE, CUBIC_FACTOR, SCENARIOS, WHY, reno_window
from studies.response.compared import Window, windows

#: Ratios to the RFC's window that chance explains: at 0.1 % some hundred losses decide, whose spread is 5 to 10 %.
CLOSE = 0.2
_TITLES = {"reno": "Reno", "cubic": "CUBIC"}


def response(results: Sequence[CellResult]) -> str:
    """The page."""
    rows = windows(results)
    lines = [
        "# The window under random loss",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        "```",
        f"harness run {SCENARIOS[0]} --servers quinn --set server.congestion_control=reno --engine virtual",
        "```",
        "",
        "Nothing but random loss holds these senders back. A controller then has a window that depends on the loss",
        "alone, or on loss and round trip: its *response function*. The tables have the packets that a sender sends in",
        "a round trip, and in brackets how many times the RFC's window that is. **Bold** is more than",
        f"{CLOSE:.0%} away from it, which is more than chance does. †: the queue overflowed, too.",
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


def _tables(rows: Sequence[Window]) -> Iterator[str]:
    for controller, of_controller in groupby(rows, lambda window: window.controller):
        own = list(of_controller)
        paths = sorted({(window.rtt, window.loss): window.expected for window in own}.items())
        yield f"## {_TITLES[controller]}"
        yield ""
        yield table_row(["server", *(f"{rtt * 1e3:.0f} ms, {loss:.1%}" for (rtt, loss), _ in paths)])
        yield table_row(["---", *["---:"] * len(paths)])
        yield table_row(["RFC", *(f"{expected:.1f}" for _, expected in paths)])
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
    return sorted({window.stack for window in windows if abs(window.ratio - 1) > CLOSE})


def _cell(window: Window) -> str:
    ratio = f"{window.ratio:.2f}"
    if abs(window.ratio - 1) > CLOSE:
        ratio = f"**{ratio}**"
    return f"{span_text(window.packets)} ({ratio})" + ("†" if window.overflowed else "")
