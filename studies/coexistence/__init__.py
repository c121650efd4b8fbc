"""What every server leaves to Linux's TCP CUBIC on a link that both fill."""

from harness.report.studies import Drawing, Study
from studies.coexistence.claims import SCENARIOS, SOURCE
from studies.coexistence.figures import tcp_shares
from studies.coexistence.page import coexistence

STUDY = Study(
    source=SOURCE,
    text=coexistence,
    scenarios=SCENARIOS,
    place=1,
    page="coexistence.md",
    drawings=(Drawing("coexistence-tcp.svg", "What each sender leaves to TCP CUBIC", tcp_shares),),
)
