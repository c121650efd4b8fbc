"""Commands that test: `check` an implementation, `verify` runs, search for a `divergence`, prove `equivalent` code."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.completion import implementations
from harness.cli.consoles import console, print_document, print_json
from harness.cli.environment import REFERENCE, lab_kernel, log_limit, open_app, stall, store_folder
from harness.cli.options import (
    AsJson,
    EngineChoice,
    Fresh,
    Jobs,
    KernelChoice,
    Manifests,
    OneClient,
    OneServer,
    Seed,
    Settings,
    StoreFolder,
    jobs_of,
    request_of,
    select_implementations,
    split_words,
)
from harness.cli.signals import FAILED, INFRASTRUCTURE, MET, handle_interrupts
from harness.cli.workspace import ROOT
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.capture.divergence import Divergence
    from harness.engine.images.contents import Contents
    from harness.execution import App
    from harness.repro.checkout import Checkout
    from harness.repro.equivalence import ProofAttempt, Prover
    from harness.store.identity import Component, Ledger


def check(
    names: Annotated[
        str, typer.Argument(help="Implementations, separated by commas, or 'all'.", autocompletion=implementations)
    ],
    jobs: Annotated[int | None, typer.Option(help="Runs side by side; one per core without.", min=1)] = None,
    store: StoreFolder = None,
    manifest: Manifests = None,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Check that implementations follow the contract and do what their manifests claim, in virtual time.

    The exit code is 1 when anything does not hold.
    """
    from harness.check import check as findings_of
    from harness.execution import Options
    from harness.report.conformance import findings_document
    from harness.report.progress import ProgressPrinter

    app = open_app(store or store_folder("checks"), manifest)
    chosen, absent = select_implementations(app, names)
    options = Options(
        fresh=fresh, log_limit=log_limit(), jobs=jobs_of(jobs, EngineChoice.VIRTUAL), stall=stall(), kernel=lab_kernel()
    )
    with ProgressPrinter(console()) as progress, handle_interrupts(progress.interrupted, app.kill_all):
        findings = list(findings_of(app, chosen.values(), options, progress))
    print_document(findings_document(findings, absent), as_json=as_json)
    if any(item.failed for item in findings):
        raise typer.Exit(FAILED)


# --- `harness verify`.


