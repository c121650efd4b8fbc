"""Proofs that a change kept the behaviour: both versions run the same guard cells, and the ledger gets new entries.

By default the earlier side is a stored run of the reference: its record has the digests of its captures. Where today's
run differs from it, the earlier code runs the same cell on this machine as well, since the reason could be newer
packages in an image.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from harness.engine.images.contents import Contents
from harness.errors import InputError, did_you_mean
from harness.execution import App, Options
from harness.execution.events import Listener
from harness.outcome import Cell, Run
from harness.repro.checkout import Checkout
from harness.repro.digests import component_digests
from harness.repro.guard_set import Feature, features, guard_set, sample
from harness.repro.parallel_runs import run_again
from harness.scenario.parameters import ROLES
from harness.store.build_diff import compare_versions
from harness.store.identity import (
    RELEASES,
    Component,
    Equivalence,
    EquivalenceProof,
    Ledger,
    cell_identities,
    components,
    content_digest,
    excluded_words,
    is_key,
    known_keys,
    scenario_keys,
    scope_words,
    today_iso,
)
from harness.store.provenance import commit_of
from harness.store.results import Store
from harness.store.run_comparison import differing_digests

#: Which stored digests a change is compared with.
Against = Literal["newest", "most"]
#: A component that every cell has.
_EVERYWHERE: Component = ("simulator", "sim")


@dataclass(frozen=True)
class ChangedComponent:
    """An engine, a simulator or an image with a digest that no stored result has."""

    component: Component
    before: str
    """The digest to compare with: the last one that is known to be that of stored results."""
    today: str

    @property
    def text(self) -> str:
        """For people."""
        kind, name = self.component
        return f"the {kind}" if kind == "simulator" else f"the {kind} {name}"


@dataclass(frozen=True)
class GuardComparison:
    """A guard cell, run by both sides."""

    stored: Run
    """The reference's."""
    base: Run
    """The run to compare today's with: the reference's, or the same made again by the base."""
    current: Run
    """Made by today's code."""
    differs: tuple[str, ...]
    """The captures and random streams that differ."""
    folders: tuple[Path, Path] | None = None
    """Folders with the artefacts of both runs, if both were made here."""
    other_contents: tuple[str, ...] = ()
    """Packages and programs in images that are not those of the stored run, where the base could not run the cell: they
    could be why it differs."""


@dataclass(frozen=True)
class ProofAttempt:
    """Result of an attempt to prove that a change kept the behaviour."""

    changed: tuple[ChangedComponent, ...]
    excepted: tuple[str, ...]
    """Scenario keys whose cells were left out."""
    without: tuple[str, ...] = ()
    """Implementations whose cells were left out."""
    compared: tuple[GuardComparison, ...] = ()
    other_labs: tuple[Run, ...] = ()
    """Cells in scope that compile to another lab today: they were not run."""
    uncovered: tuple[str, ...] = ()
    """Scenario keys and stacks of those cells that no guard cell has."""
    unproven: tuple[ChangedComponent, ...] = ()
    """Components that no guard cell has: images, which then get no entry; an engine or a simulator ends the attempt."""
    excluded_cells: int = 0
    """Number of reference cells that use one of the excepted keys or implementations, and keep their digests."""
    suggestion: tuple[str, ...] = ()
    """Scenario keys that all differing cells use, and no other."""
    why_no_base: str = ""
    """Why cells that differ from the reference's could not be made again by the base."""
    lab_kernel: str = ""

    @property
    def differing(self) -> tuple[GuardComparison, ...]:
        """The guard cells whose runs differ."""
        return tuple(item for item in self.compared if item.differs and not item.other_contents)

    @property
    def undecided(self) -> tuple[GuardComparison, ...]:
        """The guard cells whose runs differ, where images have other packages, too."""
        return tuple(item for item in self.compared if item.differs and item.other_contents)

    @property
    def proven(self) -> bool:
        """Whether every guard cell came out the same, and the guard cells cover what is to get an entry."""
        failed = self.differing or self.undecided or self.uncovered or self.is_hopeless
        return not failed and bool(self.changed or not self.other_labs)

    @property
    def is_hopeless(self) -> bool:
        """Whether no guard cell has what every cell has, or any of the changed images."""
        return len(self.unproven) == len(self.changed) > 0 or any(
            item.component[0] != "image" for item in self.unproven
        )

    @property
    def covered(self) -> tuple[ChangedComponent, ...]:
        """The changed components that guard cells have."""
        return tuple(item for item in self.changed if item not in self.unproven)


