"""Files that clients send, beside those that they fetch."""

from harness.report.studies import Drawing, Study
from studies.uploads.claims import DOWNLOAD, SERVER_AT_TERMINAL, SOURCE
from studies.uploads.figures import slowdowns
from studies.uploads.page import uploads

STUDY = Study(
    source=SOURCE,
    text=uploads,
    scenarios=("upload", DOWNLOAD, SERVER_AT_TERMINAL),
    place=1,
    page="uploads.md",
    drawings=(Drawing("upload-times.svg", "How much longer uploads take than the line rate allows", slowdowns),),
)
