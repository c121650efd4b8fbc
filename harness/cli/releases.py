"""Commands over the releases of one implementation: `history`, `bisect`."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.completion import one_implementation
from harness.cli.consoles import console, print_document
from harness.cli.options import (
    AsJson,
    AsMarkdown,
    EngineChoice,
    EvidenceChoice,
    Fresh,
    Jobs,
    KeptEvidence,
    Manifests,
    OnEngine,
    PairsChoice,
    Repeat,
    RunArguments,
    Scenarios,
    Seed,
    Settings,
    StoreFolder,
    command_with,
    parse_tolerance,
)
from harness.cli.signals import FAILED, MET, exit_code, handle_interrupts, interrupted_exit
from harness.errors import EngineError, InputError, NoDataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.capture.divergence import Divergence
    from harness.evaluation.cell_result import CellResult
    from harness.evaluation.release_bisection import Bisection
    from harness.evaluation.release_history import Criterion, ReleaseResult
    from harness.execution import App
    from harness.outcome import Cell
    from harness.scenario.parameters import Role
    from harness.scenario.schema import Implementation, Release, Scenario


class Granularity(StrEnum):
    """Which releases of a history."""

    RELEASE = "release"
    MINOR = "minor"


Name = Annotated[str, typer.Argument(help="An implementation.", autocompletion=one_implementation)]
PeerClient = Annotated[
    str,
    typer.Option(
        "--client",
        help="Whose client downloads from each release; each release has its own without.",
        autocompletion=one_implementation,
    ),
]
PeerServer = Annotated[
    str,
    typer.Option(
        "--server", help="Whose server each release's client downloads from.", autocompletion=one_implementation
    ),
]


@dataclass(frozen=True)
class ReleaseArguments:
    """The arguments that both commands share."""

    name: Name
    scenarios: Scenarios
    client: PeerClient = ""
    server: PeerServer = ""
    repeat: Repeat = None
    seed: Seed = 1
    engine: OnEngine = EngineChoice.VIRTUAL
    jobs: Jobs = None
    settings: Settings = None
    store: StoreFolder = None
    manifest: Manifests = None
    fresh: Fresh = False
    evidence: KeptEvidence = None
    as_json: AsJson = False

    @property
    def role(self) -> Role:
        """The role that tells the cells of releases apart."""
        return "client" if self.server else "server"

    @property
    def default_evidence(self) -> EvidenceChoice:
        """What runs keep where nobody says it: a bisection shows the packet at which two releases part."""
        return EvidenceChoice.FULL

    def running(self, names: Sequence[str]) -> RunArguments:
        """The arguments of `run` for these releases. InputError where both peers are named."""
        if self.client and self.server:
            raise InputError("--client and --server leave no place for a release", "leave one of the two out")
        releases = ",".join(names)
        return RunArguments(
            scenarios=self.scenarios,
            clients=self.client or releases,
            servers=self.server or releases,
            pairs=PairsChoice.ALL if self.client or self.server else PairsChoice.ITSELF,
            repeat=self.repeat,
            seed=self.seed,
            engine=self.engine,
            jobs=self.jobs,
            settings=self.settings,
            store=self.store,
            manifest=self.manifest,
            fresh=self.fresh,
            evidence=self.evidence or self.default_evidence,
        )


@dataclass(frozen=True)
class HistoryArguments(ReleaseArguments):
    """The arguments of `harness history`."""

    @property
    def default_evidence(self) -> EvidenceChoice:
        """What runs keep where nobody says it: a history shows figures."""
        from harness.evaluation.retention import default_evidence

        return EvidenceChoice(default_evidence(self.engine.value, many=True))

    since: Annotated[str, typer.Option(help="Releases from this day on, as 2024-01-01.")] = ""
    every: Annotated[Granularity, typer.Option(help="Every release, or of those with one minor number the newest.")] = (
        Granularity.RELEASE
    )
    markdown: AsMarkdown = False
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Folder to draw into: a milestone over the days of releases.")
    ] = None


@dataclass(frozen=True)
class BisectArguments(ReleaseArguments):
    """The arguments of `harness bisect`: its name has a range."""

    metric: Annotated[
        str, typer.Option(help="The metric that decides; the first milestone, or the headline, without.")
    ] = ""
    worse: Annotated[str, typer.Option(help="How much worse it has to be than with the oldest release.")] = "2%"
    better: Annotated[str, typer.Option(help="How much better it has to be, instead of worse.")] = ""
    changed: Annotated[bool, typer.Option("--changed", help="Any other byte on the wire decides instead.")] = False


@command_with(HistoryArguments)
def history(asking: HistoryArguments) -> None:
    """Run every release of an implementation, and say which of them changed something.

    Stored runs count; missing ones are made.
    """
    from harness.catalogue.releases import newest_of_each_minor
    from harness.evaluation.release_history import scenario_history
    from harness.report.history import history_document

    app = asking.running([]).open()
    implementation, releases = _releases(app, asking.name)
    if asking.since:
        first = _day(asking.since)
        releases = [release for release in releases if release.date >= first]
    if asking.every is Granularity.MINOR:
        releases = newest_of_each_minor(releases)
    if not releases:
        raise InputError(
            f"{asking.name} has no release since {asking.since} that can be built", "ask for an earlier day"
        )
    scenarios = app.catalogue.find_scenarios(asking.scenarios)
    require_place(scenarios, asking.name, asking.role)
    require_roles(implementation, asking)
    results = run_releases(app, asking, releases)
    peer = asking.client or asking.server
    histories = [
        scenario_history(asking.name, scenario, releases, results, asking.role, _build_problems(app), peer)
        for scenario in scenarios
    ]
    if asking.figures is not None:
        from harness.report.plots.releases import history_figure
        from harness.report.plots.study import write_study_figures

        for file in write_study_figures(
            {f"history-{asking.name}": history_figure(implementation, histories)}, asking.figures.resolve()
        ):
            console().print(str(file), soft_wrap=True)
    print_document(history_document(asking.name, histories), as_json=asking.as_json, markdown=asking.markdown)
    raise typer.Exit(exit_code(results, strict=False))


@command_with(BisectArguments)
def bisect(asking: BisectArguments) -> None:
    """Find the release that changed something: NAME@OLDEST..NEWEST, such as quiche@0.22.0..0.30.0.

    Stored runs count; as few as possible are made. The exit code is 1 where a release is found.
    """
    from harness.evaluation.release_bisection import bisect as search
    from harness.evaluation.release_history import scenario_history
    from harness.report.history import bisection_document

    app = asking.running([]).open()
    implementation, releases = _range(app, asking.name)
    scenarios = app.catalogue.find_scenarios(asking.scenarios)
    if len(scenarios) != 1:
        raise InputError(f"{len(scenarios)} scenarios are named, and one decides", "name one scenario")
    require_place(scenarios, implementation.name, asking.role)
    require_roles(implementation, asking)
    improves = bool(asking.better)
    tolerance = parse_tolerance("--better", asking.better) if improves else parse_tolerance("--worse", asking.worse)
    results: dict[int, ReleaseResult] = {}

    def run(index: int) -> ReleaseResult:
        if index not in results:
            cells = run_releases(app, replace(asking, name=implementation.name), [releases[index]])
            (results[index],) = scenario_history(
                implementation.name, scenarios[0], [releases[index]], cells, asking.role, _build_problems(app)
            ).results
        return results[index]

    def is_changed(index: int) -> bool | None:
        result = run(index)
        return None if result.result is None else criterion.is_changed(run(0), result)

    _require_metric(asking, scenarios[0])
    if (oldest := run(0)).result is None:
        raise EngineError(
            f"there is no run of {oldest.name}, which all are compared with: {oldest.problem}", "ask for a later one"
        )
    criterion = _criterion(asking, oldest.result, tolerance, improves=improves)
    bisection = search(len(releases), is_changed)
    divergence = _first_divergence(results, bisection)
    print_document(bisection_document(criterion, results, bisection, divergence), as_json=asking.as_json)
    raise typer.Exit(MET if bisection.first_changed is None else FAILED)


def _range(app: App, text: str) -> tuple[Implementation, list[Release]]:
    """The implementation and its releases that can be built, of NAME@OLDEST..NEWEST. Raises InputError."""
    from harness.scenario.schema import Version

    example = "for example quiche@0.22.0..0.30.0"
    name, _, span = text.partition("@")
    first, dots, last = span.partition("..")
    if not dots or not first or not last:
        raise InputError(f"{text}: expected NAME@OLDEST..NEWEST", example)
    implementation, releases = _releases(app, name)
    for version in (first, last):
        # InputError, with the nearest ones, for one that cannot be had.
        app.catalogue.implementations().find(f"{name}@{version}")
    if not Version(first) < Version(last):
        raise InputError(f"{text}: {first} is not older than {last}", f"write {name}@{last}..{first}")
    return implementation, [release for release in releases if Version(first) <= release.version <= Version(last)]


def _require_metric(asking: BisectArguments, scenario: Scenario) -> None:
    """InputError for a metric that no run has."""
    from harness.analysis.metric_registry import find_metric
    from harness.evaluation.release_history import ScenarioHistory
    from harness.scenario.metric_names import MetricName

    if asking.changed and asking.metric:
        raise InputError("--changed goes by every byte, --metric by one figure", "leave one of the two out")
    if asking.metric and find_metric(MetricName.parse(asking.metric).metric) is None:
        names = [item.text(len(scenario.flows)) for item in ScenarioHistory(scenario, ()).metrics]
        raise InputError(f"--metric {asking.metric}: there is no such metric", f"such as {', '.join(names)}")


def _criterion(asking: BisectArguments, oldest: CellResult, tolerance: float, *, improves: bool) -> Criterion:
    """What counts as a change. NoDataError where the oldest release's runs do not have the metric."""
    from harness.analysis.metric_registry import find_metric
    from harness.evaluation.release_history import Criterion, ScenarioHistory

    if asking.changed:
        return Criterion(None)
    flows = len(oldest.cell.scenario.flows)
    text = asking.metric or ScenarioHistory(oldest.cell.scenario, ()).metrics[0].text(flows)
    metric = next((name for name in oldest.measurements if name.text(flows) == text), None)
    if metric is None:
        raise NoDataError(f"no run of {oldest.cell.server.name} has {text}", "begin with another release")
    declared = find_metric(metric.metric)
    return Criterion(metric, "neutral" if declared is None else declared.better, tolerance, improves=improves)


