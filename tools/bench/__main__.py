"""`python -m tools.bench`: the benchmarks, from the command line.

$ .venv/bin/python -m tools.bench virtual
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.main import get_command

from harness.cli.consoles import console, print_json
from harness.cli.entry import create_program, run_program
from harness.cli.environment import REFERENCE, open_app
from harness.cli.options import AsJson
from harness.cli.signals import FAILED
from harness.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from tools.bench.kernels import SideBySide


program = create_program("bench")


@program.command()
def bench(
    parts: Annotated[
        list[str] | None, typer.Argument(help="commands, cells, virtual, links, kernel, real, cluster; all without.")
    ] = None,
    kernels: Annotated[
        tuple[str, str] | None,
        typer.Option(
            help="Two lab kernels for 'kernel'; without it, instead: side by side over cells of the reference, whether "
            "they give the same bytes and how long each takes. A file, FILE@host, FILE@inproc, or host or inproc for "
            "the kernel of today."
        ),
    ] = None,
    cells: Annotated[
        list[str] | None,
        typer.Option(help="With --kernels: reference runs by KEY or KEY/REPETITION; a varied set without."),
    ] = None,
    most: Annotated[
        int | None, typer.Option(help="With --kernels: so many cells at most, the shortest.", min=1)
    ] = None,
    reference: Annotated[Path, typer.Option(help="With --kernels: the store whose cells are run.")] = REFERENCE,
    as_json: AsJson = False,
) -> None:
    """Measure the harness itself: overhead, rates and delays in real time; repeatability and speed in virtual time;
    its links, packet for packet, beside a model of random paths and beside ns-3; what a whole cell takes; what entering
    programs costs in the lab kernel; what a run costs the driver of a cluster; CPU and memory of commands that only
    read.

    With --kernels the exit code is 1 when the two do not give the same bytes.
    """
    from tools.bench import PARTS
    from tools.bench import bench as run_bench
    from tools.bench.entries import ENTERED
    from tools.bench.kernels import kernel_of

    for part in parts or []:
        if part not in PARTS:
            raise InputError(f"no benchmarks '{part}'", did_you_mean(part, PARTS))
    if kernels is None or "kernel" in (parts or []):
        for name in kernels or ():
            kernel_of(name)
        content = run_bench(open_app(), console(), parts or list(PARTS), kernels or ENTERED)
        if as_json:
            print_json(content)
        return
    comparisons = _side_by_side(kernels, cells or [], most, reference)
    if as_json:
        from tools.bench.kernels import report

        print_json(report(comparisons))
    if any(comparison.differs for comparison in comparisons):
        raise typer.Exit(FAILED)


def _side_by_side(kernels: tuple[str, str], names: list[str], most: int | None, reference: Path) -> list[SideBySide]:
    from harness.cli.signals import handle_interrupts
    from harness.execution.matrix import PlannedRun
    from harness.report.progress import ProgressPrinter
    from harness.repro.verify import select_runs, verifiable_runs
    from tools.bench.kernels import kernel_of, sentence, side_by_side, summary, varied

    pair = (kernel_of(kernels[0]), kernel_of(kernels[1]))
    app, kept = open_app(), open_app(reference)
    known = verifiable_runs(kept.stored_runs)
    runs = select_runs(known, names) if names else varied(known)
    comparisons = []
    with ProgressPrinter(console()) as progress, handle_interrupts(progress.interrupted, app.kill_all):
        items = (
            PlannedRun(app.inventory.build_images_of(app.current_cell(run.cell), progress), run.repetition)
            for run in runs[:most]
        )
        for comparison in side_by_side(app, items, pair, min(os.sched_getaffinity(0)), progress):
            comparisons.append(comparison)
            console().print(f"  {sentence(comparison)}", soft_wrap=True, markup=False)
    console().print(summary(comparisons), soft_wrap=True, markup=False)
    return comparisons


if __name__ == "__main__":
    run_program(lambda: get_command(program), "python -m tools.bench")
