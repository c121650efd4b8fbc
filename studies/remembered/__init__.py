"""What a second connection remembers of its path: Careful Resume (RFC 9959) beside what else there is."""

from harness.report.studies import Drawing, Study
from studies.remembered.claims import SOURCE
from studies.remembered.figures import gains
from studies.remembered.page import remembered

STUDY = Study(
    source=SOURCE,
    text=remembered,
    scenarios=("remembered",),
    place=1,
    page="remembered.md",
    drawings=(Drawing("remembered-gains.svg", "How long a second connection takes, per the first", gains),),
)