def _first_divergence(results: Mapping[int, ReleaseResult], bisection: Bisection) -> Divergence | None:
    """Where the first run of the found release parts from that of the one before it."""
    from harness.errors import ResultError
    from harness.repro.divergence import compare_stored

    if bisection.first_changed is None:
        return None
    pair = (results[bisection.last_before].result, results[bisection.first_changed].result)
    folders = [result.folders[0] for result in pair if result is not None and result.folders]
    if len(folders) < 2:
        return None
    try:
        return compare_stored(folders[0], folders[1])
    except ResultError:  # the captures are not kept
        return None


def run_releases(app: App, asking: ReleaseArguments, releases: Sequence[Release]) -> list[CellResult]:
    """Make the runs of releases that are not stored. Those whose image cannot be built have cells without runs."""
    from harness.execution.scheduler import UnbuiltError
    from harness.report.progress import ProgressPrinter

    words = asking.running([f"{asking.name}@{release.version}" for release in releases])
    request, options = (asked := words.request(app)), words.options(asked)
    progress = ProgressPrinter(console())
    try:
        with progress, handle_interrupts(progress.interrupted, app.kill_all):
            matrix = app.matrix(request, progress, pull=True)
            require_one_cell_each(matrix, asking.role)
            return app.run_cells(matrix, request.repetitions, options, progress)
    except UnbuiltError as error:
        return error.results
    except KeyboardInterrupt:
        raise interrupted_exit() from None


