"""Two figures of stored runs: who marks on which path and who stops, and what senders make of marks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from harness.evaluation.cell_result import CellResult
from harness.report.numbers import number_text
from harness.report.plots.parts import Marks, layer_charts, set_size
from harness.report.plots.theme import INK, OPTIMUM, SOFT, Chart, Panel, add_heading, vega_config
from harness.scenario.parameters import Role
from studies.ecn.claims import ALL_MARKED, MARKED, MARKINGS, SOURCE, UNMARKED
from studies.ecn.compared import Behaviour, Stack, stacks

_ROW, _COLUMN, _PANEL = 22, 74, 200
#: What a queue does, with ECN and without.
_QUEUES = ["it marks", "it drops"]
#: What a square says, and its colour.
_WORDS: dict[Behaviour, str] = {
    "always": "marks to the end",
    "stops": "stops marking",
    "sometimes": "stops in some runs",
    "never": "never marks",
}
_COLOURS = ["#7db3d5", "#e3a857", "#d9d2a0", "#e8e8e8"]
_ROLES: tuple[tuple[Role, str], ...] = (
    ("server", "servers, which send data"),
    ("client", "clients, which acknowledge"),
)


def grid(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of a square for each stack and path, of its server and of its client; None without runs."""
    found = stacks(results)
    if not found:
        return None
    panels = [_squares(found, role, title, first=number == 0) for number, (role, title) in enumerate(_ROLES)]
    chart = alt.hconcat(*panels, spacing=16)
    notes = [
        "a number: ECN-capable datagrams until the sender stopped, a median; ✕: not every download ended, "
        "white: it sent nothing",
    ]
    return _made(chart, "Who marks, and who stops where ECN does not work", notes)


def _squares(found: Sequence[Stack], role: Role, title: str, *, first: bool) -> Panel:
    rows = [
        (stack.name, case.title, _WORDS[marking.behaviour], _label(stack, case.scenario, role))
        for stack in found
        for case in MARKINGS
        if (marking := stack.marking(case.scenario, role)) is not None
    ]
    silent = [
        (stack.name, case.title, "✕")
        for stack in found
        for case in MARKINGS
        if case.scenario in stack.downloads and stack.marking(case.scenario, role) is None
    ]
    frame = pl.DataFrame(rows, dict.fromkeys(("stack", "path", "word", "label"), pl.String), orient="row")
    nothing = pl.DataFrame(silent, dict.fromkeys(("stack", "path", "label"), pl.String), orient="row")
    names = [stack.name for stack in found]
    y = alt.Y(
        "stack:N", sort=names, title=None, scale=alt.Scale(domain=names),
        axis=alt.Axis(domain=False, ticks=False, labelLimit=200) if first else None,
    )  # fmt: skip
    paths = [case.title for case in MARKINGS]
    axis = alt.Axis(orient="top", labelAngle=-25, domain=False, ticks=False, titlePadding=4)
    x = alt.X("path:N", sort=paths, title=title, scale=alt.Scale(domain=paths), axis=axis)
    colour = alt.Color("word:N", title=None, scale=alt.Scale(domain=[*_WORDS.values()], range=_COLOURS))
    text = {"x": x, "y": y, "text": alt.Text("label:N")}
    layers = [
        Marks(frame).mark_rect(stroke="white", strokeWidth=1.5).encode(x=x, y=y, color=colour),
        Marks(frame).mark_text(color=INK, fontSize=10).encode(**text),
        Marks(nothing).mark_text(color=SOFT, fontSize=10).encode(**text),
    ]
    return set_size(layer_charts(*layers), _ROW * len(names), _COLUMN * len(paths))


def _label(stack: Stack, scenario: str, role: Role) -> str:
    marking = stack.marking(scenario, role)
    words = []
    if marking is not None and marking.datagrams is not None:
        words.append(number_text(marking.datagrams.median))
    elif marking is not None and marking.ect_1:
        words.append("ECT(1)")
    return " ".join([*words, *([] if stack.downloads[scenario].completes else ["✕"])])


