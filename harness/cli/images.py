"""`harness images`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.completion import one_implementation
from harness.cli.consoles import console, print_document, print_error
from harness.cli.environment import open_app, registry
from harness.cli.options import AsJson, Manifests, select_implementations
from harness.cli.signals import FAILED, INFRASTRUCTURE, handle_interrupts
from harness.cli.workspace import require_checkout
from harness.errors import InputError, disk_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.engine.images.build import Build, ImageBuild
    from harness.execution import App


def images(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Implementations; all that can be built without.", autocompletion=one_implementation),
    ] = None,
    manifest: Manifests = None,
    origin: Annotated[
        str, typer.Option("--from", metavar="REGISTRY", help="Pull what this registry has instead of building it.")
    ] = "",
    push: Annotated[
        str, typer.Option("--push", metavar="REGISTRY", help="Give them to this registry, for --from elsewhere.")
    ] = "",
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Compare each image with the record of its recipe. Exit code 1 when something differs."
        ),
    ] = False,
    record: Annotated[
        bool, typer.Option("--record", help="Write down what is in each image, as components.json beside its recipe.")
    ] = False,
    container: Annotated[
        str, typer.Option("--container", metavar="IMAGE", help="Make one image of the harness and these images.")
    ] = "",
    sbom: Annotated[
        Path | None,
        typer.Option("--sbom", metavar="FOLDER", help="Write an SBOM of each image (CycloneDX 1.6) into this folder."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build the images of the simulator and the implementations, and print their sizes.

    From a registry comes what it has of just these recipes; an image that is not what it says is refused by name.
    HARNESS_REGISTRY is the --from of every command.

    With --check, --record or --sbom you may name the other images built here as well: endpoint, rust, go, sim,
    lab-kernel, probe, ns3. An image without a record differs.
    """
    from harness.report.images import images_document

    target = registry("--push", push)
    app = open_app(manifests=manifest, origin=registry("--from", origin))
    if record or container:
        require_checkout("images --record" if record else "images --container")
    if check or record or sbom is not None:
        if target or container:
            raise InputError("--push and --container go with none of --check, --record, --sbom", "give two commands")
        if as_json and not check:
            raise InputError("--json goes with --check: nothing else here prints data", "leave --json out")
        _inspect(app, names or [], check=check, record=record, sbom=sbom, as_json=as_json)
        return
    chosen, absent = select_implementations(app, ",".join(names or ["all"]), generators=True)
    results = _build(app, sorted(chosen))
    print_document(images_document(results, absent), as_json=as_json)
    _print_errors(results)
    if container:
        packed = {name: item for name, item in results.items() if item.error is None and name in ("sim", *chosen)}
        _build_container(app, container, packed)
    if target:
        for name in app.inventory.push(target, [name for name, item in results.items() if item.error is None]):
            console().print(f"pushed {name}", markup=False, soft_wrap=True)
    if any(item.error is not None for item in results.values()):
        raise typer.Exit(INFRASTRUCTURE)


def _build_container(app: App, image: str, packed: Mapping[str, ImageBuild]) -> None:
    """Build the image of the harness in a container, with these images. Raises EngineError, OSError."""
    import tempfile

    from harness.engine.docker_cli import docker
    from harness.engine.images.build import Build
    from harness.formatting import format_size

    with tempfile.TemporaryDirectory(prefix="quic-lab-context-") as folder:
        app.inventory.write_context(Path(folder), app.paths.root, packed.values(), app.contents)
        result = _build(app, {"container": Build("container", Path(folder), 60)})["container"]
    if result.error is not None:
        raise result.error
    docker("tag", result.reference, image)
    console().print(f"made {image}: {format_size(result.size)}, {', '.join(packed)}", markup=False, soft_wrap=True)


def _build(app: App, requested: Sequence[str] | Mapping[str, Build]) -> dict[str, ImageBuild]:
    """Build the simulator and the named implementations, or just the given builds, and show progress."""
    from harness.report.progress import ProgressPrinter

    progress = ProgressPrinter(console())
    with progress, handle_interrupts(progress.interrupted, app.kill_all):
        if isinstance(requested, dict):
            return app.inventory.make_each(requested, progress)
        return app.inventory.make(list(requested), progress)


def _print_errors(results: Mapping[str, ImageBuild]) -> None:
    for item in results.values():
        if item.error is not None:
            print_error(item.error)


def _inspect(app: App, names: Sequence[str], *, check: bool, record: bool, sbom: Path | None, as_json: bool) -> None:
    """Build images, inspect their contents, and compare these with the records or write them down."""
    from harness.engine.images import record as recorded
    from harness.engine.images.components import read_composition
    from harness.engine.images.sbom import sbom_of
    from harness.report.images import ImageCheck, image_checks_document

    builds, absent = _builds(app, names)
    results = _build(app, builds)
    checked = {}
    for name, build in builds.items():
        if results[name].error is not None:
            continue
        composition = read_composition(build.reference)
        now = recorded.ImageRecord(recorded.base_of(build), composition)
        try:
            if record:
                _print_written(recorded.write_record(build.folder, now))
            if sbom is not None:
                sbom.mkdir(parents=True, exist_ok=True)
                file = sbom / f"{name}.cdx.json"
                file.write_text(sbom_of(build.reference, composition))
                _print_written(file)
        except OSError as error:
            raise disk_error(error, sbom or build.folder) from error
        if check:
            previous = recorded.read_record(build.folder)
            differences = [] if previous is None else recorded.differences(previous, now)
            checked[name] = ImageCheck(build.reference, previous is not None, differences)
    print_document(image_checks_document(checked), as_json=as_json)
    for name, why in absent.items():
        console().print(f"{name}: not built here: {why}", markup=False, soft_wrap=True)
    _print_errors(results)
    if any(item.error is not None for item in results.values()):
        raise typer.Exit(INFRASTRUCTURE)
    if not all(item.as_recorded for item in checked.values()):
        raise typer.Exit(FAILED)


def _print_written(file: Path) -> None:
    cwd = Path.cwd()
    display_path = file.relative_to(cwd) if file.is_relative_to(cwd) else file
    console().print(f"wrote {display_path}", markup=False, soft_wrap=True)


def _builds(app: App, names: Sequence[str]) -> tuple[dict[str, Build], dict[str, str]]:
    """(the named builds, or all; those that are left out: name → reason)."""
    auxiliary = [name for name in app.inventory.support_images if not names or name in names]
    implementations = [name for name in names if name not in auxiliary]
    if names and not implementations:
        return app.inventory.builds([], auxiliary), {}
    chosen, absent = select_implementations(app, ",".join(implementations or ["all"]), generators=True)
    if implementations and (published := [name for name, item in chosen.items() if item.build is None]):
        raise InputError(f"{published[0]} is published: it has no recipe here", "name images that are built here")
    skipped = {name: why for name, why in absent.items() if app.inventory.implementation(name).build is not None}
    return app.inventory.builds(list(chosen), auxiliary), skipped
