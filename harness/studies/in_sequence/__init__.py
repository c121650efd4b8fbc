"""Paths in sequence: TCP with and without splitting proxies, and QUIC from end to end."""

from harness.studies import Drawing, Study
from harness.studies.in_sequence.claims import LARGE_LOSSY, MEDIUM, SOURCE, WIFI
from harness.studies.in_sequence.figures import bars
from harness.studies.in_sequence.page import in_sequence

STUDY = Study(
    source=SOURCE,
    text=in_sequence,
    scenarios=("in-sequence",),
    place=2,
    page="in-sequence.md",
    drawings=tuple(
        Drawing(f"in-sequence-{path.name}.svg", f"{path.title}: seconds for each size, and the objective", bars(path))
        for path in (MEDIUM, LARGE_LOSSY, WIFI)
    ),
)
