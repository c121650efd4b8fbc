"""What is planned: the runs of a request, and the designs of studies per pair. And what a search in a design says.

A design has factors, absent factors, and aliases where it is fractional. A search looks for the fewest settings with
which a pair meets all objectives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from harness.doe.minimal_settings import Search, Settings
from harness.execution.matrix import PlannedRun, ShardSummary, StudyDesign
from harness.formatting import format_beyond, format_count
from harness.planning.design import PairDesign
from harness.report.document import SENTENCE_WIDTH, Block, Column, Document, Paragraph, Row, Span, Table
from harness.report.progress import duration_text

PLAN_SCHEMA = 1


def plan_document(
    planned: Sequence[PlannedRun],
    stored: set[tuple[str, int]],
    seconds: float,
    disk: Mapping[str, int],
    shards: Sequence[ShardSummary] = (),
    studies: Sequence[StudyDesign] = (),
) -> Document:
    """Every run, whether it is stored, the designs, and the estimates for the rest.

    `disk`, in bytes: what these runs leave at least (`least`) and at most (`stay`), what they take in addition while
    they go on (`meanwhile`), and what is free (`free`). With shards: the work of each, and the names of those that have
    work as the matrix of a job of GitHub Actions.
    """
    shared = {
        "shards": [asdict(shard) for shard in shards],
        "matrix": {"shard": [shard.shard for shard in shards if shard.runs]},
    }
    data = {
        **(shared if shards else {}),
        "schema": PLAN_SCHEMA,
        "seconds": round(seconds),
        "disk": dict(disk),
        "runs": [_planned_data(item, stored) for item in planned],
        **({"studies": design_data(studies)} if studies else {}),
    }
    lines = [
        *(_planned_line(item, stored) for item in planned),
        *design_lines(studies),
        *(
            f"shard {share.shard}: {share.cells} cells, {share.runs} runs to do, "
            f"about {duration_text(share.seconds)} on one core"
            for share in shards
        ),
    ]
    return Document(data, [Paragraph(line) for line in lines])


def _planned_line(item: PlannedRun, stored: set[tuple[str, int]]) -> str:
    state = "stored" if (item.cell.key, item.repetition) in stored else "to run"
    cell = item.cell
    parameters = " ".join(f"{name}={value}" for name, value in cell.parameters.items())
    pair = f"{cell.client.name}→{cell.server.name}"
    return f"{cell.key} {item.repetition:3} {state:7} {cell.scenario.name} {pair} {parameters}".rstrip()


def _planned_data(item: PlannedRun, stored: set[tuple[str, int]]) -> dict[str, Any]:
    return {
        "key": item.cell.key,
        "scenario": item.cell.scenario.name,
        "client": item.cell.client.name,
        "server": item.cell.server.name,
        "engine": item.cell.engine,
        "parameters": item.cell.parameters,
        "repetition": item.repetition,
        "stored": (item.cell.key, item.repetition) in stored,
    }


# --- Designs of studies.


#: Groups of aliased interactions that texts list; --json has all.
_MOST_GROUPS = 12


def design_lines(pair_studies: Sequence[StudyDesign]) -> list[str]:
    """A paragraph per pair. Pairs that honour too few parameters share a line."""
    texts = []
    for pair_study in pair_studies:
        if not pair_study.design.too_few:
            texts += _paragraph(pair_study)
    excluded = [f"{pair_study.client}→{pair_study.server}" for pair_study in pair_studies if pair_study.design.too_few]
    if excluded:
        texts.append(f"without cells, since they honour too little: {', '.join(excluded)}")
    return texts


def _paragraph(pair_study: StudyDesign) -> list[str]:
    design = pair_study.design
    settings = [label for label in design.labels if label] or [
        f"{name} [{', '.join(map(str, levels))}]" for name, levels in design.factors.items()
    ]
    study = pair_study.scenario.study
    kind = f", {study.design}" if study is not None and study.factors else ""
    paragraph = [
        f"study {pair_study.scenario.name} {pair_study.client}→{pair_study.server}: "
        f"{format_count(len(design.points), 'cell')}{kind}: {'; '.join(settings)}"
    ]
    paragraph += [f"  absent: {name}: {why}" for name, why in design.unsupported.items()]
    return paragraph + [f"  {line}" for line in alias_lines(design)]


def alias_lines(design: PairDesign) -> list[str]:
    """The aliases of a fractional design, a line each. Empty where no effect of up to two factors is aliased."""
    names, aliases = list(design.factors), design.aliases

    def word(pair: tuple[int, ...]) -> str:
        return " × ".join(names[n] for n in pair)

    texts = [f"aliased: {names[n]} = {' = '.join(map(word, pairs))}" for n, pairs in aliases.of_main]
    texts += [f"aliased: {' = '.join(map(word, group))}" for group in aliases.together[:_MOST_GROUPS]]
    if len(aliases.together) > _MOST_GROUPS:
        texts.append(f"aliased: {len(aliases.together) - _MOST_GROUPS} more groups of interactions (--json has them)")
    return texts


def design_data(pair_studies: Sequence[StudyDesign]) -> list[dict[str, Any]]:
    """Designs as data."""
    return [
        {
            "scenario": pair_study.scenario.name,
            "client": pair_study.client,
            "server": pair_study.server,
            "cells": len(pair_study.design.points),
            "factors": {name: list(levels) for name, levels in pair_study.design.factors.items()},
            "profiles": [label for label in pair_study.design.labels if label],
            "absent": dict(pair_study.design.unsupported),
            "too_few": pair_study.design.too_few,
            "aliases": _aliases(pair_study.design),
        }
        for pair_study in pair_studies
    ]


def _aliases(design: PairDesign) -> dict[str, Any]:
    names, aliases = list(design.factors), design.aliases
    return {
        "main": {names[n]: [[names[a], names[b]] for a, b in pairs] for n, pairs in aliases.of_main},
        "interactions": [[[names[a], names[b]] for a, b in group] for group in aliases.together],
    }


# --- Searches for the fewest settings.


def searches_document(searches: Sequence[Search]) -> Document:
    """The answer for each pair, with a table per scenario."""
    return Document({"schema": 1, "searches": [_search_data(search) for search in searches]}, searches_blocks(searches))


def searches_blocks(searches: Sequence[Search]) -> list[Block]:
    """The answers as part of a page."""
    blocks: list[Block] = []
    for name in dict.fromkeys(search.scenario.name for search in searches):
        group = [search for search in searches if search.scenario.name == name]
        demanded = ", ".join(str(objective) for objective in group[0].scenario.objectives)
        columns = [
            Column("pair", identifies=True),
            Column("what it takes", text=SENTENCE_WIDTH),
            Column("sets tried", right=True),
        ]
        rows = [
            Row(
                [
                    f"{search.client}→{search.server}",
                    search_sentence(search).partition(": ")[2],
                    f"{search.result.tried_count} of {search.result.total}",
                ]
            )
            for search in group
        ]
        blocks += [
            Paragraph(name, "bold", "terminal"),
            Paragraph((Span(group[0].scenario.title, strong=True), f" ({demanded})")),
            Table(columns, rows),
        ]
    return blocks


def search_sentence(search: Search) -> str:
    """The answer for a pair."""
    outcome, pair = search.result, f"{search.client}→{search.server}"
    if search.impossible_objective:
        return f"{pair}: nothing that can be told meets {search.impossible_objective}."
    best = settings_text(outcome.settings)
    if search.undecided:
        progress = f"{outcome.tried_count} of {outcome.total} sets were tried"
        return f"{pair}: not decided: {progress}, and the best, {best}, has {search.undecided}."
    if outcome.answer == "none" and search.slow_start:
        return (
            f"{pair}: none of the {outcome.total} sets of settings meets all objectives: {outcome.tried_count} were "
            f"tried, and the best, {best}, {_miss_text(outcome.score)}. The others cannot: {search.slow_start}."
        )
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
    if score <= math.nextafter(1, 2):
        # The median is within the objectives, and the interval is not.
        return "is within what is demanded in the median, and not in every run"
    return f"takes {format_beyond(score, 1, 2)} times what is demanded"


def _search_data(search: Search) -> dict[str, Any]:
    return {
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
        "excluded": search.result.excluded_count,
        "slow_start": search.slow_start,
        "sentence": search_sentence(search),
    }
