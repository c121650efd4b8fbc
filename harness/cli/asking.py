"""What is asked of a plan: the arguments and options that `run` and `plan` share, declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from harness.cli.completion import outcomes
from harness.cli.environment import endpoint_memory, lab_kernel, log_limit, open_app, patience, stall
from harness.cli.options import (
    ArtefactsChoice,
    AsJson,
    Clients,
    Cluster,
    ClusterFiles,
    ClusterTls,
    EngineChoice,
    Fresh,
    Jobs,
    KeptArtefacts,
    Kernel,
    KernelChoice,
    Manifests,
    OnEngine,
    Repeat,
    Scenarios,
    Seed,
    Servers,
    Settings,
    ShardOf,
    StandIns,
    StoreFolder,
    Strict,
    Vary,
    VerifyShare,
    Zip,
)
from harness.cli.words import jobs_of, outcomes_of, place_of, repetitions_of, request_of, shard_of, stand_ins_of

if TYPE_CHECKING:
    from harness.execution import App, Options
    from harness.execution.cluster.address import Place
    from harness.execution.matrix import Request

A = TypeVar("A", bound="Asking")

Retry = Annotated[str, typer.Option(help="Outcomes to run again, such as crashed,timed_out.", autocompletion=outcomes)]
Draw = Annotated[
    bool,
    typer.Option(
        "--figures/--no-figures", help="End with figures: of cells whose flows share or stop, or of the worst download."
    ),
]

Html = Annotated[
    Path | None, typer.Option("--html", help="End with a site of these cells in this folder, and its address.")
]


@dataclass(frozen=True)
class Asking:
    """The words of `harness run`. `harness plan` takes the same, so that a line can be tried before it is run."""

    scenarios: Scenarios
    clients: Clients = "all"
    servers: Servers = "all"
    repeat: Repeat = None
    seed: Seed = 1
    engine: OnEngine = EngineChoice.COMPOSE
    jobs: Jobs = None
    sim_kernel: Kernel = KernelChoice.AUTO
    settings: Settings = None
    vary: Vary = None
    zipped: Zip = False
    shard: ShardOf = ""
    store: StoreFolder = None
    manifest: Manifests = None
    stand_ins: StandIns = None
    fresh: Fresh = False
    retry: Retry = ""
    strict: Strict = False
    draw: Draw = True
    html: Html = None
    artefacts: KeptArtefacts = ArtefactsChoice.ALL
    cluster: Cluster = ""
    cluster_tls: ClusterTls = None
    cluster_files: ClusterFiles = ""
    verify: VerifyShare = ""
    as_json: AsJson = False

    def open(self) -> App:
        """The checkout with what was named of it. Raises InputError."""
        return open_app(self.store, self.manifest, stand_ins_of(self.stand_ins))

    def request(self, app: App) -> Request:
        """As a plan is made of it. Raises InputError."""
        return request_of(
            app, self.scenarios, self.clients, self.servers, repetitions_of(self.repeat), self.seed, self.engine,
            self.sim_kernel, self.settings, self.vary, self.zipped, shard_of(self.shard),
        )  # fmt: skip

    def options(self) -> Options:
        """How its runs are made. Raises InputError."""
        from harness.execution import Options

        return Options(
            fresh=self.fresh, retry=self.again, patience=patience(), log_limit=log_limit(), memory=endpoint_memory(),
            jobs=self.beside, stall=stall(), artefacts=self.artefacts.value, kernel=lab_kernel(), cluster=self.place,
        )  # fmt: skip

    @property
    def beside(self) -> int:
        """Runs side by side. Raises InputError."""
        return jobs_of(self.jobs, self.engine)

    @property
    def place(self) -> Place | None:
        """The cluster that makes the runs. Raises InputError."""
        return place_of(self.cluster, self.cluster_tls, self.cluster_files, self.verify, self.engine)

    @property
    def again(self) -> frozenset[str]:
        """Outcomes that do not count as done. Raises InputError."""
        return outcomes_of(self.retry) | {"infrastructure"}


@dataclass(frozen=True)
class AskingForShards(Asking):
    """The same, and how it is to be shared out."""

    shards: Annotated[
        int | None, typer.Option("--shards", help="Say what each of so many shards has, and its time.", min=1, max=1000)
    ] = None


def taking(asking: type[A]) -> Callable[[Callable[[A], None]], Callable[..., None]]:
    """A command with every field of what is asked as an argument or option of its own, called with the whole."""
    hints = get_type_hints(asking, include_extras=True)
    parameters = [_parameter(one, hints[one.name]) for one in fields(asking)]

    def made(function: Callable[[A], None]) -> Callable[..., None]:
        def command(**words: Any) -> None:
            function(asking(**words))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return made


def _parameter(one: Field[Any], annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if one.default is MISSING else one.default
    return inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
