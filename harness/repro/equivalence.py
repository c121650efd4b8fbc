"""Proving that a change kept the behaviour: the same guard cells, run by both versions, and the ledger's new entries.

A stored run is one side where nothing else is asked: it was made by what the reference has, and its record has the
digests of its captures. Only where a run of today comes out otherwise is the same cell run by the earlier code on this
machine as well, since another day's packages in an image could be the reason.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

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
from harness.store.build_diff import changes
from harness.store.identity import (
    Component,
    Equivalence,
    EquivalenceProof,
    Ledger,
    cell_identities,
    components,
    day_of_today,
    is_key,
    known_keys,
    scenario_keys,
)
from harness.store.provenance import commit_of
from harness.store.results import Store
from harness.store.run_comparison import differing_digests

#: Stands for the components that are in every cell.
_EVERYWHERE: Component = ("simulator", "sim")


@dataclass(frozen=True)
class ChangedComponent:
    """An engine, a simulator or an image whose digest no stored result has."""

    component: Component
    before: str
    """The digest that it is held against: the last one that is known to be that of stored results."""
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
    """The one that today's is held against: the reference's, or the same made again by the base."""
    again: Run
    """Made by today's code."""
    differs: tuple[str, ...]
    """The captures and random streams that are not the same."""
    folders: tuple[Path, Path] | None = None
    """Where the artefacts of both runs are, where both were made here."""
    other_contents: tuple[str, ...] = ()
    """Packages and programs in images that are not those of the stored run, where the base could not run the cell: they
    could be why it differs."""


@dataclass(frozen=True)
class ProofAttempt:
    """What came of an attempt to prove that a change kept the behaviour."""

    changed: tuple[ChangedComponent, ...]
    excepted: tuple[str, ...]
    """Scenario keys whose cells were left out."""
    compared: tuple[GuardComparison, ...] = ()
    other_labs: tuple[Run, ...] = ()
    """Of the cells in scope those that amount to another lab today: they were not run."""
    uncovered: tuple[str, ...] = ()
    """Scenario keys and stacks of these that no guard cell has."""
    unproven: tuple[ChangedComponent, ...] = ()
    """Components that no guard cell has."""
    outside: int = 0
    """Reference cells that use one of the excepted keys, and keep the digests that they have."""
    suggestion: tuple[str, ...] = ()
    """Scenario keys that all differing cells use, and no other."""
    no_base: str = ""
    """Why cells that differ from the reference's could not be made again by the base."""
    lab_kernel: str = ""

    @property
    def differing(self) -> tuple[GuardComparison, ...]:
        """The guard cells that came out otherwise."""
        return tuple(item for item in self.compared if item.differs and not item.other_contents)

    @property
    def undecided(self) -> tuple[GuardComparison, ...]:
        """The guard cells that came out otherwise where images hold other packages, too."""
        return tuple(item for item in self.compared if item.differs and item.other_contents)

    @property
    def proven(self) -> bool:
        """Whether every guard cell came out the same, and nothing in scope was in none of them."""
        failed = self.differing or self.undecided or self.unproven or self.uncovered
        return not failed and bool(self.changed or not self.other_labs)


