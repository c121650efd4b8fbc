"""What decides the medium case over a satellite, one setting at a time."""

from harness.report.studies import Drawing, Study
from studies.medium_case.claims import SCENARIOS, SOURCE
from studies.medium_case.figures import initial_windows
from studies.medium_case.page import medium_case

STUDY = Study(
    source=SOURCE,
    text=medium_case,
    scenarios=SCENARIOS,
    place=0,
    page="studies.md",
    drawings=(Drawing("initial-windows.svg", "Initial windows against three times, with textbook", initial_windows),),
)
