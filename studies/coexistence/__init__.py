"""What every server leaves to Linux's TCP CUBIC on a link that both fill."""

from harness.report.studies import Study
from studies.coexistence.claims import SCENARIOS, SOURCE
from studies.coexistence.page import coexistence

STUDY = Study(source=SOURCE, text=coexistence, scenarios=SCENARIOS, place=1, page="coexistence.md")
