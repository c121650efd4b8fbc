"""Five documents claim by claim, and what stored runs say to each figure and sentence."""

from harness.report.studies import Study
from studies.checklist.page import DOCUMENTS, SCENARIOS, checklist

STUDY = Study(
    source="; ".join(document.source for document in DOCUMENTS),
    text=checklist,
    scenarios=SCENARIOS,
    # It lists cells of other studies, whose pages come before it.
    place=99,
    page="checklist.md",
)
