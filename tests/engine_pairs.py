"""Results of two engines at one point, for the comparison's tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.outcome import Cell, EngineName, LinkProof, MeasuredRun, Outcome, Run, Status, Transfer
from harness.scenario.schema import Scenario
from tests.examples import cell, scenario
from tests.measurements import measurement

Pair = tuple[Run, MeasuredRun | None]


def result(engine: EngineName, *runs: Pair, of: Cell | None = None, **overrides: object) -> CellResult:
    """A cell's result; `overrides` goes to the request: seed, parameters, one (the scenario), client, server."""
    tested_cell = of or cell(engine=engine, **overrides)  # type: ignore[arg-type]
    pairs = tuple(
        (run.model_copy(update={"cell": tested_cell, "repetition": number}), measured)
        for number, (run, measured) in enumerate(runs)
    )
    folders = tuple(Path(f"{engine}/{number}") for number in range(len(pairs)))
    return CellResult(tested_cell, pairs, judge(tested_cell.scenario, pairs), folders)


def run(
    status: Status = "completed",
    received: int = 10_000_000,
    seconds: float = 30,
    figures: Mapping[str, float] | None = None,
    **values: float,
) -> Pair:
    """A run of a download of 10 MB, `seconds` long, with what was measured of it, as figures or by keyword."""
    transfer = Transfer(
        flow=0, index=0, size=10_000_000, received=received, started_ns=0, ended_ns=round(seconds * 1e9)
    )
    stored_run = Run(
        cell=cell(),
        repetition=0,
        outcome=Outcome(status=status),
        started_at="2026-11-21T00:00:00Z",
        transfers=(transfer,),
        host={"cpus": 2},
        effective={"client.connection_window": "16 MiB"},
    )
    measurements = [
        measurement(
            name,
            value,
            unit="Mbit/s" if name == "goodput" else "1" if "drops" in name else "s",
            direction="higher" if name == "goodput" else "lower",
        )
        for name, value in {**(figures or {}), **values}.items()
    ]
    return stored_run, MeasuredRun(version=1, measurements=tuple(measurements), link=LinkProof(valid=True))


def completions(engine: EngineName, *seconds: float, **overrides: object) -> CellResult:
    """A cell whose runs completed after `seconds`, without CPU samples."""
    return result(engine, *(run(completion=value) for value in seconds), **overrides)  # type: ignore[arg-type]


def repeating() -> Scenario:
    """10 MB twice."""
    return scenario(name="test/twice", flows=[{"download": "10 MB", "repeat_after": "10 s"}])
