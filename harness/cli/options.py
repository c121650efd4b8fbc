"""The arguments and options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import completion


class KernelChoice(StrEnum):
    """Whose queues a simulator uses."""

    AUTO = "auto"
    HOST = "host"
    LAB = "lab"


class EngineChoice(StrEnum):
    """What runs a cell."""

    COMPOSE = "compose"
    VIRTUAL = "virtual"


Scenarios = Annotated[
    list[str],
    typer.Argument(
        help="Scenario files, folders or names (satellite/medium, satellite).", autocompletion=completion.scenarios
    ),
]
StoredScenarios = Annotated[
    list[str] | None,
    typer.Argument(
        help="Scenarios, or cells and runs by the names that tables print; all stored ones without.",
        autocompletion=completion.scenarios,
    ),
]
Clients = Annotated[
    str,
    typer.Option(
        help="Client implementations, separated by commas, or 'all'.", autocompletion=completion.implementations
    ),
]
Servers = Annotated[
    str,
    typer.Option(
        help="Server implementations, separated by commas, or 'all'.", autocompletion=completion.implementations
    ),
]
OneClient = Annotated[str, typer.Option(help="Client implementation.", autocompletion=completion.one_implementation)]
OneServer = Annotated[str, typer.Option(help="Server implementation.", autocompletion=completion.one_implementation)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown on stdout.")]
StoreFolder = Annotated[Path | None, typer.Option("--store", help="Folder of the results.")]
Manifests = Annotated[list[Path] | None, typer.Option("--manifest", help="A further image.yaml, from anywhere.")]
Kernel = Annotated[KernelChoice, typer.Option("--sim-kernel", help="Whose queues: auto, host or lab.")]
OnEngine = Annotated[EngineChoice, typer.Option("--engine", help="compose (real time) or virtual (virtual time).")]
Jobs = Annotated[int | None, typer.Option(help="Runs side by side, in virtual time only; one per core without.", min=1)]
Repeat = Annotated[
    str | None,
    typer.Option(
        metavar="N|auto|auto:N",
        help="Repetitions per cell, instead of the scenario's; with 'auto' as many as it takes until the intervals "
        "decide the objectives (6 at least), at most N (20).",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the emulated loss.", min=0)]
Fresh = Annotated[bool, typer.Option(help="Run again what is stored.")]
Strict = Annotated[bool, typer.Option(help="Inconclusive is a failure (exit code 4).")]
Every = Annotated[bool, typer.Option("--every", help="Also cells that newer ones of other bits replace.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="What holds in every cell: NAME=VALUE (client.X, server.X, X for both, path.forward.X).",
        autocompletion=completion.settings,
    ),
]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        help="A cell for each value: NAME=VALUE,VALUE… (names as for --set).",
        autocompletion=completion.sweeps,
    ),
]
Zip = Annotated[bool, typer.Option("--zip", help="Pair the values of several --vary instead of all with all.")]
