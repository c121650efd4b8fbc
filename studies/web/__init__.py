"""How long a page takes to load, and who loads it sooner than HTTPS over TCP does."""

from harness.report.studies import Drawing, Study
from studies.web.claims import CONNECTIONS, SOURCE
from studies.web.figures import page_loads
from studies.web.page import web

STUDY = Study(
    source=SOURCE,
    text=web,
    scenarios=("web", *CONNECTIONS),
    place=1,
    page="web.md",
    drawings=(Drawing("page-load.svg", "Page load over QUIC and over TCP, by path", page_loads),),
)
