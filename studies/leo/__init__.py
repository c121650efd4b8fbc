"""Downloads over a low orbit, with another satellite every 15 s and without."""

from harness.report.studies import Drawing, Study
from studies.leo.claims import SOURCE
from studies.leo.figures import goodputs, recoveries
from studies.leo.page import low_orbit

STUDY = Study(
    source=SOURCE,
    text=low_orbit,
    scenarios=("leo",),
    place=1,
    page="leo.md",
    drawings=(
        Drawing("leo-goodput.svg", "Goodput of each stack over a low orbit, with and without handovers", goodputs),
        Drawing("leo-recovery.svg", "How soon each stack fills the link again after a handover", recoveries),
    ),
)
