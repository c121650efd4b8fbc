"""The congestion window of a client that moves: Kim and Koh's rule."""

from harness.report.studies import Drawing, Study
from studies.handover.claims import SOURCE
from studies.handover.figures import throughputs, windows
from studies.handover.page import handover

STUDY = Study(
    source=SOURCE,
    text=handover,
    scenarios=("handover",),
    place=1,
    page="handover.md",
    drawings=(
        Drawing("handover-window.svg", "Mean window of each rule through the move (the document's Figure 3)", windows),
        Drawing("handover-throughput.svg", "Handover throughput of each rule (the document's Figure 4)", throughputs),
    ),
)
