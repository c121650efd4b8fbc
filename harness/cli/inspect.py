"""Commands that show what there is and run nothing: `list`, `explain`, `validate`, `schema`, `lab`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from harness.cli.completion import kinds, one_implementation, scenarios
from harness.cli.consoles import console, print_document, print_error, print_text
from harness.cli.environment import open_app
from harness.cli.options import (
    AsJson,
    EngineChoice,
    Kernel,
    KernelChoice,
    Manifests,
    OneClient,
    OnEngine,
    OneServer,
    Scenarios,
    Settings,
    request_of,
)
from harness.cli.signals import USAGE
from harness.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from harness.execution import App
    from harness.report.document import Document

T = TypeVar("T")


def list_(
    name: Annotated[
        str, typer.Argument(help="With --versions: an implementation.", autocompletion=one_implementation)
    ] = "",
    versions: Annotated[bool, typer.Option(help="The releases of one implementation.")] = False,
    as_json: AsJson = False,
    manifest: Manifests = None,
) -> None:
    """List the scenarios and the implementations, or the releases of one."""
    from harness.report.catalogue import ListedImplementation, catalogue_document

    app = open_app(manifests=manifest)
    if versions != bool(name):
        raise InputError("'list' takes a name with --versions, and --versions a name", "harness list quiche --versions")
    if versions:
        print_document(_listed_releases(app, name), as_json=as_json)
        return
    # A wrong file does not hide the others. Its error comes after the list.
    wrong: dict[str, InputError] = {}

    def read(load: Callable[[], T]) -> T | None:
        try:
            return load()
        except InputError as error:
            wrong.setdefault(error.message, error)
            return None

    files = app.catalogue.scenario_files()
    scenarios = [
        scenario for file in files if (scenario := read(partial(app.catalogue.listed_scenario, file))) is not None
    ]
    implementations = read(app.catalogue.implementations) or {
        implementation.name: (implementation, file.resolve().parent)
        for file in app.catalogue.implementation_files()
        if (implementation := read(partial(app.catalogue.manifest, file))) is not None
    }
    app.inventory.inspect_together(implementations.values())
    entries = [
        ListedImplementation(item, available, None if available else app.inventory.why_unavailable(item, contact=False))
        for item, folder in implementations.values()
        for available in [app.inventory.has_image(item, folder)]
    ]
    print_document(catalogue_document(scenarios, entries), as_json=as_json)
    for error in wrong.values():
        print_error(error)
    if wrong:
        raise typer.Exit(USAGE)


def _listed_releases(app: App, name: str) -> Document:
    from harness.catalogue.releases import is_current, read_releases, why_absent
    from harness.report.catalogue import ListedRelease, releases_document

    contestants = app.catalogue.implementations()
    implementation, folder = contestants.find(name)
    entries = []
    for release in read_releases(implementation, folder):
        absent = why_absent(implementation, folder, release)
        current = is_current(implementation, release.version)
        contestant = implementation if current or absent else contestants[f"{name}@{release.version}"][0]
        here = absent is None and app.inventory.has_image(contestant, folder)
        entries.append(ListedRelease(release, current, here, absent))
    return releases_document(implementation, entries)


# --- `harness explain`.


def explain(scenarios: Scenarios, engine: OnEngine = EngineChoice.COMPOSE) -> None:
    """Print what a scenario's path amounts to, and its path program under an engine."""
    from harness.report.explanation import scenario_text

    for scenario in open_app().catalogue.find_scenarios(scenarios):
        print_text(scenario_text(scenario, engine.value))


# --- `harness validate`.


def validate(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Files, and folders with all below; all of the repository's without.")
    ] = None,
) -> None:
    """Check scenario and image files without running anything."""
    from harness.catalogue.validation import validate as check
    from harness.catalogue.validation import yaml_files

    app = open_app()
    paths = yaml_files(files or [])
    problems = check(app.catalogue, paths)
    for problem in problems:
        print_error(problem)
    if problems:
        raise typer.Exit(USAGE)
    count = len(paths or [*app.catalogue.scenario_files(), *app.catalogue.implementation_files()])
    console().print(f"{count} files are valid")


# --- `harness schema`.


def schema(kind: Annotated[str, typer.Argument(help="scenario or image.", autocompletion=kinds)] = "scenario") -> None:
    """Print the JSON Schema that editors use."""
    from harness.catalogue import json_schema
    from harness.scenario.schema import Implementation, Part, Scenario

    models: dict[str, type[Part]] = {"scenario": Scenario, "image": Implementation}
    if kind not in models:
        raise InputError(f"no schema '{kind}'", did_you_mean(kind, models))
    print_text(json_schema(models[kind]))


# --- `harness lab`.


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
    from harness.report.progress import ProgressPrinter

    app = open_app(manifests=manifest)
    request = request_of(app, [scenario], client, server, 1, 1, EngineChoice.COMPOSE, sim_kernel, settings)
    progress = ProgressPrinter(console())
    with progress:
        app.write_lab(request, folder, progress)
    console().print(
        f"docker compose --env-file {folder}/cell.env -f {folder}/compose.yaml up --abort-on-container-exit",
        soft_wrap=True,
    )