def reactions(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of how long packets wait and how many are marked or dropped, with ECN and without, and of downloads
    whose every packet is marked; None without stacks that use ECN.
    """
    found = [
        stack
        for stack in stacks(results)
        if stack.uses_ecn and {MARKED.scenario, UNMARKED.scenario} <= set(stack.downloads)
    ]
    if not found:
        return None
    waits, signals, seconds = [], [], []
    for stack in found:
        marked, unmarked = stack.downloads[MARKED.scenario], stack.downloads[UNMARKED.scenario]
        waits += [
            (stack.name, word, span.median)
            for word, span in zip(_QUEUES, (marked.wait, unmarked.wait), strict=True)
            if span is not None
        ]
        signals += [
            (stack.name, word, span.median)
            for word, span in zip(_QUEUES, (marked.marks, unmarked.drops), strict=True)
            if span is not None
        ]
        every = stack.downloads.get(ALL_MARKED.scenario)
        if every is not None:
            whole = every.completes and every.seconds is not None
            seconds.append((stack.name, "all", every.seconds.median if whole and every.seconds else math.nan))
    names = [stack.name for stack in found]
    panels = [
        _points(waits, names, "median wait at the queue, ms", first=True),
        _points(signals, names, "packets marked, or dropped", first=False),
        _bars([(name, value) for name, _, value in seconds], names, "3 MB if all are marked, s"),
    ]
    notes = ["a download of 10 MB behind CoDel that marks, and behind CoDel that drops; medians"]
    return _made(alt.hconcat(*panels, spacing=16), "What senders make of marks", notes)


def _points(rows: list[tuple[str, str, float]], names: list[str], title: str, *, first: bool) -> Panel:
    frame = pl.DataFrame(rows, {"stack": pl.String, "queue": pl.String, "value": pl.Float64}, orient="row")
    y = _names(names, first=first)
    # From one to hundreds, and none.
    scale = alt.Scale(type="symlog", constant=1, domainMin=0, nice=False, padding=6)
    x = alt.X("value:Q", title=title, scale=scale, axis=alt.Axis(values=[0, 1, 3, 10, 30, 100, 300, 1000]))
    legend = alt.Legend(symbolSize=70)
    shape = alt.Shape(
        "queue:N", title=None, scale=alt.Scale(domain=_QUEUES, range=["circle", "diamond"]), legend=legend
    )
    # A point within a diamond is seen where both have the same place.
    colour = alt.Color("queue:N", title=None, scale=alt.Scale(domain=_QUEUES, range=[OPTIMUM, INK]), legend=legend)
    parts = [
        Marks(frame.filter(pl.col("queue") == queue))
        .mark_point(filled=filled, size=size, opacity=1)
        .encode(x=x, y=y, color=colour, shape=shape)
        for queue, filled, size in zip(_QUEUES, (True, False), (30, 120), strict=True)
    ]
    return set_size(layer_charts(*parts), _ROW * len(names), _PANEL)


def _bars(rows: list[tuple[str, float]], names: list[str], title: str) -> Panel:
    ended = [(name, value) for name, value in rows if math.isfinite(value)]
    never = [(name,) for name, value in rows if not math.isfinite(value)]
    frame = pl.DataFrame(ended, {"stack": pl.String, "value": pl.Float64}, orient="row")
    end = max((value for _, value in ended), default=1.0) * 1.2
    y, x = _names(names, first=False), alt.X("value:Q", title=title, scale=alt.Scale(domain=[0, end], nice=False))
    missed = pl.DataFrame(never, {"stack": pl.String}, orient="row")
    layers = [
        Marks(frame).mark_bar(size=_ROW * 0.55, color="#c8c8c8").encode(x=x, y=y),
        Marks(missed).mark_text(text="do not end", align="left", color=SOFT, fontSize=10).encode(y=y, x=alt.value(2)),
        Marks(frame)
        .mark_text(align="left", dx=3, color=INK, fontSize=9)
        .encode(x=x, y=y, text=alt.Text("value:Q", format=".3g")),
    ]
    return set_size(layer_charts(*layers), _ROW * len(names), _PANEL)


def _names(names: list[str], *, first: bool) -> alt.Y:
    """The stacks, which stand once beside the panels."""
    axis = alt.Axis(domain=False, ticks=False, labelLimit=200) if first else None
    return alt.Y("stack:N", sort=names, title=None, axis=axis, scale=alt.Scale(domain=names))


def _made(chart: Chart, title: str, notes: list[str]) -> dict[str, Any]:
    with warnings.catch_warnings(), debug_mode(False):
        return {**add_heading(chart, title, [SOURCE, *notes]).to_dict(validate=False), "config": vega_config()}
