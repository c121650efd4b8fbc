"""What each congestion controller's window is under random loss, beside its RFC's."""

from harness.report.studies import Study
from studies.response.claims import SOURCE
from studies.response.page import response

STUDY = Study(source=SOURCE, text=response, scenarios=("loss",), place=1, page="response.md")