@dataclass
class Prover:
    """One attempt, on one checkout."""

    app: App
    reference: Sequence[Run]
    """Runs of virtual time whose captures are known (`harness.repro.verify.verifiable_runs`)."""
    excepted: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Names of implementations whose cells are left out: no entry holds for them."""
    against: Against = "newest"
    """The stored digests to compare today's with: those of the newest runs, or those that most runs have."""
    share: float = 0.0
    """Share of the reference's cells that are run beside the guard set, from 0 to 1."""
    seed: int = 1
    options: Options = field(default_factory=Options)
    contents: Callable[[str], Contents | None] = lambda digest: None
    """Contents of an image, by their digest in a run."""
    listen: Listener = lambda event: None
    announce_differences: Callable[[Sequence[GuardComparison]], None] = lambda compared: None
    """Called with the guard cells that differ from the reference, before a base is looked for, which takes minutes."""

    def __post_init__(self) -> None:
        for key in self.excepted:
            if not is_key(key):
                raise InputError(f"--except: no scenario has a key '{key}'", did_you_mean(key, known_keys()))
        names = [name for kind, name in self._stored if kind == "image"]
        for name in self.without:
            if name not in (*names, RELEASES):
                raise InputError(f"--without: no stored cell has the image of '{name}'", did_you_mean(name, names))

    def _is_in_scope(self, cell: Cell) -> bool:
        """Whether a cell has neither an excepted key nor an implementation that is left out."""
        return scope_words(cell).isdisjoint(excluded_words(self.excepted, self.without))

    def changed(self, base: Mapping[Component, str] | None = None) -> list[ChangedComponent]:
        """The components of virtual time whose digests of today are in neither the reference nor the ledger.

        `base`: digests of the revision to compare with. Without it these are the digests that were proven last, else
        those of the newest stored runs. InputError where no stored run has the digest of the base.

        Against the digests of most runs, a component has also changed if it was stored with today's digest.
        """
        stored = self._stored
        changed = []
        for component, digest in self._today.items():
            if component not in stored or not self._is_changed(component, digest, stored):
                continue
            before = self._head(component, stored[component]) if base is None else base.get(component, "")
            if base is not None and not self._is_known(component, before, stored):
                raise InputError(
                    f"nothing is stored with the base's digest of {' '.join(component)}, {before or 'which it lacks'}",
                    "leave --base out: the reference's runs are the base then",
                )
            changed.append(ChangedComponent(component, before, digest))
        return changed

    def changed_compose(
        self, stored: Iterable[Run], base: Mapping[Component, str] | None = None
    ) -> ChangedComponent | None:
        """The compose engine, where its digest of today is in neither stored runs nor the ledger; None otherwise.

        `stored`: any runs; `base`: as for `changed`.
        """
        start_times = {run.cell.engine_code: run.started_at for run in stored if not run.cell.deterministic}
        component: Component = ("engine", "compose")
        digest = component_digests(self.app, ())[component]
        if not start_times or self._is_known(component, digest, {component: start_times}):
            return None
        return ChangedComponent(
            component, self._head(component, start_times) if base is None else base.get(component, ""), digest
        )

    @functools.cached_property
    def _today(self) -> dict[Component, str]:
        """Today's digest of each component, releases that stored runs have among them."""
        return component_digests(self.app, [name for kind, name in self._stored if kind == "image"])

    @functools.cached_property
    def _stored(self) -> dict[Component, dict[str, str]]:
        """Component → digest → start of the last stored run with it."""
        stored: dict[Component, dict[str, str]] = {}
        for run in self.reference:
            for component, digest in components(run.cell).items():
                dates = stored.setdefault(component, {})
                dates[digest] = max(dates.get(digest, ""), run.started_at)
        return stored

    @property
    def fingerprint(self) -> str:
        """A digest of today's digests: an attempt of the same ones goes on with the runs that it has."""
        return content_digest({" ".join(component): digest for component, digest in self._today.items()})

    def _is_changed(self, component: Component, digest: str, stored: Mapping[Component, Mapping[str, str]]) -> bool:
        """Whether there is something to prove for today's digest of a component that has stored runs."""
        if self.against == "newest":
            return not self._is_known(component, digest, stored)
        if any(item.component == component and item.digest == digest for item in self.app.ledger.entries.identities):
            # Entries end at it, so it cannot be the same as an earlier one.
            return False
        return self._identity(component, digest) != self._identity(component, self._most_frequent(component))

    def _identity(self, component: Component, digest: str) -> str:
        """The identity of a digest for cells that no entry leaves out."""
        return self.app.ledger.identity(component, digest, frozenset)

    @functools.cached_property
    def _counts(self) -> dict[Component, Counter[str]]:
        """Component → digest → number of stored runs with it."""
        counts: dict[Component, Counter[str]] = {}
        for run in self.reference:
            for component, digest in components(run.cell).items():
                counts.setdefault(component, Counter())[digest] += 1
        return counts

    def _most_frequent(self, component: Component) -> str:
        """A digest of the identity that most stored runs have."""
        by_identity: Counter[str] = Counter()
        for digest, count in self._counts[component].items():
            by_identity[self._identity(component, digest)] += count
        ((identity, _),) = by_identity.most_common(1)
        return next(digest for digest in self._counts[component] if self._identity(component, digest) == identity)

    def _is_known(self, component: Component, digest: str, stored: Mapping[Component, Mapping[str, str]]) -> bool:
        return digest in stored.get(component, {}) or (component, digest) in self.app.ledger.by_digest

    def _head(self, component: Component, stored: Mapping[str, str]) -> str:
        """The digest that was proven last to be equivalent to that of the runs to compare with; else theirs."""
        if self.against == "most" and component in self._counts:
            chosen = self._most_frequent(component)
        else:
            chosen = max(stored, key=lambda digest: stored[digest])
        equivalent = [
            entry.digest
            for entry in self.app.ledger.entries.equivalences
            if entry.component == component
            and self._identity(component, entry.digest) == self._identity(component, chosen)
        ]
        return equivalent[-1] if equivalent else chosen

    def entry(
        self, item: ChangedComponent, cells: int = 1, lab_kernel: str = "", *, scoped: bool = True
    ) -> Equivalence:
        """The ledger's entry for a changed component.

        `cells`: number of guard cells that had it; `scoped`: with the excepted scenario keys.
        """
        kind, name = item.component
        commit = commit_of(self.app.paths.root)
        proof = EquivalenceProof(cells=cells, commit=commit, date=today_iso(), lab_kernel=lab_kernel)
        content: dict[str, object] = {"kind": kind, "name": name, "digest": item.today, "same_as": item.before}
        content |= {"except": self.excepted, "without": self.without} if scoped else {}
        return Equivalence.model_validate({**content, "proof": proof})

    def ledger_with(self, attempt: ProofAttempt) -> Ledger:
        """The ledger with an entry for each component that was proven."""
        counts = Counter(component for item in attempt.compared for component in components(item.stored.cell))
        ledger = self.app.ledger
        for item in attempt.covered:
            ledger = ledger.with_entry(self.entry(item, counts[item.component], attempt.lab_kernel))
        return ledger

    def _hypothesis(self, changed: Sequence[ChangedComponent]) -> Ledger:
        """The ledger as it would be if the change kept the behaviour."""
        ledger = self.app.ledger
        new = [item for item in changed if not self._is_known(item.component, item.today, {})]
        return functools.reduce(lambda ledger, item: ledger.with_entry(self.entry(item)), new, ledger)

    def guard(self, changed: Sequence[ChangedComponent]) -> tuple[list[Run], list[Run]]:
        """(the stored runs to make again, those whose cells compile to another lab today).

        The first are a guard set of the cells in scope that have a changed component, and a random share of those
        cells. Every cell has an engine and a simulator. For an image the guard set covers the features of all cells
        with that image.
        """
        ledger, today = self._hypothesis(changed), self._today
        named = {item.component for item in changed} or {_EVERYWHERE}
        stored = [
            run
            for run in self.reference
            if any(component in named for component in components(run.cell))
            and self._is_in_scope(run.cell)
            and self._is_of_today(run.cell, today, ledger)
        ]
        runs = self._sets(named, stored)
        if not self.other_labs(runs):
            return runs, []
        other_lab_runs = self.other_labs(stored)
        keys = {run.cell.key for run in other_lab_runs}
        return self._sets(named, [run for run in stored if run.cell.key not in keys]), other_lab_runs

    def _sets(self, named: Collection[Component], stored: Sequence[Run]) -> list[Run]:
        """Guard sets of all named components, and a random share; the longest run first."""
        images = [component for component in named if component[0] == "image"]
        sets = [[run for run in stored if component in components(run.cell)] for component in images]
        if len(images) < len(named):
            sets.append(list(stored))
        chosen = [*(run for group in sets for run in guard_set(group)), *sample(stored, self.share, self.seed)]
        return sorted({run.name: run for run in chosen}.values(), key=lambda run: (-run.wall, run.name))

    @staticmethod
    def _is_of_today(cell: Cell, today: Mapping[Component, str], ledger: Ledger) -> bool:
        """Whether every component of a stored cell has the same identity as today's digest, under this ledger."""
        return all(
            component in today and ledger.identity(component, today[component], lambda: scope_words(cell)) == identity
            for component, identity in cell_identities(cell, ledger).items()
        )

    def prove(
        self,
        changed: Sequence[ChangedComponent],
        scratch: Path,
        base: Callable[[], Checkout],
        *,
        afresh: bool = False,
    ) -> ProofAttempt:
        """Run the guard cells and compare them. EngineError when the infrastructure failed; InputError for no base.

        `base`: returns the earlier revision, where runs by it are needed. `afresh`: the earlier revision runs every
        guard cell, instead of a comparison with the reference.
        """
        runs, other_labs = self.guard(changed)
        attempt = ProofAttempt(
            tuple(changed),
            self.excepted,
            self.without,
            other_labs=tuple(other_labs),
            unproven=self._untouched(changed, runs),
            uncovered=_uncovered_features(other_labs, runs),
            excluded_cells=self._count_excluded(),
        )
        if not changed or attempt.uncovered or attempt.is_hopeless:
            return attempt
        # Runs that are compared with the base keep their artefacts; those of an attempt without one may have none.
        today_store = Store(scratch / ("afresh" if afresh else "today"))
        comparisons = self._rerun(runs, today_store, keep_all=afresh)
        compared, no_base = self._compare_with_base(comparisons, base, scratch, today_store, afresh=afresh)
        return replace(
            attempt,
            compared=tuple(compared),
            suggestion=suggest_exceptions(compared),
            why_no_base=no_base,
            lab_kernel=next((item.current.lab_kernel for item in compared), ""),
        )

    def prove_again(self, scratch: Path, base: Callable[[], Checkout]) -> dict[Equivalence, ProofAttempt]:
        """Each entry of the ledger → comparison of stored runs that depend on it with runs by today's code.

        A guard set of the runs that depend on an entry is made again. It is empty where no stored run depends on the
        entry. EngineError when the infrastructure failed.
        """
        today = self._today
        runs_by_entry: dict[Equivalence, list[Run]] = {entry: [] for entry in self.app.ledger.entries.equivalences}
        for run in self.reference:
            for entry in self.app.ledger.equivalences_between(run.cell, today):
                runs_by_entry[entry].append(run)
        guards = {entry: guard_set(runs) for entry, runs in runs_by_entry.items()}
        guard_runs = {run.name: run for runs in guards.values() for run in runs}
        ordered = sorted(guard_runs.values(), key=lambda run: (-run.wall, run.name))
        changed_labs = {run.name for run in self.other_labs(ordered)}
        today_store = Store(scratch / "today")
        comparisons = self._rerun([run for run in ordered if run.name not in changed_labs], today_store)
        compared, no_base = self._compare_with_base(comparisons, base, scratch, today_store)
        by_name = {item.stored.name: item for item in compared}
        return {
            entry: ProofAttempt(
                (),
                entry.except_,
                entry.without,
                tuple(by_name[run.name] for run in runs if run.name in by_name),
                # A cell that compiles to another lab proves nothing. It is reported where an entry has no others.
                tuple(run for run in runs if run.name in changed_labs and changed_labs >= {run.name for run in runs}),
                why_no_base=no_base,
            )
            for entry, runs in guards.items()
        }

    def _rerun(self, runs: Sequence[Run], store: Store, *, keep_all: bool = False) -> list[GuardComparison]:
        """Make runs with today's code, and compare them with the stored ones. Artefacts of those that differ stay."""

        def keeps(stored: Run, again: Run) -> bool:
            return keep_all or bool(differing_digests(stored, again))

        new_runs = {
            item.stored.name: item.repeated
            for item in run_again(self.app, runs, store, self.options, self.listen, keeps)
        }
        return [
            GuardComparison(run, run, new_runs[run.name], differing_digests(run, new_runs[run.name])) for run in runs
        ]

    def _compare_with_base(
        self,
        compared: Sequence[GuardComparison],
        base: Callable[[], Checkout],
        scratch: Path,
        today_store: Store,
        *,
        afresh: bool = False,
    ) -> tuple[list[GuardComparison], str]:
        """Have the base run the cells that differ from the reference. (comparisons, why there is no base, or "")."""
        suspects = [item for item in compared if item.differs or afresh]
        if not suspects:
            return list(compared), ""
        if not afresh:
            self.announce_differences(suspects)
        try:
            checkout = base()
        except InputError as error:
            if afresh:
                raise
            undecided = {
                item.stored.name: replace(item, other_contents=self._other_contents(item)) for item in suspects
            }
            return [undecided.get(item.stored.name, item) for item in compared], error.message
        judged = self._rerun_base(suspects, checkout, scratch, today_store)
        return [judged.get(item.stored.name, item) for item in compared], ""

    def other_labs(self, runs: Iterable[Run]) -> list[Run]:
        """The runs whose cells compile to another lab today; the last run of each cell."""
        cells = {run.cell.key: run for run in runs}
        return [run for run in cells.values() if self.app.current_cell(run.cell).compiled != run.cell.compiled]

    def _other_contents(self, item: GuardComparison) -> tuple[str, ...]:
        contents = (self.contents, self.contents)
        package_changes, changed_images = compare_versions(item.stored, item.current, contents)
        return (*(change.name for change in package_changes), *(f"files of {image}" for image in changed_images))

    def _rerun_base(
        self, suspects: Sequence[GuardComparison], checkout: Checkout, scratch: Path, today_store: Store
    ) -> dict[str, GuardComparison]:
        """Have the base run the same cells on this machine, and compare with today's runs. By the stored run's name."""

        def by_base(item: GuardComparison) -> GuardComparison:
            store = scratch / "base" / item.stored.name.replace("/", ".")
            base_run = checkout.run(item.stored.cell, item.stored.repetition, store)
            folders = (
                Store(store).folder(base_run.cell.key, base_run.repetition),
                today_store.folder(item.current.cell.key, item.current.repetition),
            )
            return replace(item, base=base_run, differs=differing_digests(base_run, item.current), folders=folders)

        with ThreadPoolExecutor(max_workers=self.options.jobs) as pool:
            return {item.stored.name: item for item in pool.map(by_base, suspects)}

    @staticmethod
    def _untouched(changed: Sequence[ChangedComponent], runs: Collection[Run]) -> tuple[ChangedComponent, ...]:
        touched = {component for run in runs for component in components(run.cell)}
        return tuple(item for item in changed if item.component not in touched)

    def _count_excluded(self) -> int:
        keys = {run.cell.key: run.cell for run in self.reference}
        return sum(not self._is_in_scope(cell) for cell in keys.values())


def _uncovered_features(other_lab_runs: Iterable[Run], runs: Iterable[Run]) -> tuple[str, ...]:
    """Features of cells that cannot be compared, and of no guard cell: scenario keys, stacks in their roles."""

    def touched(group: Iterable[Run]) -> set[Feature]:
        return {feature for run in group for feature in features(run.cell) if feature[0] in ("key", *ROLES)}

    return tuple(
        sorted(name if kind == "key" else f"{kind} {name}" for kind, name in touched(other_lab_runs) - touched(runs))
    )


def suggest_exceptions(compared: Sequence[GuardComparison]) -> tuple[str, ...]:
    """The scenario keys that all differing cells use, and no other cell: candidates for --except."""
    differing = [scenario_keys(item.stored.cell) for item in compared if item.differs]
    if not differing:
        return ()
    unaffected = frozenset[str]().union(*(scenario_keys(item.stored.cell) for item in compared if not item.differs))
    return tuple(sorted(frozenset.intersection(*differing) - unaffected))
