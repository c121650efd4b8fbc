"""Effects of the factors of studies, a sentence per time, ranked; and profiles compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from harness.doe.effects import Analysis, Effect, StudySample
from harness.doe.effects.analysis import NEGLIGIBLE_SHARE
from harness.doe.effects.samples import ProfileSample
from harness.doe.effects.summary import format_seconds, is_negligible, metric_label, summarise
from harness.outcome import Interval
from harness.report.markdown import table_row
from harness.report.table import interval_text

StudyResults = tuple[Sequence[Analysis], Sequence[ProfileSample]]


def report(study_results: StudyResults) -> dict[str, Any]:
    """As plain data."""
    analyses, profile_sets = study_results
    studies = [_analysis(analysis) for analysis in analyses]
    return {"schema": 1, "studies": studies, "profiles": [_profiled(profile_set) for profile_set in profile_sets]}


def _analysis(analysis: Analysis) -> dict[str, Any]:
    return {
        **_study_fields(analysis.sample),
        "metric": analysis.metric,
        "unit": "s",
        "median": analysis.median,
        "runs": analysis.runs,
        "late": analysis.censored,
        "problem": analysis.problem,
        "sentence": summarise(analysis),
        "main": [_effect(effect) for effect in analysis.main_effects],
        "interactions": [_effect(effect) for effect in analysis.interactions],
        "responses": [
            {
                "factor": response.factor,
                "levels": [
                    {"level": level, "interval": _span(span)}
                    for level, span in zip(response.levels, response.seconds, strict=True)
                ],
            }
            for response in analysis.responses
        ],
        "without": [{"cell": name, "why": why} for name, why in analysis.cells_without_time],
    }


def _study_fields(subject: StudySample) -> dict[str, Any]:
    study = subject.scenario.study
    return {
        "scenario": subject.scenario.name,
        "client": subject.client,
        "server": subject.server,
        "engine": subject.engine,
        "design": study.design if study is not None else "",
        "parameters": dict(subject.fixed_parameters),
        "factors": {name: list(levels) for name, levels in subject.factors.items()},
        "cells": len(subject.cells),
    }


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        "factors": list(effect.factors),
        "worse": list(effect.worse),
        "better": list(effect.better),
        "saved": _span(effect.saving),
        "shown": effect.is_significant,
        "aliased": [list(pair) for pair in effect.aliased],
    }


def _span(span: Interval) -> dict[str, Any]:
    return {"median": span.median, "low": span.low, "high": span.high, "n": span.n, "coverage": span.coverage}


def _profiled(profile_set: ProfileSample) -> dict[str, Any]:
    return {
        "scenario": profile_set.scenario.name,
        "client": profile_set.client,
        "server": profile_set.server,
        "engine": profile_set.engine,
        "rows": [
            {
                "profile": row.label,
                "told": dict(row.settings),
                "absent": list(row.unsupported),
                "times": {name: None if span is None else _plain(span) for name, span in row.times.items()},
                "verdict": row.verdict,
            }
            for row in profile_set.rows
        ],
    }


def _plain(span: Interval) -> dict[str, Any]:
    return {name: value if abs(value) != float("inf") else "Infinity" for name, value in _span(span).items()}


def markdown(study_results: StudyResults) -> str:
    """For a page: a part per study and pair with a table of effects by time; then the profiles."""
    analyses, profile_sets = study_results
    lines: list[str] = []
    for subject_name in dict.fromkeys(analysis.sample.name for analysis in analyses):
        group = [analysis for analysis in analyses if analysis.sample.name == subject_name]
        lines += [f"### {subject_name}", "", *_sentences(group), ""]
        lines += [*_effects_table(group), ""] if any(analysis.main_effects for analysis in group) else []
        lines += _notes(group)
    for profile_set in profile_sets:
        lines += [f"### {profile_set.name}", "", *profiles_table(profile_set), ""]
    return "\n".join(lines)


def _sentences(analyses: Sequence[Analysis]) -> list[str]:
    return [f"* {summarise(analysis)}" for analysis in analyses]


def _effects_table(analyses: Sequence[Analysis]) -> list[str]:
    """Main effects and interactions as rows, sorted by their largest value over all times. Times are columns.

    Effects that are small for every time have no row.
    """
    by_factors: dict[tuple[str, ...], dict[str, Effect]] = {}
    by_metric = {analysis.metric: analysis for analysis in analyses}
    for analysis in analyses:
        for effect in (*analysis.main_effects, *analysis.interactions):
            by_factors.setdefault(effect.factors, {})[analysis.metric] = effect
    ranked = sorted(by_factors.items(), key=lambda item: -max(abs(effect.saving.median) for effect in item[1].values()))
    metrics = list(by_metric)
    table = [
        table_row(["worth, seconds of", *map(metric_label, metrics), "not told from"]),
        table_row(["---", *["---:"] * len(metrics), "---"]),
    ]
    negligible = 0
    for factors, effects in ranked:
        if all(is_negligible(effect.saving, by_metric[metric]) for metric, effect in effects.items()):
            negligible += 1
            continue
        cells = [_cell(effects[metric], by_metric[metric]) if metric in effects else "–" for metric in metrics]
        aliases = dict.fromkeys(" × ".join(pair) for effect in effects.values() for pair in effect.aliased)
        table.append(table_row([" × ".join(factors), *cells, _alias_text(list(aliases))]))
    if negligible == len(ranked):
        return [f"No factor, and no two together, are worth {NEGLIGIBLE_SHARE:.0%} of any time."]
    remainder = f"{negligible} other{'' if negligible == 1 else 's'}, of factors and of two together,"
    verb = "is" if negligible == 1 else "are"
    return [
        *table,
        *(["", f"{remainder} {verb} worth less than {NEGLIGIBLE_SHARE:.0%} of every time."] if negligible else []),
    ]


def _cell(effect: Effect, analysis: Analysis) -> str:
    change = f"{effect.worse[0]} → {effect.better[0]}"
    text = f"{format_seconds(effect.saving, analysis)}"
    text = f"**{text}**" if effect.is_significant and not is_negligible(effect.saving, analysis) else text
    return f"{text} ({change})" if len(effect.factors) == 1 else text


def _alias_text(aliases: Sequence[str]) -> str:
    if len(aliases) > 3:
        return f"{aliases[0]} and {len(aliases) - 1} other interactions"
    return ", ".join(aliases)


def _notes(analyses: Sequence[Analysis]) -> Iterator[str]:
    for name, why in dict.fromkeys(pair for analysis in analyses for pair in analysis.cells_without_time):
        yield f"* without {name}: {why}"
    if any(analysis.cells_without_time for analysis in analyses):
        yield ""


def profiles_table(profile_set: ProfileSample) -> list[str]:
    """Profiles as rows, times as columns."""
    metrics = list(profile_set.rows[0].times) if profile_set.rows else []
    table = [
        table_row(["parameters", *(f"{metric_label(name)}, s" for name in metrics), "objectives", "not honoured"]),
        table_row(["---", *["---:"] * len(metrics), "---", "---"]),
    ]
    for row in profile_set.rows:
        times = ["–" if span is None else interval_text(span) for span in row.times.values()]
        table.append(table_row([row.label, *times, row.verdict, ", ".join(row.unsupported) or "–"]))
    return table


def show(study_results: StudyResults, console: Console) -> None:
    """For a terminal."""
    text = markdown(study_results)
    console.print(text if text else "no stored runs are of a study", soft_wrap=True, markup=False)
