"""`harness plan`."""

from __future__ import annotations

from harness.cli.consoles import console, print_json, print_text
from harness.cli.environment import open_app
from harness.cli.options import (
    ArtefactsChoice,
    AsJson,
    Clients,
    EngineChoice,
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
    StoreFolder,
    Vary,
    Zip,
)
from harness.cli.words import jobs_of, repetitions_of, request_of


def plan(
    scenarios: Scenarios,
    clients: Clients = "all",
    servers: Servers = "all",
    repeat: Repeat = None,
    seed: Seed = 1,
    engine: OnEngine = EngineChoice.COMPOSE,
    sim_kernel: Kernel = KernelChoice.AUTO,
    settings: Settings = None,
    vary: Vary = None,
    zipped: Zip = False,
    store: StoreFolder = None,
    manifest: Manifests = None,
    artefacts: KeptArtefacts = ArtefactsChoice.ALL,
    as_json: AsJson = False,
) -> None:
    """Print the runs a request amounts to, which of them are stored, how long the rest takes and what of the disk."""
    from harness.app.disk import DiskUse
    from harness.estimate import expected_seconds
    from harness.plan import UntilDecided
    from harness.repetitions import Repetitions
    from harness.reports import json_report
    from harness.text import size_of

    app = open_app(store, manifest)
    times = repetitions_of(repeat)
    request = request_of(app, scenarios, clients, servers, times, seed, engine, sim_kernel, settings, vary, zipped)
    matrix = app.matrix(request, lambda event: None, pull=False)
    series = Repetitions(matrix, request.repetitions, app.results.of)
    done = app.results.done(series.possible(), frozenset({"infrastructure"}))
    # Of cells that go on until they are decided, what is asked for as things are.
    series.first(done)
    planned = [item for item in series.possible() if item.repetition < series.reached(item.cell)]
    done &= {(item.cell.key, item.repetition) for item in planned}
    todo = [item for item in planned if (item.cell.key, item.repetition) not in done]
    seconds = sum(expected_seconds(item.cell) for item in todo)
    beside = jobs_of(None, engine)
    disk = DiskUse(app.store, artefacts.value)
    need, free = disk.need(todo, beside), disk.free()
    if as_json:
        print_json(json_report.plan(planned, done, seconds, need.stay, need.meanwhile, free))
        return
    for item in planned:
        state = "stored" if (item.cell.key, item.repetition) in done else "to run"
        cell = item.cell
        extra = " ".join(f"{name}={value}" for name, value in cell.parameters.items())
        pair = f"{cell.client.name}→{cell.server.name}"
        print_text(f"{cell.key} {item.repetition:3} {state:7} {cell.scenario.name} {pair} {extra}".rstrip())
    undecided = isinstance(request.repetitions, UntilDecided) and len(done) < len(planned)
    more = ", then more until the objectives are decided" if undecided else ""
    minutes = f"about {seconds / beside / 60:.0f} min to run" + (f", {beside} at a time" if beside > 1 else "")
    console().print(
        f"{len(matrix)} cells, {len(planned)} runs, {len(done)} stored, {minutes} (builds not counted){more}",
        soft_wrap=True,
    )
    if todo:
        room = "" if need.stay + need.meanwhile <= free else ": they do not fit, and 'harness run' would refuse them"
        console().print(f"{need.text}; {size_of(free)} are free{room}", soft_wrap=True)
