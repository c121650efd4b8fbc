"""What came of it: cells, runs, measurements, verdicts.

An outcome is what happened to one run; a verdict is the answer drawn from the completed runs of a cell.
Only completed runs are judged, and a failure of the ground is never an implementation's failure.
"""

from harness.outcome.base import Fact
from harness.outcome.cell import Cell, Contestant, Cpu, EngineName, Image, SimKernel
from harness.outcome.connection_end import Ending, EndingKind, deciding
from harness.outcome.handover import Handover, RttReaction, WindowReaction
from harness.outcome.incomplete_transfer import Unfinished, Voice
from harness.outcome.interop_check import Checked
from harness.outcome.measured import (
    MEASURED_SCHEMA,
    Absence,
    Better,
    DirectionProof,
    LinkProof,
    MeasuredRun,
    Measurement,
    Observation,
    proven_outcome,
)
from harness.outcome.run import FAILED_TRANSFER, RUN_SCHEMA, Outcome, RandomBytes, Run, Status, Transfer
from harness.outcome.time_breakdown import STATES, Attributed, Attribution, NotAttributed, Part, State
from harness.outcome.verdict import Interval, ObjectiveVerdict, Verdict, VerdictStatus

__all__ = [
    "FAILED_TRANSFER",
    "MEASURED_SCHEMA",
    "RUN_SCHEMA",
    "STATES",
    "Absence",
    "Attributed",
    "Attribution",
    "Better",
    "Cell",
    "Checked",
    "Contestant",
    "Cpu",
    "DirectionProof",
    "Ending",
    "EndingKind",
    "EngineName",
    "Fact",
    "Handover",
    "Image",
    "Interval",
    "LinkProof",
    "MeasuredRun",
    "Measurement",
    "NotAttributed",
    "ObjectiveVerdict",
    "Observation",
    "Outcome",
    "Part",
    "RandomBytes",
    "RttReaction",
    "Run",
    "SimKernel",
    "State",
    "Status",
    "Transfer",
    "Unfinished",
    "Verdict",
    "VerdictStatus",
    "Voice",
    "WindowReaction",
    "deciding",
    "proven_outcome",
]
