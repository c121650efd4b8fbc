"""Two flows on one bottleneck: everybody with everybody, and one pair over many links."""

from harness.report.studies import Study
from studies.fairness.page import contests, finding

STUDY = Study(
    source="R. Ware et al., Beyond Jain's Fairness Index, HotNets 2019: harm",
    text=contests,
    scenarios=("dumbbell/alone", "dumbbell/fairness", "dumbbell/fairness-links"),
    place=5,
    finding=finding,
)
