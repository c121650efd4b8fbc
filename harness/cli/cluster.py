"""`harness cluster`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.consoles import console, print_text
from harness.cli.options import ClusterTls
from harness.cli.signals import FAULT
from harness.errors import InputError

cluster = typer.Typer(no_args_is_help=True, help="Prepare a cluster of workers: certificates, a scheduler.")


@cluster.command("tls")
def tls(folder: Annotated[Path, typer.Argument(help="Folder that is made, and copied to every machine.")]) -> None:
    """Make certificates for driver, scheduler and workers: whoever has the folder may take part, nobody else may."""
    from harness.execution.cluster import tls as certificates

    certificates.write_certificates(folder)
    console().print(f"{folder} has all it takes, for {certificates.VALIDITY_DAYS} days", markup=False, soft_wrap=True)
    words = " ".join(certificates.dask_options(folder))
    console().print(f"a worker: dask worker tls://HOST:8786 --nthreads 1 {words}", markup=False, soft_wrap=True)


@cluster.command("kubernetes")
def kubernetes(
    image: Annotated[str, typer.Argument(help="Image with Python and this package, as the nodes name it.")],
    workers: Annotated[int, typer.Option(help="Workers, a core each.", min=1)] = 8,
    memory: Annotated[int, typer.Option(help="Memory of a worker, GiB: its guest's and that of measuring.", min=2)] = 4,
    disk: Annotated[int, typer.Option(help="Disk of a worker for images, GiB.", min=2)] = 10,
) -> None:
    """Print manifests of a scheduler and its workers, for `kubectl apply -f -`."""
    from harness.execution.cluster.kubernetes import manifests

    print_text(manifests(image, workers, memory, disk))


@cluster.command("scheduler")
def scheduler(
    cluster_tls: ClusterTls = None,
    port: Annotated[int, typer.Option(help="Port it listens at.", min=0, max=65535)] = 8786,
    unauthenticated: Annotated[
        bool, typer.Option("--unauthenticated", help="Without certificates, for every user of this machine alone.")
    ] = False,
) -> None:
    """Run Dask's scheduler, for whoever has the certificates: who reaches it may run anything on its workers."""
    from harness.execution.cluster.address import scheduler_command

    if (cluster_tls is None) != unauthenticated:
        raise InputError(
            "a scheduler without certificates lets in every user of this machine"
            if cluster_tls is None
            else "--unauthenticated is without certificates, and --cluster-tls with them",
            "add --cluster-tls FOLDER ('harness cluster tls FOLDER' makes it), or --unauthenticated where you mean it",
        )
    try:
        completed = subprocess.run(scheduler_command(cluster_tls, port), check=False)
    except KeyboardInterrupt:
        return
    if completed.returncode:
        raise typer.Exit(FAULT)
