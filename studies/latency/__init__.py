"""How long small requests take while TCP fills the link, by the queue."""

from harness.report.studies import Drawing, Study
from studies.latency.claims import SOURCE
from studies.latency.figures import response_times
from studies.latency.page import latency

STUDY = Study(
    source=SOURCE,
    text=latency,
    scenarios=("latency",),
    place=1,
    page="latency.md",
    drawings=(Drawing("response-time.svg", "Response time of small requests, by queue", response_times),),
)
