"""TCP, and QUIC in its place, beside UDP."""

from harness.report.studies import Figure, Study
from studies.udp_background.claims import SOURCE
from studies.udp_background.page import background, finding

_PLOTS = {
    "operating_point_time": "the operating point in time",
    "operating_point_plane": "mean operating points",
    "in_flight_operating_point": "in flight and its optimum",
    "distribution": "distributions",
}

STUDY = Study(
    source=SOURCE,
    text=background,
    scenarios=("dumbbell/udp-background", "dumbbell/udp-background-quic"),
    place=3,
    finding=finding,
    figures=tuple(Figure("dumbbell/udp-background", "linux", plot, caption) for plot, caption in _PLOTS.items()),
)
