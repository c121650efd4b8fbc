"""Three flows that come and go on one bottleneck."""

from harness.report.studies import Figure, Study
from studies.link_sharing.claims import SOURCE
from studies.link_sharing.page import finding, sharing

_RENO = {"server.congestion_control": "reno"}
_PLOTS = {
    "sender_throughput_smoothed": "Sending rates of three flows of ngtcp2 with NewReno that come and go",
    "receiver_throughput": "what their receivers get",
    "congestion_window": "congestion windows",
    "window_queue_drops": "three seconds of the three flows",
    "drop_rate": "drops at the bottleneck",
}

STUDY = Study(
    source=SOURCE,
    text=sharing,
    scenarios=("dumbbell/link-sharing", "dumbbell/sharing-bbr", "dumbbell/sharing-cubic", "dumbbell/sharing-mixed"),
    place=2,
    finding=finding,
    figures=tuple(Figure("dumbbell/link-sharing", "ngtcp2", plot, caption, _RENO) for plot, caption in _PLOTS.items()),
)
