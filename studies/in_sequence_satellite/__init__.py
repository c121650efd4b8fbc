"""QUIC over a GEO satellite against objectives."""

from harness.report.studies import Study
from studies.in_sequence_satellite.claims import SOURCE
from studies.in_sequence_satellite.page import claim, finding, satellite

STUDY = Study(
    source=SOURCE,
    text=satellite,
    scenarios=("satellite/large", "satellite/large-lossy", "satellite/medium"),
    place=1,
    claim=claim,
    finding=finding,
)