def verify(
    cells: Annotated[
        list[str] | None, typer.Argument(help="Reference runs by KEY or KEY/REPETITION; all of virtual time without.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            help="So many cells, drawn at random; half of them rest on an entry of the ledger, where there is one.",
            min=1,
        ),
    ] = None,
    draw: Annotated[int, typer.Option("--draw", help="Which sample is drawn.", min=0)] = 1,
    reference: Annotated[Path, typer.Option(help="The store that is verified.")] = REFERENCE,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Make reference runs of virtual time again, and say of each: identical, same figures, or where it differs.

    The exit code is 1 when any differs.
    """
    from harness.execution import Options
    from harness.report.progress import ProgressPrinter
    from harness.report.reruns import rerun_sentence, reruns_document
    from harness.repro.digests import component_digests
    from harness.repro.verify import draw_sample, select_runs, verifiable_runs
    from harness.repro.verify import verify as verified

    if cells and sample is not None:
        raise InputError("cells and --sample", "name cells, or draw a sample of them")
    app, reference_app = open_app(), open_app(reference)
    reference_runs = verifiable_runs(reference_app.stored_runs)
    if not reference_runs:
        raise InputError(
            f"{reference}: no run of virtual time there says what its captures were", "'make reference' makes such runs"
        )
    if sample is None:
        runs = select_runs(reference_runs, cells or [])
    else:
        today = component_digests(app)
        runs = draw_sample(reference_runs, sample, draw, lambda cell: app.ledger.equivalences_between(cell, today))
    options = Options(
        log_limit=log_limit(), jobs=jobs_of(jobs, EngineChoice.VIRTUAL), stall=stall(), kernel=lab_kernel()
    )
    with ProgressPrinter(console()) as progress, handle_interrupts(progress.interrupted, app.kill_all):
        comparisons = []
        for comparison in verified(app, reference_app.stored_runs, runs, options, progress):
            comparisons.append(comparison)
            console().print(f"  {rerun_sentence(comparison, app.ledger)}", soft_wrap=True, markup=False)
    print_document(reruns_document(comparisons), as_json=as_json)
    if any(item.repeated.outcome.status == "infrastructure" for item in comparisons):
        raise typer.Exit(INFRASTRUCTURE)
    if any(item.answer == "differs" for item in comparisons):
        raise typer.Exit(FAILED)


# --- `harness divergence`.


def divergence(
    what: Annotated[
        list[str], typer.Argument(help="Folders of two stored runs; or one scenario, to run again and again.")
    ],
    client: OneClient = "ngtcp2",
    server: OneServer = "ngtcp2",
    times: Annotated[int, typer.Option(help="Runs at most, until one parts from the first.", min=2)] = 2,
    seed: Seed = 1,
    settings: Settings = None,
    keep: Annotated[
        Path | None, typer.Option(help="Folder that keeps the runs and their traces; none without.")
    ] = None,
    manifest: Manifests = None,
    as_json: AsJson = False,
) -> None:
    """Say where two runs of one cell part: first other packet, random bytes, and, of a cell run here, system call.

    A cell is run in virtual time, with a trace of its system calls. The exit code is 1 when the runs part.
    """
    from harness.report.reruns import divergence_document
    from harness.repro.divergence import compare_stored

    run_count = 2
    if len(what) == 2:
        difference = compare_stored(Path(what[0]), Path(what[1]))
    elif len(what) == 1:
        difference, run_count = _run_until_divergence(what[0], client, server, times, seed, settings, keep, manifest)
    else:
        raise InputError(f"{len(what)} things are named", "name one scenario, or the folders of two stored runs")
    print_document(divergence_document(difference, run_count), as_json=as_json)
    raise typer.Exit(MET if difference.identical else FAILED)


def _run_until_divergence(
    scenario: str,
    client: str,
    server: str,
    times: int,
    seed: int,
    settings: list[str] | None,
    keep: Path | None,
    manifest: list[Path] | None,
) -> tuple[Divergence, int]:
    """Run one cell until two runs differ: (where they diverge, number of runs)."""
    import tempfile

    from harness.execution import Options
    from harness.report.progress import ProgressPrinter
    from harness.repro.divergence import run_until_divergence

    app = open_app(manifests=manifest)
    request = request_of(app, [scenario], client, server, 1, seed, EngineChoice.VIRTUAL, KernelChoice.AUTO, settings)
    options = Options(log_limit=log_limit(), stall=stall(), kernel=lab_kernel())
    with tempfile.TemporaryDirectory(prefix="quic-lab-divergence-") as scratch, ProgressPrinter(console()) as progress:
        cells = app.matrix(request, progress, pull=True)
        if len(cells) != 1:
            raise InputError(f"{scenario}: {len(cells)} cells", "name one client and one server; give --set one value")
        if keep is not None and keep.exists() and any(keep.iterdir()):
            raise InputError(f"--keep {keep}: there is something in it", "name a folder that is new or empty")
        return run_until_divergence(app, cells[0], times, keep or Path(scratch), options, progress)


# --- `harness equivalent`.


class Generation(StrEnum):
    """The stored runs that a change is compared with."""

    NEWEST = "newest"
    MOST = "most"


def equivalent(
    base: Annotated[
        str | None,
        typer.Option(
            help="A revision or a folder that makes the other side's runs. Without it the reference's runs are that "
            "side, and the newest commit with their digests makes those again that come out otherwise."
        ),
    ] = None,
    excepted: Annotated[
        str, typer.Option("--except", help="Scenario keys, separated by commas: cells that use one are left out.")
    ] = "",
    without: Annotated[
        str,
        typer.Option(
            help="Implementations, or `releases`, separated by commas: cells that have one are left out.",
            autocompletion=implementations,
        ),
    ] = "",
    against: Annotated[
        Generation, typer.Option(help="Compare with the digests of the newest runs, or with those that most runs have.")
    ] = Generation.NEWEST,
    share: Annotated[
        str, typer.Option("--sample", help="A share of the reference that is run beside the guard cells, as '5%'.")
    ] = "0%",
    draw: Annotated[int, typer.Option("--draw", help="Which sample is drawn.", min=0)] = 1,
    again: Annotated[
        bool, typer.Option("--again", help="Prove the entries that there are once more, by today's code.")
    ] = False,
    jobs: Jobs = None,
    reference: Annotated[Path, typer.Option(help="The store whose cells are run.")] = REFERENCE,
    as_json: AsJson = False,
) -> None:
    """Prove that a change of code, of the simulator or of an image keeps the behaviour, and keep the stored results.

    Guard cells are run in virtual time. If all give the bytes that they gave before, results/equivalences.yaml gets
    an entry. Else the exit code is 1, the first cell that differs is shown, and nothing is written. Of the compose
    engine golden labs are run by both versions: they must get the same files and the same commands of Docker.
    """
    from harness.execution import Options
    from harness.report.progress import ProgressPrinter
    from harness.repro.checkout import check_out, find_base
    from harness.repro.equivalence import Prover
    from harness.repro.report import difference_lines, golden_lines, report
    from harness.repro.verify import every_run, verifiable_runs

    if again and (base is not None or excepted or without):
        raise InputError(
            "--again with --base, --except or --without", "an entry is proven again as it stands in the ledger"
        )
    app, reference_app = open_app(), open_app(reference)
    reference_runs = verifiable_runs(reference_app.stored_runs)
    if not reference_runs:
        raise InputError(f"{reference}: no run of virtual time there has digests of captures", "see 'make reference'")
    options = Options(
        log_limit=log_limit(), jobs=jobs_of(jobs, EngineChoice.VIRTUAL), stall=stall(), kernel=lab_kernel()
    )
    with (
        ProgressPrinter(console()) as progress,
        handle_interrupts(progress.interrupted, app.kill_all),
        ExitStack() as stack,
        tempfile.TemporaryDirectory(prefix="quic-lab-equivalent-") as temporary,
    ):
        prover = Prover(
            app,
            reference_runs,
            excepted=tuple(split_words(excepted)),
            without=tuple(split_words(without)),
            against=against.value,
            share=parse_share(share),
            seed=draw,
            options=options,
            contents=_contents(app, reference_app),
            listen=progress,
            announce_differences=lambda compared: _print_lines(*difference_lines(compared)),
        )

        @functools.cache
        def checkout(*needed: tuple[Component, str]) -> Checkout:
            places = app.paths.state, app.paths.cache
            if base is not None:
                return stack.enter_context(check_out(ROOT, base, *places))
            commits = dict.fromkeys(run.commit.rstrip("+") for run in reversed(reference_runs))
            return stack.enter_context(find_base(ROOT, dict(needed), list(commits), *places))

        if again:
            _prove_again(prover, Path(temporary), checkout, as_json=as_json)
            return
        digests = None if base is None else checkout().digests()
        changed = prover.changed(digests)
        required = [(item.component, item.before) for item in changed]
        scratch = _attempt_folder(app.paths.state, prover)
        attempt = prover.prove(changed, scratch, lambda: checkout(*required), afresh=base is not None)
        compose = prover.changed_compose(every_run(reference_app.stored_runs), digests)
        _print_attempt(attempt)
        ledger = app.ledger
        if attempt.proven and attempt.changed:
            # At once: the other engine's base may be missing, and what was proven is proven.
            ledger = _write_entries(app, reference, prover.ledger_with(attempt))
        if attempt.proven:
            shutil.rmtree(scratch, ignore_errors=True)
        golden: Mapping[str, Sequence[str]] = {}
        if compose is not None:
            golden = _compare_compose(app, checkout((compose.component, compose.before)), Path(temporary) / "golden")
            _print_lines(*golden_lines(compose, golden))
            if not any(golden.values()):
                entry = prover.entry(compose, len(golden), scoped=False)
                _write_entries(app, reference, ledger.with_entry(entry))
    if as_json:
        print_json(report(attempt) | {"golden": {name: list(lines) for name, lines in golden.items()}})
    if not attempt.proven or any(golden.values()):
        raise typer.Exit(FAILED)


def _print_attempt(attempt: ProofAttempt) -> None:
    """Print what changed, how the guard cells came out, and where the first that differs diverges."""
    from harness.repro.report import changed_lines, divergence_text, result_lines

    _print_lines(*changed_lines(attempt), *result_lines(attempt))
    if attempt.differing:
        console().print(divergence_text(attempt), soft_wrap=True, markup=False)


def _compare_compose(app: App, base: Checkout, scratch: Path) -> Mapping[str, Sequence[str]]:
    """Golden lab → what this checkout's compose engine does otherwise than that of a base."""
    from harness.repro.checkout import Checkout
    from harness.repro.compose_transcript import compare_engines

    return compare_engines(base, Checkout(ROOT, app.paths.state, app.paths.cache), scratch)


def _write_entries(app: App, reference: Path, ledger: Ledger) -> Ledger:
    """Write a ledger with new entries, and give the reference's runs the keys that they have by it."""
    from harness.evaluation.publish import rekey
    from harness.store.identity import write_ledger
    from harness.store.results import is_columnar

    write_ledger(app.ledger_file, ledger)
    rekeyed = rekey(reference, ledger) if is_columnar(reference) else 0
    _print_lines(
        f"written to {app.ledger_file}" + (f"; {rekeyed} runs of {reference} have another key now" if rekeyed else "")
    )
    return ledger


def _prove_again(prover: Prover, scratch: Path, checkout: Callable[..., Checkout], *, as_json: bool) -> None:
    """Prove every entry of the ledger again. The exit code is 1 where one does not hold."""
    from harness.repro.report import again_lines, again_report

    ends = [(entry.component, entry.same_as) for entry in prover.app.ledger.entries.equivalences[-1:]]
    attempts = prover.prove_again(scratch, lambda: checkout(*ends))
    _print_lines(*again_lines(attempts, prover.app.ledger))
    if as_json:
        print_json(again_report(attempts))
    if any(attempt.differing for attempt in attempts.values()):
        raise typer.Exit(FAILED)


def _attempt_folder(state: Path, prover: Prover) -> Path:
    """Where an attempt's runs stay until it succeeds, so that one that was interrupted goes on. Earlier ones go."""
    folder = state / "equivalent" / prover.fingerprint
    for attempt in folder.parent.glob("*"):
        if attempt != folder:
            shutil.rmtree(attempt, ignore_errors=True)
    return folder


def _contents(app: App, reference_app: App) -> Callable[[str], Contents | None]:
    """Contents of an image by their digest: from the reference, or from an inspection on this machine."""
    return lambda digest: reference_app.stored_runs.contents(digest) or app.contents.by_digest(digest)


def _print_lines(*lines: str) -> None:
    for line in lines:
        console().print(f"  {line}", soft_wrap=True, markup=False)


def parse_share(text: str) -> float:
    """A share as '5%' or '5 %', from 0 to 1. InputError."""
    number = text.strip().removesuffix("%").strip()
    try:
        share = float(number) / 100 if text.strip().endswith("%") else -1.0
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise InputError(f"--sample: '{text}' is no share of the reference", "for example '5%'")
    return share


# --- `harness digests`.


def digests() -> None:
    """Print what the engines, the simulator and the images of this checkout are made from: kind, name, digest.

    `harness equivalent` of another revision asks for it: the name of this command and what it prints stay as they are.
    """
    from harness.repro.digests import component_digests

    printed: dict[str, dict[str, str]] = {}
    for (kind, name), digest in component_digests(open_app()).items():
        printed.setdefault(kind, {})[name] = digest
    print_json(printed)
