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


class ArtefactsChoice(StrEnum):
    """Of which runs the artefacts are kept."""

    ALL = "all"
    FAILED = "failed"
    NONE = "none"


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
StandIns = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="NAME=IMAGE",
        help="An image that stands in for an implementation's own: any that follows the endpoint contract.",
    ),
]
Kernel = Annotated[KernelChoice, typer.Option("--sim-kernel", help="Whose queues: auto, host or lab.")]
OnEngine = Annotated[EngineChoice, typer.Option("--engine", help="compose (real time) or virtual (virtual time).")]
Jobs = Annotated[
    int | None, typer.Option(help="Runs side by side, in virtual time only; one per core without.", min=1, max=1024)
]
Repeat = Annotated[
    str | None,
    typer.Option(
        metavar="N|auto|auto:N",
        help="Repetitions per cell, instead of the scenario's; with 'auto' as many as it takes until the intervals "
        "decide the objectives (6 at least), at most N (20).",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the emulated loss.", min=0, max=2**31 - 1)]
KeptArtefacts = Annotated[
    ArtefactsChoice,
    typer.Option(
        "--artefacts",
        help="Of which runs captures and logs are kept, compressed: all, failed (those that miss an objective, too) or "
        "none. Figures, link proof, series and digests always are.",
    ),
]
ShardOf = Annotated[
    str,
    typer.Option("--shard", metavar="K/N", help="The K-th of N parts of the matrix only; 'harness merge' joins them."),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="ADDRESS|local:N",
        help="Have the runs made by the workers of a Dask scheduler (tls://HOST:PORT; unauthenticated:tcp://HOST:PORT "
        "where it lets in anybody), or of one that is started here with N workers; in virtual time only.",
    ),
]
ClusterTls = Annotated[
    Path | None,
    typer.Option("--cluster-tls", metavar="FOLDER", help="Certificates of the cluster ('harness cluster tls')."),
]
ClusterFiles = Annotated[
    str,
    typer.Option(
        "--cluster-files",
        metavar="PLACE",
        help="Folder or address (fsspec) through which images reach the workers; over Dask without.",
    ),
]
VerifyShare = Annotated[
    str, typer.Option("--verify", metavar="SHARE", help="Share of the runs made twice, on different workers: 2%.")
]
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
