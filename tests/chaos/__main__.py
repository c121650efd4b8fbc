"""`python -m tests.chaos`: faults by a seed, and which of them did not hold."""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.workspace import ROOT
from harness.outcome import EngineName
from tests.chaos.campaign import Chaos, FaultReport, GroundError, as_json, summary
from tests.chaos.kinds import KINDS
from tests.chaos.schedule import Planned, schedule


def main(
    faults: Annotated[int, typer.Option(help="How many.", min=1)] = 200,
    seed: Annotated[int, typer.Option(help="Which, and when: another seed, other moments.")] = 1,
    only: Annotated[list[int] | None, typer.Option(help="Do this one of the schedule alone; may be repeated.")] = None,
    engine: Annotated[str, typer.Option(help="virtual or compose; both without.")] = "",
    kind: Annotated[str, typer.Option(help="Only kinds that have this in their name.")] = "",
    jobs: Annotated[int, typer.Option(help="Faults side by side, in virtual time.", min=1)] = 2,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be done, and do nothing.")] = False,
    ground: Annotated[
        Path | None,
        typer.Option(
            help="Keep the undisturbed runs in this folder, and use those of an earlier time with this harness."
        ),
    ] = None,
    within: Annotated[float, typer.Option(help="Begin no fault after so many seconds.")] = math.inf,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write what came of it there.")] = None,
) -> None:
    """Do faults to the installed harness and look what it makes of them. Exit code 0 when all of them held."""
    possible = [kind for kind in KINDS if kind.possible()]
    if len(possible) < len(KINDS):
        print(f"{len(KINDS) - len(possible)} of {len(KINDS)} kinds are left out: they take root", flush=True)
    chosen = [fault for fault in schedule(possible, faults, seed) if _wanted(fault, only, engine, kind)]
    if not chosen:
        print(f"none of the {faults} faults of this schedule is one of these", file=sys.stderr)
        raise typer.Exit(2)
    if plan:
        for planned in chosen:
            print(f"{planned.number:4d}  {planned.name}")
        raise typer.Exit(0)
    begun = time.monotonic()
    chaos = Chaos(ground or ROOT / ".state" / f"chaos-{os.getpid()}")
    engines: list[EngineName] = sorted({fault.kind.engine for fault in chosen}, reverse=True)
    try:
        chaos.prepare(engines, lambda text: print(text, flush=True))
    except GroundError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(3) from None
    number = 0

    def print_report(report: FaultReport) -> None:
        nonlocal number
        number += 1
        print(f"{time.monotonic() - begun:7.1f} s  {number:3d}/{len(chosen)}  {line_of(report)}", flush=True)
        for problem in report.trial.problems:
            print(f"{'':21}{problem}", flush=True)

    fault_reports: list[FaultReport] = []
    try:
        fault_reports = chaos.run_faults(chosen, jobs, print_report, within - (time.monotonic() - begun))
    finally:
        if ground is None:
            chaos.clear(
                all_of_it=bool(fault_reports) and all(fault_report.trial.is_sound for fault_report in fault_reports)
            )
    if json_file is not None:
        json_file.write_text(as_json(fault_reports))
    conclude(fault_reports, f"make chaos FAULTS={faults} SEED={seed}")
    print(f"{summary(fault_reports)} faults held, in {(time.monotonic() - begun) / 60:.0f} min")
    if len(fault_reports) < len(chosen):
        print(f"{len(chosen) - len(fault_reports)} faults were not begun within {within:g} s")
    raise typer.Exit(
        0
        if len(fault_reports) == len(chosen) and all(fault_report.trial.is_sound for fault_report in fault_reports)
        else 1
    )


def conclude(reports: Sequence[FaultReport], command: str) -> None:
    """Say which faults did not hold, how to do them again, and of which kinds they are."""
    failed = [fault_report for fault_report in reports if not fault_report.trial.is_sound]
    for fault_report in failed:
        print(f"failed: #{fault_report.fault.number} {fault_report.fault.name}")
        print(f"    again: {command} ONLY={fault_report.fault.number}")
    for name, count in sorted(Counter(fault_report.fault.name for fault_report in failed).items()):
        of = sum(fault_report.fault.name == name for fault_report in reports)
        print(f"held: {of - count} of {of}  {name}")


def line_of(report: FaultReport) -> str:
    """One fault in a line."""
    what = "; ".join(report.trial.actions)
    text = "held" if report.trial.is_sound else "FAILED"
    return f"{text}  #{report.fault.number} {report.fault.name}: {what} ({report.trial.seconds:.1f} s)"


def _wanted(fault: Planned, only: list[int] | None, engine: str, kind: str) -> bool:
    return (not only or fault.number in only) and fault.kind.engine.startswith(engine) and kind in fault.kind.name


if __name__ == "__main__":
    typer.run(main)
