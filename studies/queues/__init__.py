"""Every congestion control behind queues old and new: goodput against queue delay, and the share beside TCP CUBIC."""

from harness.report.studies import Drawing, Study
from studies.queues.claims import ALONE, BESIDE, SOURCE
from studies.queues.figures import planes, shares
from studies.queues.page import queues

STUDY = Study(
    source=SOURCE,
    text=queues,
    scenarios=(ALONE, BESIDE),
    place=9,
    page="queues.md",
    drawings=(
        Drawing("queues-plane.svg", "Goodput against queue delay behind each queue", planes),
        Drawing("queues-shares.svg", "Share of the goodput beside TCP CUBIC, behind each queue", shares),
    ),
)
