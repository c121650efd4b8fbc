"""Packets that overtake others: who takes that for loss, and what it costs."""

from harness.report.studies import Drawing, Study
from studies.reordering.claims import CASES, IN_ORDER, SOURCE
from studies.reordering.figures import slowdowns, spurious_counts
from studies.reordering.page import reordering

STUDY = Study(
    source=SOURCE,
    text=reordering,
    scenarios=(IN_ORDER, *(case.scenario for case in CASES)),
    place=10,
    page="reordering.md",
    drawings=(
        Drawing("reordering-spurious.svg", "Packets that each stack takes for lost though they come", spurious_counts),
        Drawing("reordering-cost.svg", "What reordering costs each stack", slowdowns),
    ),
)
