"""One planned run, tried again while its link is not the one asked for."""

from __future__ import annotations

from dataclasses import dataclass

from harness.app.options import Options
from harness.app.stored import StoredResults
from harness.engines import Engine
from harness.engines.quiet import GAP, Patience
from harness.events import Listener, PhaseStarted, RunFinished, Warned
from harness.judge import judge
from harness.outcome import MeasuredRun, Run, proven_outcome
from harness.plan import PlannedRun
from harness.provenance import Provenance
from harness.runner import run_once
from harness.store import Store


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

    def run(self, item: PlannedRun) -> float:
        """Run and store it, and do so again, a few times at most, where the link is not the one asked for.

        The wall time of the last attempt in seconds. Raises HarnessError when the ground failed.
        """
        # In virtual time a second attempt would see the same.
        attempts = self.options.attempts if self.engine.name == "compose" and self.options.patience else 1

        def enter(phase: str) -> None:
            self.listen(PhaseStarted(item.cell, item.repetition, phase))

        for attempt in range(1, attempts + 1):
            run, measured = run_once(item, self.engine, self.store, self.provenance, enter, self._keeps)
            outcome = proven_outcome(run, measured)
            verdict = self.results.of(item.cell, item.repetition + 1).verdict
            self.listen(RunFinished(item.cell, run, outcome, verdict))
            if outcome.reason != "link_invalid":
                break
            if attempt < attempts:
                self.listen(
                    Warned("the link was not the one asked for: running once more (the run is kept as replaced)")
                )
                if not self.patience.await_quiet():
                    self.listen(Warned(f"this machine is held up again and again, for {GAP * 1e3:.0f} ms and more"))
        return run.wall

    def _keeps(self, run: Run, measured: MeasuredRun | None) -> bool:
        """Whether the artefacts of a run are kept: where only those of failed ones are, of one that misses, too."""
        if self.options.artefacts != "failed":
            return self.options.artefacts == "all"
        verdict = judge(run.cell.scenario, [(run, measured)])
        return proven_outcome(run, measured).status != "completed" or verdict.status == "fail"
