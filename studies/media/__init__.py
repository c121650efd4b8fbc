"""How a video plays over a GEO access, by the rate of the video."""

from harness.report.studies import Drawing, Study
from studies.media.claims import SOURCE
from studies.media.figures import startups
from studies.media.page import media

STUDY = Study(
    source=SOURCE,
    text=media,
    scenarios=("media",),
    place=1,
    page="media.md",
    drawings=(Drawing("media-startup.svg", "How soon a video starts, by its rate", startups),),
)
