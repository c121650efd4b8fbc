"""Paths in sequence: TCP with and without splitting proxies, and QUIC from end to end."""

from harness.report.studies import Drawing, Figure, Study
from studies import MEETING_PAIR
from studies.in_sequence.claims import LARGE_LOSSY, MEDIUM, SOURCE, WIFI
from studies.in_sequence.figures import bars
from studies.in_sequence.page import in_sequence

STUDY = Study(
    source=SOURCE,
    text=in_sequence,
    scenarios=("in-sequence",),
    place=2,
    page="in-sequence.md",
    figures=(
        Figure(
            MEDIUM.quic,
            MEETING_PAIR[1],
            "ack_ratio",
            client=MEETING_PAIR[0],
            caption=f"Packets per acknowledgement over time, {MEETING_PAIR[0]}'s client on {MEDIUM.title} "
            "(the document: 2 at first, about 10 then)",
        ),
    ),
    drawings=tuple(
        Drawing(f"in-sequence-{path.name}.svg", f"{path.title}: seconds for each size, and the objective", bars(path))
        for path in (MEDIUM, LARGE_LOSSY, WIFI)
    ),
)
