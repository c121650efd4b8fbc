"""Five documents claim by claim, and what stored runs say to each figure and sentence."""

from harness.report.studies import Drawing, Study
from studies.checklist.page import DOCUMENTS, SCENARIOS, checklist, verdict_counts

STUDY = Study(
    source="; ".join(document.source for document in DOCUMENTS),
    text=checklist,
    scenarios=SCENARIOS,
    # It lists cells of other studies, whose pages come before it.
    place=99,
    page="checklist.md",
    drawings=(Drawing("checklist-verdicts.svg", "How many claims of each document the runs bear out", verdict_counts),),
)
