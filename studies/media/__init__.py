"""How a video plays over a GEO access, by the rate of the video."""

from harness.report.studies import Study
from studies.media.claims import SOURCE
from studies.media.page import media

STUDY = Study(source=SOURCE, text=media, scenarios=("media",), place=1, page="media.md")
