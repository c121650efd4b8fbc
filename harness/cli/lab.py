"""`harness lab`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import scenarios
from harness.cli.consoles import console
from harness.cli.environment import open_app
from harness.cli.options import EngineChoice, Kernel, KernelChoice, Manifests, OneClient, OneServer, Settings
from harness.cli.words import request_of


def lab(
    scenario: Annotated[str, typer.Argument(help="One scenario.", autocompletion=scenarios)],
    folder: Annotated[Path, typer.Argument(help="Folder to write; made if needed.")],
    client: OneClient = "ngtcp2",
    server: OneServer = "ngtcp2",
    sim_kernel: Kernel = KernelChoice.AUTO,
    settings: Settings = None,
    manifest: Manifests = None,
) -> None:
    """Write one cell as files for `docker compose up` by hand, and build the images it names."""
    from harness.report.progress import Talk

    app = open_app(manifests=manifest)
    request = request_of(app, [scenario], client, server, 1, 1, EngineChoice.COMPOSE, sim_kernel, settings)
    talk = Talk(console())
    with talk:
        app.write_lab(request, folder, talk)
    console().print(
        f"docker compose --env-file {folder}/cell.env -f {folder}/compose.yaml up --abort-on-container-exit",
        soft_wrap=True,
    )
