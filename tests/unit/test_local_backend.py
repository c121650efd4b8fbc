"""What a campaign is told of a checkout's images."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from simulator.features import FEATURES

from harness.analysis.metrics import VERSION
from harness.engine.docker.engine import ComposeEngine
from harness.engine.docker.host_jitter import QuietWait
from harness.engine.images.build import Build
from harness.engine.virtual.engine import VirtualEngine
from harness.execution import App, CheckoutPaths, Options
from harness.execution.events import Listener, RunFinished, Warned
from harness.execution.local_backend import LocalBackend
from harness.execution.matrix import PlannedRun, Request
from harness.execution.retries import RunMaker
from harness.outcome import Cell, LinkProof, MeasuredRun, Outcome, Run
from harness.planning.estimate import DurationModel
from harness.store.provenance import Provenance
from tests.examples import ROOT


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    """A checkout on a machine that has no image yet."""
    for module in (
        "harness.execution.image_inventory",
        "harness.execution.local_backend",
        "harness.engine.images.build",
    ):
        monkeypatch.setattr(f"{module}.inspect_image", lambda reference: None)
    return App(CheckoutPaths(ROOT, tmp_path / "store", tmp_path / "state", tmp_path / "cache"))


def _cell(app: App, client: str, server: str) -> Cell:
    named = {name: app.catalogue.find_implementations(name, "server") for name in (client, server)}
    request = Request(app.catalogue.find_scenarios(["satellite/medium"]), named[client], named[server])
    return app.matrix(request, lambda event: None, pull=False)[0]


def _attempts(app: App, options: Options, patience: QuietWait, listen: Listener) -> RunMaker:
    return RunMaker(ComposeEngine(app.cache), app.store, app.results, options, patience, Provenance(), listen)


def _ground(app: App) -> LocalBackend:
    attempts = _attempts(app, Options(), QuietWait(0), lambda event: None)
    return LocalBackend(app.images, app.inventory, app.contents, attempts, DurationModel([], ""), {})


@pytest.mark.parametrize(("lacks", "simulators"), [(True, {"sim", "lab-kernel"}), (False, {"sim"})])
def test_the_lab_kernel_is_built_at_once_where_the_host_cannot_do(
    app: App, monkeypatch: pytest.MonkeyPatch, lacks: bool, simulators: set[str]
) -> None:
    monkeypatch.setattr("harness.engine.images.build.lacks_queues", lambda machine: lacks)
    needs, steps = _ground(app).needs(_cell(app, "quiche", "ngtcp2"))
    by_name = {step.name: step for step in steps}
    assert by_name.keys() == {"ngtcp2", "quiche", "rust", "endpoint", *simulators}
    # The simulator that asks the host's kernel is there in either case, and everything says what it is built on.
    assert app.images.sim_build("host").reference in needs
    assert by_name["quiche"].bases == {by_name["rust"].reference, by_name["endpoint"].reference}
    assert by_name["quiche"].seconds == 280


def test_the_answer_of_the_kernel_is_asked_for_once_and_changes_what_is_needed(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.engine.images.build.lacks_queues", lambda machine: False)
    builds_run: list[tuple[str, int | None]] = []

    def make(build: Build, announce: object, jobs: int | None = None) -> None:
        builds_run.append((f"{build.name}-{build.target}", jobs))

    def settle(announce: object) -> None:
        app.images.host_kernel.write(json.dumps(dict.fromkeys(FEATURES) | {"netem": "tc: no netem"}))

    monkeypatch.setattr(app.images, "make", make)
    monkeypatch.setattr(app.images, "settle_sim", settle)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    ground, cell = _ground(app), _cell(app, "ngtcp2", "ngtcp2")
    host = next(step for step in ground.needs(cell)[1] if step.name == "sim")
    assert ground.make(host, beside=False) is True
    needs, steps = ground.needs(cell)
    lab = next(step for step in steps if step.name == "lab-kernel")
    assert app.images.sim_build("lab").reference in needs
    assert host.reference not in needs
    # Beside runs in real time half of the cores stay free of compilers.
    assert ground.make(lab, beside=True) is False
    assert builds_run == [("sim-host", None), ("lab-kernel-", 2)]
    assert not [step for step in ground.needs(cell)[1] if step.name == "lab-kernel"]


def test_what_is_there_is_not_built(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.execution.local_backend.inspect_image", lambda reference: {})
    asked: list[bool] = []
    # The kernel was not asked yet, though the image that asks is there: so it is asked now.
    monkeypatch.setattr(app.images, "settle_sim", lambda announce: asked.append(True))
    needs, steps = _ground(app).needs(_cell(app, "ngtcp2", "ngtcp2"))
    assert steps == []
    assert len(needs) >= 2
    assert asked == [True]


def test_of_what_is_stored_only_what_is_planned_counts(app: App) -> None:
    cell = _cell(app, "ngtcp2", "ngtcp2")
    for repetition, status in enumerate(("completed", "infrastructure", "crashed", "completed", "completed")):
        outcome = Outcome.model_validate({"status": status})
        run = Run(cell=cell, repetition=repetition, outcome=outcome, started_at="")
        measured = MeasuredRun(version=VERSION, link=LinkProof(valid=True)) if repetition else None
        app.store.finish(app.store.begin(cell.key, repetition), run, measured)
    planned = [PlannedRun(cell, repetition) for repetition in range(4)]
    # The first has not been measured, and nobody asks for the last.
    assert app.results.completed_runs(planned, frozenset({"infrastructure"})) == {(cell.key, 2), (cell.key, 3)}


@pytest.mark.parametrize(
    ("engine", "reason", "runs"),
    [
        ("compose", "killed", 3), ("compose", "out_of_memory", 3), ("compose", "paused", 3),
        ("compose", "kernel_ended", 1), ("virtual", "killed", 3), ("virtual", "kernel_ended", 1),
    ],
)  # fmt: skip
def test_what_somebody_spoilt_from_outside_is_run_again(
    app: App, monkeypatch: pytest.MonkeyPatch, engine: str, reason: str, runs: int
) -> None:
    attempt_numbers: list[int] = []

    def run_once(item: PlannedRun, *others: object) -> tuple[Run, None]:
        outcome = Outcome(status="infrastructure", role="client", reason=reason)
        run = Run(cell=item.cell, repetition=0, outcome=outcome, started_at="", wall=7.0)
        attempt_numbers.append(len(attempt_numbers))
        app.store.finish(app.store.begin(item.cell.key, 0), run, None)
        return run, None

    monkeypatch.setattr("harness.execution.retries.run_once", run_once)
    events: list[object] = []
    attempts = _attempts(app, Options(), QuietWait(60, lambda: 0.0, lambda seconds: None), events.append)
    if engine == "virtual":
        attempts = replace(attempts, engine=VirtualEngine(app.cache, []))
    item = PlannedRun(_cell(app, "ngtcp2", "ngtcp2"), 0)
    attempts.run(item)
    assert len(attempt_numbers) == runs
    assert sum("disturbed from outside" in event.text for event in events if isinstance(event, Warned)) == runs - 1
    # It is no observation, and is asked for again by the next command.
    assert app.results.completed_runs([item], Options().retry) == set()


@pytest.mark.parametrize(
    ("seconds", "valid", "gaps", "expected_warnings"),
    [
        (60, [True], [], []),
        (60, [False, True], [0.02, 0.001], ["running once more"]),
        (60, [False, False, False], [0.001, 0.001], ["running once more", "running once more"]),
        (60, [False, True], [0.02] * 20, ["running once more", "held up again and again"]),
        (0, [False], [], []),
    ],
    ids=["sound", "waited out", "on a quiet machine", "on one that never is", "without patience"],
)
def test_a_spoilt_run_waits_for_the_machine_and_is_tried_a_few_times(
    app: App,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    valid: list[bool],
    gaps: list[float],
    expected_warnings: list[str],
) -> None:
    proofs, held_up = iter(valid), iter(gaps)

    def run_once(item: PlannedRun, *others: object) -> tuple[Run, MeasuredRun]:
        run = Run(cell=item.cell, repetition=0, outcome=Outcome(status="completed"), started_at="", wall=7.0)
        measured = MeasuredRun(version=1, link=LinkProof(valid=next(proofs)))
        app.store.finish(app.store.begin(item.cell.key, 0), run, measured)
        return run, measured

    monkeypatch.setattr("harness.execution.retries.run_once", run_once)
    events: list[object] = []
    item = PlannedRun(_cell(app, "ngtcp2", "ngtcp2"), 0)
    patience = QuietWait(seconds, lambda: next(held_up), lambda seconds: None)
    assert _attempts(app, Options(patience=seconds), patience, events.append).run(item) == 7.0
    warned = [event.text for event in events if isinstance(event, Warned)]
    assert len(warned) == len(expected_warnings)
    assert all(words in text for words, text in zip(expected_warnings, warned, strict=True))
    assert next(proofs, None) is None
    assert next(held_up, None) is None
    assert sum(isinstance(event, RunFinished) for event in events) == len(valid)


def test_a_cell_that_cannot_run_needs_no_features_of_a_kernel(app: App) -> None:
    """It is unsupported, which is an answer. Nobody asks what its paths would need."""
    transfer = app.catalogue.find_scenarios(["interop/transfer"])
    ngtcp2 = app.catalogue.find_implementations("ngtcp2", "client")
    (cell,) = app.matrix(Request(transfer, ngtcp2, ngtcp2), lambda event: None, pull=False)
    app.images.host_kernel.write(json.dumps(dict.fromkeys(FEATURES, "tc: unknown")))
    assert app.inventory.host_cannot(cell) == ""
    assert [build.target for build in app.inventory.builds_of(cell) if build.name == "sim"] == ["host"]
