"""Stored results of studies that never ran: a time for each combination of levels and each repetition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.evaluation.cell_result import CellResult
from harness.execution.matrix import Request, build_matrix
from harness.outcome import Cell, MeasuredRun
from harness.planning.sweep import Point
from harness.scenario.parameters import ParameterValue
from harness.scenario.schema import Implementation, Scenario
from tests.engine_pairs import Pair, result, run
from tests.examples import SIM, images, implementation, scenario

#: What an implementation of these studies can be told.
_PARAMETERS: Mapping[str, Any] = {
    "congestion_control": {"values": ["reno", "cubic", "bbr"], "flag": "--cc={value}", "default": "cubic"},
    "initial_cwnd": {"flag": "--iw={value}", "default": 10},
    "initial_rtt": {"flag": "--rtt={ms}", "default": "333 ms"},
    "ack_ratio": {"flag": "--ratio={value}", "default": 2},
    "pacing": {"values": ["on", "off"], "flag": "--pacing={value}", "default": "on"},
}

Seconds = Callable[[Mapping[str, ParameterValue], int], float | None]
"""What was asked of a cell, and the number of a repetition → seconds; None for one that crashed."""


def configurable(name: str = "beta", without: tuple[str, ...] = (), **overrides: Any) -> Implementation:
    """An implementation that honours everything in these studies but for what it is `without`."""
    parameters = {key: value for key, value in _PARAMETERS.items() if key not in without}
    return implementation(name, **{"parameters": parameters, **overrides})


def of_study(study: Mapping[str, object], **overrides: object) -> Scenario:
    """A scenario with a study: 10 MB, of which 2 MB and 10 MB are timed."""
    return scenario(name="studies/test", objectives=[], study=study, **overrides)


def results(
    definition: Scenario, seconds: Seconds, repetitions: int = 3, *, client: str | Implementation = "alpha",
    server: Implementation | None = None, every: Sequence[Point] | None = None,
) -> list[CellResult]:  # fmt: skip
    """The cells of a study, or those at some points, as if they had run: 10 MB take `seconds`, 2 MB half of that and
    100 MB five times as long.

    A run beyond the scenario's timeout timed out with 2 MB received.
    """
    player = configurable(client) if isinstance(client, str) else client
    stack = server or configurable()
    request = Request([definition], [player], [stack], engine="virtual")
    cells = build_matrix(request, images(player.name, stack.name), SIM, every=every)
    return [
        result("virtual", *(_run(cell, seconds, number) for number in range(repetitions)), of=cell) for cell in cells
    ]


def _run(cell: Cell, seconds: Seconds, repetition: int) -> Pair:
    time = seconds(cell.parameters, repetition)
    if time is None:
        stored_run, _ = run("crashed")
        return stored_run, MeasuredRun(version=1)
    if time > cell.scenario.timeout.seconds:
        return run("timed_out", received=5_000_000, figures={"milestone_2MB": time / 2})
    sizes = {"2MB": time / 2, "10MB": time, "100MB": 5 * time}
    timed = {f"milestone_{size.label()}" for size in cell.scenario.milestones_within()}
    figures = {f"milestone_{size}": value for size, value in sizes.items() if f"milestone_{size}" in timed}
    return run(seconds=time, figures={**figures, "completion": time})
