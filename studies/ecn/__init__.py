"""ECN on paths that carry it and on paths that do not: who validates, who falls back, who reacts to marks."""

from harness.report.studies import Drawing, Study
from studies.ecn.claims import CASES, SOURCE
from studies.ecn.figures import grid, reactions
from studies.ecn.page import ecn

STUDY = Study(
    source=SOURCE,
    text=ecn,
    scenarios=tuple(case.scenario for case in CASES),
    place=9,
    page="ecn.md",
    drawings=(
        Drawing("ecn-marking.svg", "Who marks on which path, and who stops", grid),
        Drawing("ecn-reactions.svg", "What senders make of marks", reactions),
    ),
)
