"""RED beside DropTail."""

from harness.report.studies import Figure, Study
from studies.red_droptail.claims import SOURCE
from studies.red_droptail.page import finding, queues

_PLOT = "red_beside_droptail"

STUDY = Study(
    source=SOURCE,
    text=queues,
    scenarios=("queue",),
    place=4,
    finding=finding,
    figures=(
        Figure(
            "queue/red-high-bdp",
            "ngtcp2",
            _PLOT,
            "RED beside DropTail, high BDP, CUBIC",
            {"server.congestion_control": "cubic"},
        ),
        Figure(
            "queue/red-low-bdp",
            "ngtcp2",
            _PLOT,
            "RED beside DropTail, low BDP, Reno",
            {"server.congestion_control": "reno"},
        ),
    ),
)