@dataclass
class Prover:
    """One attempt, on one checkout."""

    app: App
    reference: Sequence[Run]
    """Runs of virtual time whose captures are known (`harness.repro.verify.candidates`)."""
    excepted: tuple[str, ...] = ()
    share: float = 0.0
    """Of the reference's cells that are run beside the guard set, from 0 to 1."""
    seed: int = 1
    options: Options = field(default_factory=Options)
    contents: Callable[[str], Contents | None] = lambda digest: None
    """What was in an image, by the digest that runs name."""
    listen: Listener = lambda event: None

    def __post_init__(self) -> None:
        for key in self.excepted:
            if not is_key(key):
                raise InputError(f"--except: no scenario has a key '{key}'", did_you_mean(key, known_keys()))

    def changed(self, base: Mapping[Component, str] | None = None) -> list[ChangedComponent]:
        """The components of virtual time whose digests of today neither the reference nor the ledger has.

        `base`: the digests of the revision that they are held against; without it, those that were proven last, or that
        the newest stored runs have. InputError where nothing is stored with the digest of a base.
        """
        stored = self._stored()
        digests = component_digests(self.app, [name for kind, name in stored if kind == "image"])
        changed = []
        for component, digest in digests.items():
            if component not in stored or self._is_known(component, digest, stored):
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
        """The compose engine, where neither stored runs nor the ledger have its digest of today; `stored`: any runs."""
        began = {run.cell.engine_code: run.started_at for run in stored if not run.cell.deterministic}
        component: Component = ("engine", "compose")
        digest = component_digests(self.app, ())[component]
        if not began or self._is_known(component, digest, {component: began}):
            return None
        return ChangedComponent(
            component, self._head(component, began) if base is None else base.get(component, ""), digest
        )

    def _stored(self) -> dict[Component, dict[str, str]]:
        """Component → digest → when the last of its stored runs began."""
        found: dict[Component, dict[str, str]] = {}
        for run in self.reference:
            for component, digest in components(run.cell).items():
                known = found.setdefault(component, {})
                known[digest] = max(known.get(digest, ""), run.started_at)
        return found

    def _is_known(self, component: Component, digest: str, stored: Mapping[Component, Mapping[str, str]]) -> bool:
        return digest in stored.get(component, {}) or (component, digest) in self.app.ledger.by_digest

    def _head(self, component: Component, stored: Mapping[str, str]) -> str:
        """The digest that was proven last to be that of the newest stored runs; theirs, where none was."""
        newest = max(stored, key=lambda digest: stored[digest])
        ledger = self.app.ledger
        same = [
            entry.digest
            for entry in ledger.entries.equivalences
            if entry.component == component
            and ledger.identity(component, entry.digest, frozenset) == ledger.identity(component, newest, frozenset)
        ]
        return same[-1] if same else newest

    def entry(
        self, item: ChangedComponent, cells: int = 1, lab_kernel: str = "", *, scoped: bool = True
    ) -> Equivalence:
        """The ledger's entry for a changed component; `cells`: guard cells that had it; `scoped`: with the scope."""
        kind, name = item.component
        commit = commit_of(self.app.places.root)
        proof = EquivalenceProof(cells=cells, commit=commit, date=day_of_today(), lab_kernel=lab_kernel)
        content: dict[str, object] = {"kind": kind, "name": name, "digest": item.today, "same_as": item.before}
        content |= {"except": self.excepted} if scoped else {}
        return Equivalence.model_validate({**content, "proof": proof})

    def ledger_with(self, tried: ProofAttempt) -> Ledger:
        """The ledger with an entry for each component that was proven."""
        counts = Counter(component for item in tried.compared for component in components(item.stored.cell))
        ledger = self.app.ledger
        for item in tried.changed:
            ledger = ledger.with_entry(self.entry(item, counts[item.component], tried.lab_kernel))
        return ledger

    def _hypothesis(self, changed: Sequence[ChangedComponent]) -> Ledger:
        """The ledger as it would be if the change kept the behaviour."""
        ledger = self.app.ledger
        new = [item for item in changed if not self._is_known(item.component, item.today, {})]
        return functools.reduce(lambda ledger, item: ledger.with_entry(self.entry(item)), new, ledger)

    def guard(self, changed: Sequence[ChangedComponent]) -> tuple[list[Run], list[Run]]:
        """(the stored runs that are made again, those whose cells amount to another lab today).

        The former are of cells in scope that have a changed component, and a random share of these. An engine or a
        simulator is in every cell. Of an image the set touches everything that cells with it touch.
        """
        ledger, today = self._hypothesis(changed), component_digests(self.app)
        named = {item.component for item in changed} or {_EVERYWHERE}
        stored = [
            run
            for run in self.reference
            if any(component in named for component in components(run.cell))
            and scenario_keys(run.cell).isdisjoint(self.excepted)
            and self._is_of_today(run.cell, today, ledger)
        ]
        runs = self._sets(named, stored)
        if not self.other_labs(runs):
            return runs, []
        others = self.other_labs(stored)
        keys = {run.cell.key for run in others}
        return self._sets(named, [run for run in stored if run.cell.key not in keys]), others

    def _sets(self, named: Collection[Component], stored: Sequence[Run]) -> list[Run]:
        """Guard sets of all components that are named, and a random share; the longest run first."""
        images = [component for component in named if component[0] == "image"]
        sets = [[run for run in stored if component in components(run.cell)] for component in images]
        if len(images) < len(named):
            sets.append(list(stored))
        chosen = [*(run for each in sets for run in guard_set(each)), *sample(stored, self.share, self.seed)]
        return sorted({run.name: run for run in chosen}.values(), key=lambda run: (-run.wall, run.name))

    @staticmethod
    def _is_of_today(cell: Cell, today: Mapping[Component, str], ledger: Ledger) -> bool:
        """Whether a stored cell has, in every component, the identity that today's digests have by the hypothesis."""
        return all(
            component in today and ledger.identity(component, today[component], lambda: scenario_keys(cell)) == identity
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

        `base`: gives the earlier revision, where a run of its own is needed. `afresh`: every guard cell is run by it,
        instead of being held against the reference.
        """
        runs, other_labs = self.guard(changed)
        tried = ProofAttempt(
            tuple(changed), self.excepted, other_labs=tuple(other_labs), unproven=self._untouched(changed, runs),
            uncovered=_uncovered(other_labs, runs), outside=self._outside(),
        )  # fmt: skip
        if not changed or tried.uncovered or tried.unproven:
            return tried
        here = Store(scratch / "today")
        again = self._again(runs, here, keep_all=afresh)
        compared, no_base = self._judged(again, base, scratch, here, afresh=afresh)
        return replace(
            tried, compared=tuple(compared), suggestion=suggestion(compared), no_base=no_base,
            lab_kernel=next((item.again.lab_kernel for item in compared), ""),
        )  # fmt: skip

    def prove_again(self, scratch: Path, base: Callable[[], Checkout]) -> dict[Equivalence, ProofAttempt]:
        """Each entry of the ledger → the stored runs that rest on it, made again by today's code.

        Of the runs that rest on an entry those are taken that touch everything they touch; an entry on which no stored
        run rests has none. EngineError when the infrastructure failed.
        """
        today = component_digests(self.app)
        resting: dict[Equivalence, list[Run]] = {entry: [] for entry in self.app.ledger.entries.equivalences}
        for run in self.reference:
            for entry in self.app.ledger.joining(run.cell, today):
                resting[entry].append(run)
        guards = {entry: guard_set(runs) for entry, runs in resting.items()}
        every = {run.name: run for runs in guards.values() for run in runs}
        ordered = sorted(every.values(), key=lambda run: (-run.wall, run.name))
        others = {run.name for run in self.other_labs(ordered)}
        here = Store(scratch / "today")
        again = self._again([run for run in ordered if run.name not in others], here)
        compared, no_base = self._judged(again, base, scratch, here)
        by_name = {item.stored.name: item for item in compared}
        return {
            entry: ProofAttempt(
                (), entry.except_, tuple(by_name[run.name] for run in runs if run.name in by_name),
                # Of a cell that amounts to another lab nothing can be told: it speaks where there is no other.
                tuple(run for run in runs if run.name in others and others >= {run.name for run in runs}),
                no_base=no_base,
            )
            for entry, runs in guards.items()
        }  # fmt: skip

    def _again(self, runs: Sequence[Run], store: Store, *, keep_all: bool = False) -> list[GuardComparison]:
        """Runs of today beside the stored ones; the artefacts of those that differ stay."""

        def keeps(stored: Run, again: Run) -> bool:
            return keep_all or bool(differing_digests(stored, again))

        made = {item.stored.name: item.again for item in run_again(
            self.app, runs, store, self.options, self.listen, keeps
        )}  # fmt: skip
        return [GuardComparison(run, run, made[run.name], differing_digests(run, made[run.name])) for run in runs]

    def _judged(
        self,
        compared: Sequence[GuardComparison],
        base: Callable[[], Checkout],
        scratch: Path,
        here: Store,
        *,
        afresh: bool = False,
    ) -> tuple[list[GuardComparison], str]:
        """Cells that differ from the reference's are made again by the base; and why not, where that cannot be."""
        suspects = [item for item in compared if item.differs or afresh]
        if not suspects:
            return list(compared), ""
        try:
            checkout = base()
        except InputError as error:
            if afresh:
                raise
            told = {item.stored.name: replace(item, other_contents=self._other_contents(item)) for item in suspects}
            return [told.get(item.stored.name, item) for item in compared], error.message
        judged = self._by_base(suspects, checkout, scratch, here)
        return [judged.get(item.stored.name, item) for item in compared], ""

    def other_labs(self, runs: Iterable[Run]) -> list[Run]:
        """The runs whose cells amount to another lab today; of each cell the last."""
        cells = {run.cell.key: run for run in runs}
        return [run for run in cells.values() if self.app.today(run.cell).compiled != run.cell.compiled]

    def _other_contents(self, item: GuardComparison) -> tuple[str, ...]:
        known = (self.contents, self.contents)
        found, beside = changes(item.stored, item.again, known)
        return (*(change.name for change in found), *(f"files of {image}" for image in beside))

    def _by_base(
        self, suspects: Sequence[GuardComparison], checkout: Checkout, scratch: Path, here: Store
    ) -> dict[str, GuardComparison]:
        """The same cells run by the base on this machine, and held against those of today."""

        def by_base(item: GuardComparison) -> GuardComparison:
            store = scratch / "base" / item.stored.name.replace("/", ".")
            made = checkout.run(item.stored.cell, item.stored.repetition, store)
            folders = (
                Store(store).folder(made.cell.key, made.repetition),
                here.folder(item.again.cell.key, item.again.repetition),
            )
            return replace(item, base=made, differs=differing_digests(made, item.again), folders=folders)

        with ThreadPoolExecutor(max_workers=self.options.jobs) as pool:
            return {item.stored.name: item for item in pool.map(by_base, suspects)}

    @staticmethod
    def _untouched(changed: Sequence[ChangedComponent], runs: Collection[Run]) -> tuple[ChangedComponent, ...]:
        touched = {component for run in runs for component in components(run.cell)}
        return tuple(item for item in changed if item.component not in touched)

    def _outside(self) -> int:
        keys = {run.cell.key: run.cell for run in self.reference}
        return sum(not scenario_keys(cell).isdisjoint(self.excepted) for cell in keys.values())


def _uncovered(others: Iterable[Run], runs: Iterable[Run]) -> tuple[str, ...]:
    """What is in cells that cannot be compared, and in no guard cell: scenario keys, stacks in their roles."""

    def touched(every: Iterable[Run]) -> set[Feature]:
        return {feature for run in every for feature in features(run.cell) if feature[0] in ("key", *ROLES)}

    return tuple(sorted(name if kind == "key" else f"{kind} {name}" for kind, name in touched(others) - touched(runs)))


def suggestion(compared: Sequence[GuardComparison]) -> tuple[str, ...]:
    """The scenario keys that all differing cells use and no other does: those that a scope would name."""
    differing = [scenario_keys(item.stored.cell) for item in compared if item.differs]
    if not differing:
        return ()
    others = frozenset[str]().union(*(scenario_keys(item.stored.cell) for item in compared if not item.differs))
    return tuple(sorted(frozenset.intersection(*differing) - others))
