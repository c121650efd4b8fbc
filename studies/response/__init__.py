"""What each congestion controller's window is under random loss, beside its RFC's."""

from harness.report.studies import Drawing, Study
from studies.response.claims import SOURCE
from studies.response.figures import window_ratios
from studies.response.page import response

STUDY = Study(
    source=SOURCE,
    text=response,
    scenarios=("loss",),
    place=1,
    page="response.md",
    drawings=(Drawing("response-windows.svg", "Windows under random loss, beside the RFCs'", window_ratios),),
)
