"""From a finished run's artefacts to measurements and the proof of its link.

A metric is in one place in this package: a function below its declaration (`harness.analysis.metric_registry`); nothing
else changes.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from harness.analysis.connection_end import endings
from harness.analysis.incomplete_transfer import incomplete_transfers
from harness.analysis.interop import run_checks
from harness.analysis.metric_registry import Caution, measuring_functions
from harness.analysis.metrics.handover import handovers
from harness.analysis.metrics.link_proof import prove
from harness.analysis.metrics.observed import observe
from harness.analysis.metrics.parameter_check import find_contradictions
from harness.analysis.metrics.starvation import Starvation, starvation
from harness.analysis.run_view import RunView
from harness.analysis.time_breakdown import attribute_view
from harness.outcome import Absence, LinkProof, MeasuredRun, Measurement, Run

#: Raised whenever a figure would come out differently; runs measured by an older version are measured again.
VERSION = 13


def measure(folder: Path, run: Run) -> MeasuredRun:
    """Measure a run from the artefacts in its folder. See `measure_with_series`."""
    return measure_with_series(folder, run)[0]


def measure_with_series(folder: Path, run: Run) -> tuple[MeasuredRun, pl.DataFrame | None]:
    """Measure a run from the artefacts in its folder; also its series (`analysis.timeseries`), if captures allow.

    Never raises because of the artefacts: a missing or damaged one costs the metrics that need it, and `warnings` names
    it. A link that cannot be proven is invalid.
    """
    view = RunView(folder, run)
    measurements: list[Measurement] = []
    absent: list[Absence] = []
    warnings: list[str] = []
    for name, function in measuring_functions().items():
        try:
            for finding in function(view):
                if isinstance(finding, Caution):
                    warnings.append(finding.text)
                elif isinstance(finding, Absence):
                    absent.append(finding)
                else:
                    measurements.append(finding)
        except Exception as error:  # one artefact's bad data must not cost the others' figures
            warnings.append(f"{name} failed: {type(error).__name__}: {error}")
    try:
        link, cautions = prove(view)
    except Exception as error:
        problem = f"the path cannot be proven: {type(error).__name__}: {error}"
        link, cautions = LinkProof(valid=False, problems=(problem,)), ()
    try:
        waits = starvation(view)
    except Exception as error:
        waits = Starvation(cautions=(f"starvation cannot be judged: {type(error).__name__}: {error}",))
    try:
        moves = handovers(view)
    except Exception as error:
        moves = ()
        warnings.append(f"the clients' moves cannot be told: {type(error).__name__}: {error}")
    try:
        checks = run_checks(view)
    except Exception as error:
        checks = ()
        warnings.append(f"the checks cannot be made: {type(error).__name__}: {error}")
    try:
        ends, failed = endings(view), incomplete_transfers(view)
    except Exception as error:
        ends, failed = (), ()
        warnings.append(f"the ends of connections cannot be told: {type(error).__name__}: {error}")
    observed = observe(view)
    try:
        contradictions = find_contradictions(view, observed)
    except Exception as error:
        contradictions = ()
        warnings.append(f"what endpoints wrote of themselves is not known: {type(error).__name__}: {error}")
    series = view.series
    breakdown = attribute_view(view)
    measured = MeasuredRun(
        version=VERSION,
        measurements=tuple(measurements),
        absent=tuple(dict.fromkeys(absent)),
        moves=moves,
        checks=checks,
        observed=observed,
        link=link,
        attributed=breakdown,
        endings=ends,
        unfinished=failed,
        starved=waits.starved,
        contradicted=contradictions,
        warnings=tuple(dict.fromkeys([*view.problems, *warnings, *cautions, *waits.cautions])),
    )
    return measured, None if series is None else series.frame
