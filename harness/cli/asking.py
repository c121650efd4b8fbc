"""What is asked of a plan: the arguments and options that `run` and `plan` share, declared once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from harness.cli.completion import outcomes
from harness.cli.options import (
    AsJson,
    Clients,
    EngineChoice,
    Fresh,
    Jobs,
    Kernel,
    KernelChoice,
    Manifests,
    OnEngine,
    Repeat,
    Scenarios,
    Seed,
    Servers,
    Settings,
    StoreFolder,
    Strict,
    Vary,
    Zip,
)
from harness.cli.words import jobs_of, repetitions_of, request_of

if TYPE_CHECKING:
    from harness.app import App
    from harness.plan import Request

Retry = Annotated[str, typer.Option(help="Outcomes to run again, such as crashed,timed_out.", autocompletion=outcomes)]
Draw = Annotated[
    bool,
    typer.Option(
        "--figures/--no-figures", help="End with figures: of cells whose flows share or stop, or of the worst download."
    ),
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
    store: StoreFolder = None
    manifest: Manifests = None
    fresh: Fresh = False
    retry: Retry = ""
    strict: Strict = False
    draw: Draw = True
    as_json: AsJson = False

    def request(self, app: App) -> Request:
        """As a plan is made of it. Raises InputError."""
        return request_of(
            app, self.scenarios, self.clients, self.servers, repetitions_of(self.repeat), self.seed, self.engine,
            self.sim_kernel, self.settings, self.vary, self.zipped,
        )  # fmt: skip

    @property
    def beside(self) -> int:
        """Runs side by side. Raises InputError."""
        return jobs_of(self.jobs, self.engine)

    @property
    def again(self) -> frozenset[str]:
        """Outcomes that do not count as done."""
        return frozenset(word for word in self.retry.split(",") if word) | {"infrastructure"}


def taking(function: Callable[[Asking], None]) -> Callable[..., None]:
    """A command with every field of `Asking` as an argument or option of its own, called with the whole."""
    hints = get_type_hints(Asking, include_extras=True)

    def command(**words: Any) -> None:
        function(Asking(**words))

    parameters = [_parameter(one, hints[one.name]) for one in fields(Asking)]
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _parameter(one: Field[Any], annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if one.default is MISSING else one.default
    return inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
