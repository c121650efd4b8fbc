"""The fewest settings with which pairs meet all objectives, or that no set within the ranges does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from harness.doe.minimal_settings import Search, Settings
from harness.formatting import escape_stored, format_count
from harness.report.markdown import table_row


def sentence(search: Search) -> str:
    """The answer for a pair."""
    outcome, pair = search.result, f"{search.client}→{search.server}"
    if search.impossible_objective:
        return f"{pair}: nothing that can be told meets {search.impossible_objective}."
    best = settings_text(outcome.settings)
    if outcome.answer == "none":
        return (
            f"{pair}: none of the {outcome.total} sets of settings meets all objectives: all were tried, and the best, "
            f"{best}, {_miss_text(outcome.score)}."
        )
    progress = f"{outcome.tried_count} of {outcome.total} sets were tried"
    if outcome.answer == "open":
        return f"{pair}: not decided: {progress}, and the best, {best}, {_miss_text(outcome.score)}."
    if not outcome.settings:
        return f"{pair}: it meets all objectives {best}."
    if outcome.answer == "found":
        verb = "is" if outcome.untried_cheaper == 1 else "are"
        remaining = f"{format_count(outcome.untried_cheaper, 'set')} of fewer settings {verb} not tried yet"
        return f"{pair}: it meets all objectives with {best}; {remaining} ({progress})."
    return f"{pair}: it takes {best}: every set of fewer settings was tried and fails ({progress})."


def settings_text(settings: Settings) -> str:
    """A set of settings, for people."""
    return " and ".join(f"{name} {level}" for name, level in sorted(settings)) or "as it is"


def _miss_text(score: float) -> str:
    if not math.isfinite(score):
        return "does not come to the end of what is timed"
    return f"takes {score:.2f} times what is demanded"


def report(searches: Sequence[Search]) -> dict[str, Any]:
    """As plain data."""
    return {
        "schema": 1,
        "searches": [
            {
                "scenario": search.scenario.name,
                "client": search.client,
                "server": search.server,
                "factors": {name: list(levels) for name, levels in search.factors.items()},
                "answer": "none" if search.impossible_objective else search.result.answer,
                "hopeless": search.impossible_objective,
                "settings": dict(sorted(search.result.settings)),
                "score": search.result.score if math.isfinite(search.result.score) else "Infinity",
                "tried": search.result.tried_count,
                "every": search.result.total,
                "cheaper": search.result.untried_cheaper,
                "sentence": sentence(search),
            }
            for search in searches
        ],
    }


def markdown(searches: Sequence[Search]) -> str:
    """For a page: a table per scenario."""
    lines: list[str] = []
    for name in dict.fromkeys(search.scenario.name for search in searches):
        group = [search for search in searches if search.scenario.name == name]
        demanded = ", ".join(str(objective) for objective in group[0].scenario.objectives)
        lines += [f"**{escape_stored(group[0].scenario.title)}** ({demanded})", ""]
        lines += [table_row(["pair", "what it takes", "sets tried"]), table_row(["---", "---", "---:"])]
        for search in group:
            text = sentence(search).partition(": ")[2]
            lines.append(
                table_row(
                    [f"{search.client}→{search.server}", text, f"{search.result.tried_count} of {search.result.total}"]
                )
            )
        lines.append("")
    return "\n".join(lines)


def show(searches: Sequence[Search], console: Console) -> None:
    """For a terminal."""
    for search in searches:
        console.print(f"{search.scenario.name}: {sentence(search)}", soft_wrap=True, markup=False)
