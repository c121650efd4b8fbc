"""The bounds that picoquic's own tests state, on real queues."""

from harness.report.studies import Drawing, Study
from studies.picoquic_bounds.page import bounds, times_per_bound

STUDY = Study(
    source="picoquic, picoquictest: the tests' longest times",
    text=bounds,
    scenarios=("picoquic",),
    place=6,
    page="picoquic.md",
    drawings=(Drawing("picoquic-bounds.svg", "What transfers take, per picoquic's bounds", times_per_bound),),
)
