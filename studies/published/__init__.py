"""Our runs beside figures that others published."""

from harness.report.studies import Drawing, Study
from studies.published.claims import SOURCE
from studies.published.page import published, ratios

STUDY = Study(
    source=SOURCE,
    text=published,
    scenarios=(
        "satellite/fau-sat",
        "satellite/fau-satl",
        "satellite/fau-sat-deep",
        "satellite/fau-satl-deep",
        "satellite/large-lossy",
        "interop/goodput",
        "interop/crosstraffic",
        "studies/ack-ratio-50-10",
        "picoquic",
        "remembered/same-50-10mb",
        "remembered/same-250-100mb",
        "loss/response-100ms",
        "leo",
        "web/geo",
        "web/geo-split",
        "dumbbell/beside-tcp",
    ),
    place=1,
    page="published.md",
    drawings=(Drawing("published-ratios.svg", "Our figures, per the published ones", ratios),),
)
