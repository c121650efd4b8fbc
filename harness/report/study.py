"""What the factors of studies are worth: a sentence a time, effects ranked; and profiles beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from harness.doe.effects import Analysis, Effect, Studied
from harness.doe.effects.analysis import LITTLE
from harness.doe.effects.samples import Profiled
from harness.doe.effects.summary import called, is_little, seconds, sentence
from harness.outcome import Interval
from harness.report.markdown import line
from harness.report.table import interval_text

Made = tuple[Sequence[Analysis], Sequence[Profiled]]


def report(made: Made) -> dict[str, Any]:
    """As plain data."""
    analysed, profiled = made
    studies = [_analysis(one) for one in analysed]
    return {"schema": 1, "studies": studies, "profiles": [_profiled(one) for one in profiled]}


def _analysis(one: Analysis) -> dict[str, Any]:
    return {
        **_of(one.of),
        "metric": one.metric,
        "unit": "s",
        "median": one.median,
        "runs": one.runs,
        "late": one.late,
        "problem": one.problem,
        "sentence": sentence(one),
        "main": [_effect(effect) for effect in one.main],
        "interactions": [_effect(effect) for effect in one.together],
        "responses": [
            {
                "factor": each.factor,
                "levels": [
                    {"level": level, "interval": _span(span)}
                    for level, span in zip(each.levels, each.seconds, strict=True)
                ],
            }
            for each in one.responses
        ],
        "without": [{"cell": name, "why": why} for name, why in one.without],
    }


def _of(one: Studied) -> dict[str, Any]:
    study = one.scenario.study
    return {
        "scenario": one.scenario.name, "client": one.client, "server": one.server, "engine": one.engine,
        "design": study.design if study is not None else "", "parameters": dict(one.rest),
        "factors": {name: list(levels) for name, levels in one.factors.items()}, "cells": len(one.cells),
    }  # fmt: skip


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        "factors": list(effect.factors), "worse": list(effect.worse), "better": list(effect.better),
        "saved": _span(effect.saved), "shown": effect.shown, "aliased": [list(pair) for pair in effect.aliased],
    }  # fmt: skip


def _span(span: Interval) -> dict[str, Any]:
    return {"median": span.median, "low": span.low, "high": span.high, "n": span.n, "coverage": span.coverage}


def _profiled(one: Profiled) -> dict[str, Any]:
    return {
        "scenario": one.scenario.name, "client": one.client, "server": one.server, "engine": one.engine,
        "rows": [
            {
                "profile": row.label, "told": dict(row.told), "absent": list(row.absent),
                "times": {name: None if span is None else _plain(span) for name, span in row.times.items()},
                "verdict": row.verdict,
            }
            for row in one.rows
        ],
    }  # fmt: skip


def _plain(span: Interval) -> dict[str, Any]:
    return {name: value if abs(value) != float("inf") else "Infinity" for name, value in _span(span).items()}


def markdown(made: Made) -> str:
    """For a page: a part a study and pair, with a table of effects a time; then the profiles."""
    analysed, profiled = made
    lines: list[str] = []
    for of in dict.fromkeys(one.of.name for one in analysed):
        alike = [one for one in analysed if one.of.name == of]
        lines += [f"### {of}", "", *_sentences(alike), ""]
        lines += [*_effects_table(alike), ""] if any(one.main for one in alike) else []
        lines += _notes(alike)
    for each in profiled:
        lines += [f"### {each.name}", "", *profiles_table(each), ""]
    return "\n".join(lines)


def _sentences(alike: Sequence[Analysis]) -> list[str]:
    return [f"* {sentence(one)}" for one in alike]


def _effects_table(alike: Sequence[Analysis]) -> list[str]:
    """Main effects and interactions as rows, in the order of the largest over all times; the times as columns.

    What is little of every time has no row.
    """
    by: dict[tuple[str, ...], dict[str, Effect]] = {}
    of = {one.metric: one for one in alike}
    for one in alike:
        for effect in (*one.main, *one.together):
            by.setdefault(effect.factors, {})[one.metric] = effect
    ranked = sorted(by.items(), key=lambda item: -max(abs(effect.saved.median) for effect in item[1].values()))
    metrics = list(of)
    made = [
        line(["worth, seconds of", *map(called, metrics), "not told from"]),
        line(["---", *["---:"] * len(metrics), "---"]),
    ]
    little = 0
    for factors, found in ranked:
        if all(is_little(effect.saved, of[metric]) for metric, effect in found.items()):
            little += 1
            continue
        cells = [_cell(found[metric], of[metric]) if metric in found else "–" for metric in metrics]
        aliases = dict.fromkeys(" × ".join(pair) for effect in found.values() for pair in effect.aliased)
        made.append(line([" × ".join(factors), *cells, _brief(list(aliases))]))
    if little == len(ranked):
        return [f"No factor, and no two together, are worth {LITTLE:.0%} of any time."]
    others = f"{little} other{'' if little == 1 else 's'}, of factors and of two together,"
    verb = "is" if little == 1 else "are"
    return [*made, *(["", f"{others} {verb} worth less than {LITTLE:.0%} of every time."] if little else [])]


def _cell(effect: Effect, one: Analysis) -> str:
    change = f"{effect.worse[0]} → {effect.better[0]}"
    text = f"{seconds(effect.saved, one)}"
    text = f"**{text}**" if effect.shown and not is_little(effect.saved, one) else text
    return f"{text} ({change})" if len(effect.factors) == 1 else text


def _brief(aliases: Sequence[str]) -> str:
    if len(aliases) > 3:
        return f"{aliases[0]} and {len(aliases) - 1} other interactions"
    return ", ".join(aliases)


def _notes(alike: Sequence[Analysis]) -> Iterator[str]:
    for name, why in dict.fromkeys(pair for one in alike for pair in one.without):
        yield f"* without {name}: {why}"
    if any(one.without for one in alike):
        yield ""


def profiles_table(one: Profiled) -> list[str]:
    """Profiles as rows, times as columns."""
    metrics = list(one.rows[0].times) if one.rows else []
    made = [
        line(["parameters", *(f"{called(name)}, s" for name in metrics), "objectives", "not honoured"]),
        line(["---", *["---:"] * len(metrics), "---", "---"]),
    ]
    for row in one.rows:
        times = ["–" if span is None else interval_text(span) for span in row.times.values()]
        made.append(line([row.label, *times, row.verdict, ", ".join(row.absent) or "–"]))
    return made


def show(made: Made, console: Console) -> None:
    """For a terminal."""
    text = markdown(made)
    console.print(text if text else "no stored runs are of a study", soft_wrap=True, markup=False)
