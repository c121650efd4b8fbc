"""One planned run, tried again while the ground spoils it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from harness.engine import Engine
from harness.engine.docker.host_jitter import GAP, Patience
from harness.evaluation.retention import keeps
from harness.execution.events import Listener, PhaseStarted, RunFinished, Warned
from harness.execution.matrix import PlannedRun
from harness.execution.measured_store import StoredResults
from harness.execution.options import Options
from harness.execution.runner import run_once
from harness.outcome import ENGINES, MeasuredRun, Outcome, Run, proven_outcome
from harness.store.provenance import Provenance
from harness.store.results import Store

#: What is said of a run that is made again.
_SPOILT = {
    "link_invalid": "the link was not the one asked for",
    "starved": "an endpoint or the simulator waited for the processor for too long",
}


@dataclass(frozen=True)
class Attempts:
    """What all runs of a campaign are made with."""

    engine: Engine
    store: Store
    results: StoredResults
    options: Options
    patience: Patience
    """Shared by all of them."""
    provenance: Provenance
    listen: Listener
    _confined: set[str] = field(default_factory=set)
    """What was said of how guests are confined."""

    def run(self, item: PlannedRun) -> float:
        """Run and store it, and do so again, a few times at most, where something that may pass spoilt it.

        The wall time of the last attempt in seconds, measuring included. Raises HarnessError when the ground failed.
        """
        attempts = self.options.attempts if self.options.patience else 1

        def enter(phase: str) -> None:
            self.listen(PhaseStarted(item.cell, item.repetition, phase))

        for attempt in range(1, attempts + 1):
            begun = time.monotonic()
            run, measured = run_once(item, self.engine, self.store, self.provenance, enter, self._keeps)
            took = time.monotonic() - begun
            outcome = proven_outcome(run, measured)
            verdict = self.results.of(item.cell, item.repetition + 1).verdict
            self.say(RunFinished(item.cell, run, outcome, verdict))
            if not self.may_pass(outcome):
                break
            if attempt < attempts:
                what = _SPOILT.get(outcome.reason, "the run was disturbed from outside")
                said = f"{what}: running once more (the run is kept as replaced)"
                self.listen(Warned(said, item.cell, item.repetition))
                if not ENGINES[self.engine.name].virtual_time and not self.patience.await_quiet():
                    self.listen(Warned(f"this machine is held up again and again, for {GAP * 1e3:.0f} ms and more"))
        # What the record has as its wall time is without measuring.
        return max(took, run.wall)

    def say(self, event: RunFinished) -> None:
        """Say that a run ended; and once, where its machine could not confine its guest by all layers."""
        self.listen(event)
        confined = str(event.run.host.get("sandbox", "on"))
        if confined != "on" and confined not in self._confined:
            self._confined.add(confined)
            self.listen(Warned(f"guests are confined in part only (docs/untrusted.md): the sandbox is {confined}"))

    def _keeps(self, run: Run, measured: MeasuredRun | None) -> bool:
        """Whether the artefacts of a run are kept."""
        return keeps(self.options.artefacts, run.cell.scenario, run, measured)

    def may_pass(self, outcome: Outcome) -> bool:
        """Whether another attempt may see something else."""
        # A link in virtual time depends on nothing but the run itself.
        return outcome.passing and (not ENGINES[self.engine.name].deterministic or outcome.reason != "link_invalid")