def require_place(scenarios: Iterable[Scenario], name: str, role: Role) -> None:
    """InputError for a scenario whose flows leave no place for a release of an implementation."""
    for scenario in scenarios:
        if role not in scenario.open_roles:
            raise InputError(
                f"{scenario.name} names its {role}s, and has no place for a release of {name}",
                f"take a scenario whose flows name no {role}",
            )


def require_roles(implementation: Implementation, asking: ReleaseArguments) -> None:
    """InputError for an implementation that lacks a role which no other one is named for."""
    from harness.scenario.parameters import peer_role

    if not (asking.client or asking.server) and len(implementation.roles) == 1:
        (role,) = implementation.roles
        peer = peer_role(role)
        raise InputError(
            f"{implementation.name} is a {role} alone, and cannot be its own {peer}",
            f"'--{peer} quinn', say, names the {peer} of its releases",
        )


def require_one_cell_each(cells: Sequence[Cell], role: Role) -> None:
    """InputError for a scenario with several cells for a release."""
    counts = Counter((cell.scenario.name, cell.implementation(role).name) for cell in cells)
    for cell in cells:
        count = counts[cell.scenario.name, cell.implementation(role).name]
        if count > 1:
            raise InputError(
                f"{cell.scenario.name} has {count} cells for each release, and one is compared",
                f"give what it varies one value: {', '.join(f'--set {key}=…' for key in cell.parameters)}",
            )


def _releases(app: App, name: str) -> tuple[Implementation, list[Release]]:
    """An implementation, and its releases that can be built, oldest first. Raises InputError."""
    from harness.catalogue.releases import supported_releases

    implementation, folder = app.catalogue.implementations().find(name)
    if implementation.release:
        raise InputError(f"{name} is one release", f"write {implementation.base_name}")
    return implementation, supported_releases(implementation, folder)


def _day(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"--since {text}: no day", "for example --since 2024-01-01") from error


#: Lines of a build's log by BuildKit itself, which say that a step failed and not why.
_OF_BUILDKIT = re.compile(r"^(#\d+ (ERROR|CANCELED)|ERROR:|------|> \[)|^Dockerfile:\d+|executor failed")


def _build_problems(app: App) -> Callable[[str], str]:
    """A function from NAME@VERSION to why it was not run: the last line of its build's log that is the compiler's."""

    def explain(name: str) -> str:
        log = app.paths.state / "builds" / f"{name}.log"
        if not log.exists():
            return "was not run"
        lines = (re.sub(r"^(#\d+ )?[\d.]+ ", "", line.strip()) for line in log.read_text(errors="replace").splitlines())
        telling = [line for line in lines if line and not _OF_BUILDKIT.search(line)]
        return f"could not be built: {(telling or ['no message'])[-1]} ({log})"

    return explain
