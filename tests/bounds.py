"""Made-up results of the scenarios with picoquic's own bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.analysis.metrics import VERSION
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix
from harness.outcome import LinkProof, MeasuredRun, Observation, Outcome, Run, Transfer
from harness.scenario.schema import Implementation, Scenario
from tests.examples import SIM, catalogue, images, implementation
from tests.measurements import measurement

#: A server that remembers, untold, and a client that resumes.
PICOQUIC: Implementation = implementation(
    "picoquic",
    session=True,
    parameters={
        "congestion_control": {
            "server": {"flag": "--cc={value}", "values": ["reno", "cubic", "bbr", "bbr1", "prague"]}
        },
        "bdp_seed": {"server": {"flag": "--seed={value}", "values": ["jump-start", "off"], "default": "jump-start"}},
    },
)


def scenario(name: str) -> Scenario:
    """One of scenarios/picoquic, by its file."""
    return catalogue().find_scenarios([f"picoquic/{name}"])[0]


def results(
    definition: Scenario,
    *seconds: Sequence[float],
    figures: Mapping[str, float] | None = None,
    start: float | None = None,
    client: Implementation = PICOQUIC,
    server: Implementation = PICOQUIC,
) -> list[CellResult]:
    """A scenario's cells in the order of its sweep, with runs that took so long; an infinite one did not end in time.

    `start`: how many times the first connection's data the second one begins with.
    """
    (objective,) = definition.objectives
    request = Request([definition], [client], [server], engine="virtual")
    cell_results = []
    for cell, times in zip(build_matrix(request, images(client.name, server.name), SIM), seconds, strict=False):
        runs = []
        for number, time in enumerate(times):
            late = time == float("inf")
            run = Run(
                cell=cell,
                repetition=number,
                outcome=Outcome(status="timed_out" if late else "completed"),
                started_at="2026-11-22",
                transfers=(Transfer(flow=0, index=0, size=1, started_ns=0, ended_ns=60 * 10**9),),
            )
            values = {**(figures or {}), **({} if late else {objective.metric: time})}
            measured = tuple(measurement(name, value, "s") for name, value in values.items())
            seed = Observation(role="server", parameter="bdp_seed", value=start or 0, unit="", source="a test")
            observed = () if start is None else (seed,)
            link = LinkProof(valid=True)
            runs.append((run, MeasuredRun(version=VERSION, measurements=measured, observed=observed, link=link)))
        cell_results.append(CellResult(cell, tuple(runs), judge(cell.scenario, runs), tuple(Path("x") for _ in runs)))
    return cell_results
