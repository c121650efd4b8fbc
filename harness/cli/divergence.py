"""`harness divergence`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.consoles import console, print_json, print_text
from harness.cli.environment import lab_kernel, log_limit, open_app, stall
from harness.cli.exits import FAILED, MET
from harness.cli.options import AsJson, EngineChoice, KernelChoice, Manifests, OneClient, OneServer, Seed, Settings
from harness.cli.words import request_of
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.capture.divergence import Divergence


def divergence(
    what: Annotated[
        list[str], typer.Argument(help="Folders of two stored runs; or one scenario, to run again and again.")
    ],
    client: OneClient = "ngtcp2",
    server: OneServer = "ngtcp2",
    times: Annotated[int, typer.Option(help="Runs at most, until one parts from the first.", min=2)] = 2,
    seed: Seed = 1,
    settings: Settings = None,
    keep: Annotated[
        Path | None, typer.Option(help="Folder that keeps the runs and their traces; none without.")
    ] = None,
    manifest: Manifests = None,
    as_json: AsJson = False,
) -> None:
    """Say where two runs of one cell part: first other packet, random bytes, and, of a cell run here, system call.

    A cell is run in virtual time, with a trace of its system calls. The exit code is 1 when the runs part.
    """
    from harness.report import divergence as view
    from harness.repro.divergence import stored

    made = 2
    if len(what) == 2:
        found = stored(Path(what[0]), Path(what[1]))
    elif len(what) == 1:
        found, made = _repeated(what[0], client, server, times, seed, settings, keep, manifest)
    else:
        raise InputError(f"{len(what)} things are named", "name one scenario, or the folders of two stored runs")
    if as_json:
        print_json(view.report(found, made))
    else:
        print_text(view.text(found, made))
    raise typer.Exit(MET if found.identical else FAILED)


def _repeated(
    scenario: str,
    client: str,
    server: str,
    times: int,
    seed: int,
    settings: list[str] | None,
    keep: Path | None,
    manifest: list[Path] | None,
) -> tuple[Divergence, int]:
    """Run one cell until two runs part; (where they do, runs made)."""
    import tempfile

    from harness.execution import Options
    from harness.report.progress import Talk
    from harness.repro.divergence import repeated

    app = open_app(manifests=manifest)
    request = request_of(app, [scenario], client, server, 1, seed, EngineChoice.VIRTUAL, KernelChoice.AUTO, settings)
    options = Options(log_limit=log_limit(), stall=stall(), kernel=lab_kernel())
    with tempfile.TemporaryDirectory(prefix="quic-lab-divergence-") as scratch, Talk(console()) as talk:
        cells = app.matrix(request, talk, pull=True)
        if len(cells) != 1:
            raise InputError(f"{scenario}: {len(cells)} cells", "name one client and one server; give --set one value")
        if keep is not None and keep.exists() and any(keep.iterdir()):
            raise InputError(f"--keep {keep}: there is something in it", "name a folder that is new or empty")
        return repeated(app, cells[0], times, keep or Path(scratch), options, talk)
