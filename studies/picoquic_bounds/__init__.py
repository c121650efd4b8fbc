"""The bounds that picoquic's own tests state, on real queues."""

from harness.report.studies import Study
from studies.picoquic_bounds.page import bounds

STUDY = Study(
    source="picoquic, picoquictest: the tests' longest times",
    text=bounds,
    scenarios=("picoquic",),
    place=6,
    page="picoquic.md",
)
