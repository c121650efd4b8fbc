"""Which parameters are game changers: the open questions of N. Kuhn's slides, answered by designed studies."""

from harness.report.studies import Study
from studies.game_changers.claims import SOURCE
from studies.game_changers.figures import DRAWINGS
from studies.game_changers.page import effects_data, every_effect, game_changers, profiles_data, times_data

STUDY = Study(
    source=SOURCE,
    text=game_changers,
    scenarios=("studies",),
    place=1,
    page="studies.md",
    beside={
        "effects.md": every_effect,
        "data/effects.csv": effects_data,
        "data/times.csv": times_data,
        "data/profiles.csv": profiles_data,
    },
    drawings=DRAWINGS,
)
