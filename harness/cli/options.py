"""Arguments and options that several commands share, and what their values mean."""

from __future__ import annotations

import datetime
import inspect
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from harness.cli import completion
from harness.cli.completion import outcomes
from harness.cli.consoles import console
from harness.cli.environment import cores, endpoint_memory, lab_kernel, log_limit, open_app, patience, stall
from harness.errors import InputError, UnfitError, did_you_mean
from harness.formatting import format_value

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from harness.evaluation.retention import RequestedEvidence
    from harness.execution import App, Options
    from harness.execution.cluster.address import ClusterOptions
    from harness.execution.matrix import Request, Shard, UntilDecided
    from harness.planning.sweep import Combine
    from harness.scenario.parameters import Role
    from harness.scenario.schema import Implementation, Objective, Scenario


class KernelChoice(StrEnum):
    """Whose queues a simulator uses."""

    AUTO = "auto"
    HOST = "host"
    LAB = "lab"


class EngineChoice(StrEnum):
    """What runs a cell."""

    COMPOSE = "compose"
    VIRTUAL = "virtual"


class PairsChoice(StrEnum):
    """Which clients go with which servers."""

    ALL = "all"
    ITSELF = "itself"


class EvidenceChoice(StrEnum):
    """What runs keep of the files that they were measured from."""

    FULL = "full"
    FAILED = "failed"
    CAPTURES = "captures"
    FIGURES = "figures"


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
OnEngine = Annotated[
    EngineChoice,
    typer.Option("--engine", help="compose (real time) or virtual (virtual time).", envvar="HARNESS_ENGINE"),
]
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
KeptEvidence = Annotated[
    EvidenceChoice | None,
    typer.Option(
        "--evidence",
        help="What runs keep of the files that they were measured from: full, captures (all but qlogs), figures (no "
        "files), failed (full of runs that fail or miss an objective, figures of others). Without: figures for sweeps, "
        "studies, searches and histories in virtual time, full for others. Stored runs that keep less than you say are "
        "made again.",
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
Expectations = Annotated[
    list[str] | None,
    typer.Option(
        "--expect",
        help="An objective in place of the scenario's, as 'milestone_10MB at_most 8 s'. Exit codes are then those of "
        "'git bisect run': 0 met, 1 missed, 125 undecided, 128 wrong words.",
    ),
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
PairsOf = Annotated[
    PairsChoice, typer.Option("--pairs", help="Every client with every server, or each with itself alone.")
]
Zip = Annotated[bool, typer.Option("--zip", help="Pair the values of several --vary instead of all with all.")]


# --- Arguments of a command → a request, implementations. InputError for invalid ones.


#: Digits of a number on the command line.
_MAX_DIGITS = 9


def request_of(
    app: App,
    scenarios: list[str],
    clients: str,
    servers: str,
    repeat: int | UntilDecided | None,
    seed: int,
    engine: EngineChoice,
    kernel: KernelChoice,
    settings: list[str] | None,
    vary: list[str] | None = None,
    zipped: bool = False,
    shard: Shard | None = None,
    pairs: PairsChoice = PairsChoice.ALL,
) -> Request:
    """The request of a command, from which the plan is made."""
    from harness.execution.matrix import Request
    from harness.scenario.parameters import ROLES

    if engine == EngineChoice.VIRTUAL:
        if kernel == KernelChoice.HOST:
            raise InputError(
                "--sim-kernel host: virtual time needs the lab kernel", "leave it out, or use --engine compose"
            )
        kernel = KernelChoice.LAB
    absent = app.inventory.unavailable() if "all" in (clients, servers) else {}
    if absent:
        console().print(f"left out of 'all', not built here ('harness list' says why): {', '.join(absent)}")
    selected = app.catalogue.find_scenarios(scenarios)
    for scenario in selected if engine == EngineChoice.COMPOSE else ():
        require_few_flows(scenario)
    parameters = _parse_assignments("--set", settings)
    sweeps = {
        name: _parse_values("--vary", name, values, once=not zipped)
        for name, values in _parse_assignments("--vary", vary).items()
    }
    combine: Combine | None = "zip" if zipped else None
    for scenario in selected if zipped and not sweeps else ():
        if not scenario.vary:
            raise InputError(f"--zip: nothing of {scenario.name} is varied", "it pairs the values of several --vary")
    app.catalogue.require_honoured(selected, parameters, sweeps, combine)
    players: dict[Role, list[Implementation]] = {
        "client": app.catalogue.find_implementations(clients, "client", absent, selected),
        "server": app.catalogue.find_implementations(servers, "server", absent, selected),
    }
    app.catalogue.require_settable("--set", {name: [value] for name, value in parameters.items()}, players)
    app.catalogue.require_settable("--vary", sweeps, players)
    return Request(
        scenarios=selected,
        clients=players["client"],
        servers=players["server"],
        default_roles=frozenset(role for role in ROLES if (clients if role == "client" else servers) == "all"),
        pairs=pairs.value,
        engine=engine.value,
        sim_kernel=kernel.value,
        repetitions=repeat,
        seed=seed,
        parameters=parameters,
        vary=sweeps,
        combine=combine,
        shard=shard,
    )


def parse_stand_ins(words: list[str] | None) -> dict[str, str]:
    """Value of --image: implementation → image."""
    from harness.scenario.schema.base import FORMS, IMAGE

    stand_ins: dict[str, str] = {}
    for word in words or []:
        name, equals, image = word.partition("=")
        if not equals or not name or not re.fullmatch(IMAGE, image):
            raise InputError(
                f"--image {format_value(word)}: expected NAME={FORMS[IMAGE]}".partition(";")[0],
                "for example --image quiche=mine/quiche:dev",
            )
        if name in stand_ins:
            raise InputError(f"--image {name} is given twice", "leave one of the two out")
        stand_ins[name] = image
    return stand_ins


def parse_shard(text: str) -> Shard | None:
    """Value of --shard; None where it is empty."""
    from harness.execution.matrix import Shard

    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"--shard {format_value(text)}: expected K/N, K from 1 to N", "for example --shard 3/8")
    return Shard(int(match[1]), int(match[2]))


def _parse_values(option: str, name: str, text: str, once: bool) -> list[str]:
    """The values of a sweep. With `once` each may occur only once; values of --zip may repeat."""
    values = [value.strip() for value in text.split(",")]
    for index, value in enumerate(values):
        if not value:
            raise InputError(f"{option} {name}={text}: a value is missing", "remove the comma too many")
        if once and value in values[:index]:
            raise InputError(f"{option} {name}: '{value}' is given twice", "leave one of the two out")
    return values


def split_words(text: str) -> list[str]:
    """The words of an option's value, separated by commas, each once."""
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def parse_outcomes(text: str) -> frozenset[str]:
    """Value of --retry: outcomes, separated by commas."""
    from harness.outcome import Status

    return frozenset(require_choice("--retry", word, get_args(Status)) for word in split_words(text))


def parse_repetitions(text: str | None) -> int | UntilDecided | None:
    """Value of --repeat."""
    from harness.execution.matrix import UntilDecided
    from harness.scenario.schema import MAXIMUM_REPETITIONS
    from harness.stats.intervals import MIN_VALUES

    if text is None:
        return None
    automatic, _, bound = text.partition(":")
    number = bound if automatic == "auto" else text
    if text == "auto":
        return UntilDecided()
    if not re.fullmatch("0*[1-9][0-9]*", number):
        raise InputError(f"--repeat {text}: expected a number, auto or auto:NUMBER", "for example --repeat 5")
    if len(number) > _MAX_DIGITS or int(number) > MAXIMUM_REPETITIONS:
        raise InputError(
            f"--repeat {format_value(text)}: {MAXIMUM_REPETITIONS} repetitions are the most",
            "--repeat auto goes on until the intervals decide",
        )
    if automatic != "auto":
        return int(number)
    if int(number) < MIN_VALUES:
        raise InputError(
            f"--repeat {text}: no interval of fewer than {MIN_VALUES} repetitions decides",
            f"use --repeat auto:{MIN_VALUES} or more, or a plain number",
        )
    return UntilDecided(int(number))


def _parse_assignments(option: str, words: list[str] | None) -> dict[str, str]:
    assignments: dict[str, str] = {}
    for word in words or []:
        name, value = _parse_assignment(option, word)
        if name in assignments:
            raise InputError(f"{option} {name} is given twice", "give all its values to --vary, separated by commas")
        assignments[name] = value
    return assignments


def _parse_assignment(option: str, word: str) -> tuple[str, str]:
    """NAME and VALUE of one --set or --vary. InputError for an unknown name."""
    from harness.planning.sweep import dimensions, is_dimension

    name, equals, value = word.partition("=")
    if not equals or not value:
        raise InputError(f"{option} {word}: expected NAME=VALUE", f"for example {option} server.congestion_control=bbr")
    if not is_dimension(name):
        raise InputError(f"{option} {word}: nothing is called '{name}'", did_you_mean(name, dimensions()))
    return name, value


def select_implementations(
    app: App, words: str, *, generators: bool = False
) -> tuple[dict[str, Implementation], dict[str, str]]:
    """(implementations by name, in whatever role; those that 'all' leaves out: name → reason)."""
    absent = app.inventory.unavailable() if words == "all" else {}
    if generators and words == "all":
        return {
            name: implementation
            for name, (implementation, _) in app.catalogue.implementations().items()
            if name not in absent
        }, absent
    by_role = [app.catalogue.find_implementations(words, role, absent) for role in ("client", "server")]
    return {item.name: item for implementations in by_role for item in implementations}, absent


def parse_tolerance(option: str, text: str) -> float:
    """A percentage as a fraction."""
    from harness.units import Percentage

    try:
        return Percentage.parse(text).fraction
    except ValueError as error:
        raise InputError(f"{option} {text}: {error}", "for example 3%") from error


def cluster_options(
    cluster: str, folder: Path | None, files: str, verify: str, engine: EngineChoice
) -> ClusterOptions | None:
    """The cluster whose workers make the runs; None for none. InputError for a cluster in real time."""
    if not (cluster or folder or files or verify):
        return None
    from harness.execution.cluster import address

    if cluster and engine != EngineChoice.VIRTUAL:
        raise InputError(
            "--cluster: runs in real time need this machine's own network and clock",
            "add --engine virtual, or leave --cluster out",
        )
    return address.parse_cluster_options(cluster, folder, files, verify)


def require_few_flows(scenario: Scenario) -> None:
    """InputError for more flows than Docker's networks of a lab have addresses for."""
    from harness.topology.addresses import FIRST_FLOWS

    if (flows := len(scenario.flows)) > FIRST_FLOWS:
        raise InputError(
            f"{scenario.name}: {flows} flows in real time are {2 * flows} containers, and a Docker network has one "
            f"subnet, with addresses for {FIRST_FLOWS} flows",
            "add --engine virtual, or write fewer flows",
        )


def jobs_of(jobs: int | None, engine: EngineChoice) -> int:
    """How many runs go side by side."""
    if engine == EngineChoice.VIRTUAL:
        return jobs or cores()
    if jobs not in (None, 1):
        raise InputError(f"--jobs {jobs}: runs in real time would measure each other", "add --engine virtual")
    return 1


def require_choice(option: str, word: str, choices: Iterable[str]) -> str:
    """The word. InputError where it is not one of `choices`."""
    names = list(choices)
    if word not in names:
        raise InputError(f"{option} {word}: there is no '{word}'", did_you_mean(word, names))
    return word


def parse_span(option: str, text: str) -> tuple[float, float] | None:
    """(FROM, TO) in seconds; None where the text is empty. InputError."""
    if not text:
        return None
    begin, _, end = text.partition("-")
    try:
        interval = float(begin), float(end)
    except ValueError:
        interval = (0.0, 0.0)
    if not 0 <= interval[0] < interval[1] < math.inf:
        raise InputError(f"{option} {text}: expected FROM-TO, in seconds", f"for example {option} 21-24")
    return interval


def parse_age(option: str, text: str) -> datetime.timedelta | None:
    """A length of time in days, or in a unit of `harness.units.Duration`; None where the text is empty."""
    from harness.units import Duration

    if not text:
        return None
    number, unit = text.strip()[:-1], text.strip()[-1:]
    try:
        if unit == "d":
            # A day is read as an hour times 24: the number is parsed in one place.
            return 24 * datetime.timedelta(seconds=Duration.parse(f"{number}h").seconds)
        return datetime.timedelta(seconds=Duration.parse(text).seconds)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{option} {text}: no age: {error}", "for example '30 d' or '12 h'") from error


# --- The arguments and options that `run` and `plan` share, declared once.


A = TypeVar("A", bound="DataclassInstance")

Retry = Annotated[str, typer.Option(help="Outcomes to run again, such as crashed,timed_out.", autocompletion=outcomes)]
Draw = Annotated[
    bool,
    typer.Option(
        "--figures/--no-figures", help="End with figures: of cells whose flows share or stop, or of the worst download."
    ),
]

CheckReal = Annotated[
    bool,
    typer.Option(
        "--check-real",
        help="Then run each implementation with itself in real time, too, and print both beside each other.",
    ),
]

Html = Annotated[
    Path | None, typer.Option("--html", help="End with a site of these cells in this folder, and its address.")
]


@dataclass(frozen=True)
class RunArguments:
    """The arguments of `harness run`. `harness plan` takes the same, so that you can try a line before you run it."""

    scenarios: Scenarios
    clients: Clients = "all"
    servers: Servers = "all"
    pairs: PairsOf = PairsChoice.ALL
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
    expect: Expectations = None
    draw: Draw = True
    html: Html = None
    evidence: KeptEvidence = None
    check_real: CheckReal = False
    cluster: Cluster = ""
    cluster_tls: ClusterTls = None
    cluster_files: ClusterFiles = ""
    verify: VerifyShare = ""
    as_json: AsJson = False

    def open(self) -> App:
        """The checkout, with the given store, manifests and images. Raises InputError."""
        return open_app(self.store, self.manifest, parse_stand_ins(self.stand_ins))

    def request(self, app: App) -> Request:
        """The request, from which the plan is made. Raises InputError."""
        return with_expectations(self._request(app), self.expect)

    def _request(self, app: App) -> Request:
        return request_of(
            app,
            self.scenarios,
            self.clients,
            self.servers,
            parse_repetitions(self.repeat),
            self.seed,
            self.engine,
            self.sim_kernel,
            self.settings,
            self.vary,
            self.zipped,
            parse_shard(self.shard),
            self.pairs,
        )

    def kept(self, request: Request) -> RequestedEvidence:
        """What its runs keep."""
        from harness.evaluation.retention import default_evidence

        many = bool(request.vary) or any(item.vary or item.study for item in request.scenarios)
        return default_evidence(request.engine, many=many) if self.evidence is None else self.evidence.value

    @property
    def in_real_time(self) -> RunArguments:
        """The arguments of the runs of `check_real`: each implementation with itself on Compose. Raises InputError."""
        if self.engine != EngineChoice.VIRTUAL:
            raise InputError("--check-real: these runs are in real time already", "add --engine virtual")
        if self.shard or self.expect:
            raise InputError("--check-real: a shard, or an expectation, has one engine", "leave --check-real out")
        return replace(
            self,
            engine=EngineChoice.COMPOSE,
            pairs=PairsChoice.ITSELF,
            sim_kernel=KernelChoice.AUTO,
            jobs=None,
            cluster="",
            verify="",
            check_real=False,
        )

    def options(self, request: Request) -> Options:
        """The options of the runs of its request. Raises InputError."""
        from harness.execution import Options

        return Options(
            fresh=self.fresh,
            retry=self.again,
            patience=patience(),
            log_limit=log_limit(),
            memory=endpoint_memory(),
            jobs=self.beside,
            stall=stall(),
            evidence=self.kept(request),
            evidence_required=self.evidence is not None,
            kernel=lab_kernel(),
            cluster=self.place,
        )

    @property
    def beside(self) -> int:
        """Runs side by side. Raises InputError."""
        return jobs_of(self.jobs, self.engine)

    @property
    def place(self) -> ClusterOptions | None:
        """The cluster that makes the runs. Raises InputError."""
        return cluster_options(self.cluster, self.cluster_tls, self.cluster_files, self.verify, self.engine)

    @property
    def again(self) -> frozenset[str]:
        """Outcomes whose runs are made again. Raises InputError."""
        return parse_outcomes(self.retry) | {"infrastructure"}


def with_expectations(request: Request, words: list[str] | None) -> Request:
    """A request whose scenarios have these objectives in place of their own. Raises InputError."""
    if not words:
        return request
    from harness.analysis.objectives import mistakes

    objectives = tuple(_parse_expectation(text) for text in words)
    scenarios = []
    for scenario in request.scenarios:
        try:
            scenarios.append(expecting := scenario.with_objectives(objectives))
        except UnfitError as error:
            raise InputError(f"--expect for {scenario.name}: {error}", error.hint) from error
        for mistake in mistakes(expecting):
            raise InputError(f"--expect for {scenario.name}: {mistake.text}", mistake.hint)
    return replace(request, scenarios=scenarios)


def _parse_expectation(text: str) -> Objective:
    from pydantic import ValidationError

    from harness.scenario.schema import Objective

    example = "for example --expect 'milestone_10MB at_most 8 s'"
    match = re.fullmatch(r"\s*(\S+)\s+(at_most|at_least)\s+(\S.*?)\s*", text)
    if match is None:
        raise InputError(f"--expect {format_value(text)}: expected METRIC at_most VALUE, or at_least", example)
    metric, bound, value = match.groups()
    number = re.fullmatch(r"-?\d+(\.\d+)?", value)
    try:
        return Objective.model_validate({"metric": metric, bound: float(value) if number else value})
    except ValidationError as error:
        reason = error.errors()[0].get("ctx", {}).get("error", "")
        raise InputError(f"--expect {format_value(text)}: {reason}", example) from error


@dataclass(frozen=True)
class PlanArguments(RunArguments):
    """The same arguments, and the number of shards."""

    shards: Annotated[
        int | None, typer.Option("--shards", help="Say what each of so many shards has, and its time.", min=1, max=1000)
    ] = None


def command_with(asking: type[A]) -> Callable[[Callable[[A], None]], Callable[..., None]]:
    """Decorator: a command that has an argument or option for every field of `asking`, and gets an instance of it."""
    hints = get_type_hints(asking, include_extras=True)
    parameters = [_parameter(field, hints[field.name]) for field in fields(asking)]

    def decorate(function: Callable[[A], None]) -> Callable[..., None]:
        def command(**words: Any) -> None:
            function(asking(**words))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def _parameter(field: Field[Any], annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
