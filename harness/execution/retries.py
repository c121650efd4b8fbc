"""Makes one planned run, and repeats it while the environment invalidates it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from harness.engine import Engine
from harness.engine.docker.host_jitter import GAP, QuietWait
from harness.evaluation.retention import kept_evidence
from harness.execution.events import Listener, PhaseStarted, RunFinished, Warned
from harness.execution.matrix import PlannedRun
from harness.execution.measured_store import StoredResults
from harness.execution.options import Options
from harness.execution.runner import run_once, server_wait
from harness.outcome import ENGINES, Evidence, MeasuredRun, Outcome, Run, proven_outcome
from harness.store.provenance import Provenance
from harness.store.results import Store
from harness.topology import SERVER_WAIT

#: Reason of an outcome → the message for a run that is made again.
_RETRY_MESSAGES = {
    "link_invalid": "the link was not the one asked for",
    "starved": "an endpoint or the simulator waited for the processor for too long",
}


@dataclass(frozen=True)
class RunMaker:
    """Makes the runs of a campaign."""

    engine: Engine
    store: Store
    results: StoredResults
    options: Options
    quiet_wait: QuietWait
    """Shared by all runs."""
    provenance: Provenance
    listen: Listener
    _confined: set[str] = field(default_factory=set)
    """Sandbox states that were reported."""

    def run(self, item: PlannedRun) -> float:
        """Make and store a run; repeat it a few times if something transient invalidated it.

        Returns the wall time of the last attempt in seconds, including measuring. Raises HarnessError if the
        environment failed.
        """
        attempts = self.options.attempts if self.options.patience else 1

        def enter(phase: str) -> None:
            self.listen(PhaseStarted(item.cell, item.repetition, phase))

        for attempt in range(1, attempts + 1):
            start = time.monotonic()
            wait = server_wait() if self.options.patience else SERVER_WAIT
            run, measured = run_once(item, self.engine, self.store, self.provenance, enter, self._evidence, wait)
            elapsed = time.monotonic() - start
            outcome = proven_outcome(run, measured)
            verdict = self.results.result_of(item.cell, item.repetition + 1).verdict
            self.report_end(RunFinished(item.cell, run, outcome, verdict))
            if not self.is_worth_retrying(outcome):
                break
            if attempt < attempts:
                cause = _RETRY_MESSAGES.get(outcome.reason, "the run was disturbed from outside")
                message = f"{cause}: running once more (the run is kept as replaced)"
                self.listen(Warned(message, item.cell, item.repetition))
                if not ENGINES[self.engine.name].virtual_time and not self.quiet_wait.await_quiet():
                    self.listen(Warned(f"this machine is held up again and again, for {GAP * 1e3:.0f} ms and more"))
        # The wall time in the record does not include measuring.
        return max(elapsed, run.wall)

    def report_end(self, event: RunFinished) -> None:
        """Report the end of a run; warn once if its machine could not use all layers of the guest's sandbox."""
        self.listen(event)
        sandbox = str(event.run.host.get("sandbox", "on"))
        if sandbox != "on" and sandbox not in self._confined:
            self._confined.add(sandbox)
            self.listen(Warned(f"guests are confined in part only (docs/untrusted.md): the sandbox is {sandbox}"))

    def _evidence(self, run: Run, measured: MeasuredRun | None) -> Evidence:
        """What is kept of the files that a run was measured from."""
        return kept_evidence(self.options.evidence, run.cell.scenario, run, measured)

    def is_worth_retrying(self, outcome: Outcome) -> bool:
        """Whether another attempt may have another outcome."""
        # In virtual time the emulated link depends only on the run itself.
        return outcome.passing and (not ENGINES[self.engine.name].deterministic or outcome.reason != "link_invalid")
