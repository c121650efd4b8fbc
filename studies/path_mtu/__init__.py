"""A path whose MTU falls in mid-transfer, with ICMP and as a black hole."""

from harness.report.studies import Drawing, Study
from studies.path_mtu.claims import CASES, SOURCE
from studies.path_mtu.figures import Amount, bars
from studies.path_mtu.page import path_mtu

_TITLES: dict[Amount, str] = {
    "seconds": "Downloads of 10 MB on a path whose MTU falls to 1280 B",
    "recovery": "From the fall of the MTU until data come again",
}

STUDY = Study(
    source=SOURCE,
    text=path_mtu,
    scenarios=tuple(name for case in CASES for name in (case.quic, case.tcp)),
    place=8,
    page="path-mtu.md",
    drawings=tuple(Drawing(f"path-mtu-{amount}.svg", title, bars(amount, title)) for amount, title in _TITLES.items()),
)
