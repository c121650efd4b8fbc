"""The figure of docs/because.md: where the time of each pair of the README's matrix went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.evaluation.cell_result import CellResult
from harness.outcome import State
from harness.report.diagnosis import STATE_NAMES
from harness.report.studies import Drawing
from studies.charts import draw_stacks
from tools.reference.readme import plain_transfers

#: State → colour, as on the site's pages of cells (harness/report/site/assets/site.css).
_COLOURS: dict[State, str] = {
    "handshake": "#8a8fa3",
    "request": "#b3b7c6",
    "slow_start": "#e0a526",
    "line_rate": "#4c9f70",
    "recovery": "#c8453b",
    "spurious_recovery": "#d98aa8",
    "window_limited": "#e58a6f",
    "flow_control": "#5b6fd6",
    "buffer_limited": "#a9c24a",
    "sender_idle": "#2ba3b8",
    "acknowledgements": "#a35bc4",
    "probe_timeouts": "#7c1f3f",
    "shared": "#8f7a4f",
    "unexplained": "#3b3d47",
}
_TITLE = "Where the time of 100 MB on the medium case went"


def _states(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of the seconds in each state, a bar a pair, the quickest first; None without runs."""
    transfers = sorted(plain_transfers(results).items(), key=lambda item: item[1].seconds)
    rows = {
        name: {STATE_NAMES[state]: transfer.seconds_in(state) for state in _COLOURS} for name, transfer in transfers
    }
    colours = {STATE_NAMES[state]: colour for state, colour in _COLOURS.items()}
    return draw_stacks(rows, colours, "s", _TITLE, ["a bar is a pair with its own settings, in virtual time"])


#: The figure of docs/because.md.
STATES_OF_PAIRS = Drawing("because-states.svg", _TITLE, _states)
