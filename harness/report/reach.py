"""What it would take: the fewest settings with which pairs meet all objectives, or that none within the ranges does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from harness.doe.minimal_settings import Search, Settings
from harness.formatting import counted, quoted
from harness.report.markdown import line


def sentence(one: Search) -> str:
    """The answer for a pair."""
    found, pair = one.reached, f"{one.client}→{one.server}"
    if one.hopeless:
        return f"{pair}: nothing that can be told meets {one.hopeless}."
    best = settings_text(found.settings)
    if found.answer == "none":
        return (
            f"{pair}: none of the {found.every} sets of settings meets all objectives: all were tried, and the best, "
            f"{best}, {_missed(found.score)}."
        )
    tried = f"{found.tried} of {found.every} sets were tried"
    if found.answer == "open":
        return f"{pair}: not decided: {tried}, and the best, {best}, {_missed(found.score)}."
    if not found.settings:
        return f"{pair}: it meets all objectives {best}."
    if found.answer == "found":
        verb = "is" if found.cheaper == 1 else "are"
        rest = f"{counted(found.cheaper, 'set')} of fewer settings {verb} not tried yet"
        return f"{pair}: it meets all objectives with {best}; {rest} ({tried})."
    return f"{pair}: it takes {best}: every set of fewer settings was tried and fails ({tried})."


def settings_text(settings: Settings) -> str:
    """A set for people."""
    return " and ".join(f"{name} {level}" for name, level in sorted(settings)) or "as it is"


def _missed(score: float) -> str:
    if not math.isfinite(score):
        return "does not come to the end of what is timed"
    return f"takes {score:.2f} times what is demanded"


def report(made: Sequence[Search]) -> dict[str, Any]:
    """As plain data."""
    return {
        "schema": 1,
        "searches": [
            {
                "scenario": one.scenario.name, "client": one.client, "server": one.server,
                "factors": {name: list(levels) for name, levels in one.factors.items()},
                "answer": "none" if one.hopeless else one.reached.answer, "hopeless": one.hopeless,
                "settings": dict(sorted(one.reached.settings)),
                "score": one.reached.score if math.isfinite(one.reached.score) else "Infinity",
                "tried": one.reached.tried, "every": one.reached.every, "cheaper": one.reached.cheaper,
                "sentence": sentence(one),
            }
            for one in made
        ],
    }  # fmt: skip


def markdown(made: Sequence[Search]) -> str:
    """For a page: a table a scenario."""
    lines: list[str] = []
    for name in dict.fromkeys(one.scenario.name for one in made):
        mine = [one for one in made if one.scenario.name == name]
        demanded = ", ".join(str(objective) for objective in mine[0].scenario.objectives)
        lines += [f"**{quoted(mine[0].scenario.title)}** ({demanded})", ""]
        lines += [line(["pair", "what it takes", "sets tried"]), line(["---", "---", "---:"])]
        for one in mine:
            text = sentence(one).partition(": ")[2]
            lines.append(line([f"{one.client}→{one.server}", text, f"{one.reached.tried} of {one.reached.every}"]))
        lines.append("")
    return "\n".join(lines)


def show(made: Sequence[Search], console: Console) -> None:
    """For a terminal."""
    for one in made:
        console.print(f"{one.scenario.name}: {sentence(one)}", soft_wrap=True, markup=False)
