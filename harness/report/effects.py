"""Effects of the factors of studies, a sentence per time, ranked; and profiles compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.doe.effects import Analysis, Effect, StudySample
from harness.doe.effects.analysis import NEGLIGIBLE_SHARE
from harness.doe.effects.samples import ProfileSample
from harness.doe.effects.summary import (
    foreign_base_texts,
    format_seconds,
    is_hidden,
    is_lower_bound,
    is_negligible,
    metric_label,
    residual_text,
    summarise,
)
from harness.outcome import Interval
from harness.report.document import (
    SENTENCE_WIDTH,
    Block,
    BulletList,
    Column,
    Document,
    Heading,
    Paragraph,
    Phrase,
    Row,
    Span,
    Table,
)
from harness.report.numbers import interval_text
from harness.report.observed import ObservedLevel, level_data, observed_levels, observed_table, observed_text

StudyResults = tuple[Sequence[Analysis], Sequence[ProfileSample]]


def effects_document(study_results: StudyResults) -> Document:
    """A part per study and pair with a table of effects by time; then the profiles."""
    analyses, profile_sets = study_results
    data = {
        "schema": 1,
        "studies": [_analysis(analysis) for analysis in analyses],
        "profiles": [_profiled(profile_set) for profile_set in profile_sets],
    }
    if not analyses and not profile_sets:
        return Document(data, [Paragraph("no stored runs are of a study", medium="terminal")])
    blocks = effects_blocks(analyses)
    for profile_set in profile_sets:
        blocks += [Heading(profile_set.name, 3), profile_table(profile_set)]
    return Document(data, blocks)


def effects_blocks(analyses: Sequence[Analysis]) -> list[Block]:
    """The effects as part of a page."""
    blocks: list[Block] = []
    for subject_name in dict.fromkeys(analysis.sample.name for analysis in analyses):
        group = [analysis for analysis in analyses if analysis.sample.name == subject_name]
        left_out = dict.fromkeys(pair for analysis in group for pair in analysis.cells_without_time)
        blocks += [
            Heading(subject_name, 3),
            *_base_lines(group[0].sample),
            BulletList([summarise(analysis) for analysis in group], bullet="*"),
            *(_effects_table(group) if any(analysis.main_effects for analysis in group) else []),
            *_observed_blocks(group[0].sample),
            BulletList([residual_text(analysis) for analysis in group if analysis.main_effects], bullet="*"),
            BulletList([f"without {name}: {why}" for name, why in left_out], bullet="*"),
            BulletList([f"left out: {name}: {why}" for name, why in group[0].sample.refused.items()], bullet="*"),
        ]
    return blocks


def _base_lines(sample: StudySample) -> list[Block]:
    """A paragraph that names the base of a study of one factor at a time, where it is not the pair's own."""
    bases = foreign_base_texts(sample)
    return [Paragraph(f"Beside a base that is not the pair's own: {', '.join(bases)}.")] if bases else []


def _levels(sample: StudySample) -> list[ObservedLevel]:
    return observed_levels([cell.result for cell in sample.cells], [*sample.factors, *sample.fixed_parameters])


def _observed_blocks(sample: StudySample) -> list[Block]:
    """What was seen of every endpoint parameter, beside what was asked. Nothing for parameters of the path alone."""
    levels = _levels(sample)
    return [Paragraph("Asked of the endpoints, and observed:"), observed_table(levels)] if levels else []


def _effects_table(analyses: Sequence[Analysis]) -> list[Block]:
    """Main effects and interactions as rows, sorted by their largest ratio over all times. Times are columns.

    Effects that are small for every time have no row.
    """
    by_factors: dict[tuple[str, ...], dict[str, Effect]] = {}
    by_metric = {analysis.metric: analysis for analysis in analyses}
    for analysis in analyses:
        for effect in (*analysis.main_effects, *analysis.interactions):
            by_factors.setdefault(effect.factors, {})[analysis.metric] = effect
    ranked = sorted(by_factors.items(), key=lambda item: -max(round(effect.size, 6) for effect in item[1].values()))
    rows = []
    for factors, effects in ranked:
        if all(is_negligible(effect) for effect in effects.values()):
            continue
        cells = [_cell(effects[metric], by_metric[metric]) if metric in effects else "–" for metric in by_metric]
        aliases = dict.fromkeys(" × ".join(pair) for effect in effects.values() for pair in effect.aliased)
        rows.append(Row([" × ".join(factors), *cells, _alias_text(list(aliases))]))
    if not rows:
        return [Paragraph(f"No factor, and no two together, are worth {NEGLIGIBLE_SHARE:.0%} of any time.")]
    columns = [
        Column("worth, seconds of", identifies=True),
        *(Column(metric_label(metric), right=True) for metric in by_metric),
        Column("not told from", text=SENTENCE_WIDTH),
    ]
    negligible = len(ranked) - len(rows)
    remainder = f"{negligible} other{'' if negligible == 1 else 's'}, of factors and of two together,"
    verb = "is" if negligible == 1 else "are"
    note = f"{remainder} {verb} worth less than {NEGLIGIBLE_SHARE:.0%} of every time."
    return [Table(columns, rows), *([Paragraph(note)] if negligible else [])]


def _cell(effect: Effect, analysis: Analysis) -> Phrase:
    if is_negligible(effect):
        return "hidden by timeouts" if is_hidden(effect) else f"less than {NEGLIGIBLE_SHARE:.0%}"
    seconds = f"{'≥ ' if is_lower_bound(effect) else ''}{format_seconds(effect.saving, analysis)}"
    worth = Span(seconds, strong=effect.is_significant)
    change = f" ({effect.worse[0]} → {effect.better[0]})" if len(effect.factors) == 1 else ""
    doubt = " on one run" if effect.rests_on_one_run else " as of other factors" if effect.is_shared else ""
    return (worth, f"{change}{doubt}")


def _alias_text(aliases: Sequence[str]) -> str:
    if len(aliases) > 3:
        return f"{aliases[0]} and {len(aliases) - 1} other interactions"
    return ", ".join(aliases)


def profile_table(profile_set: ProfileSample) -> Table:
    """Profiles as rows, times as columns."""
    metrics = list(profile_set.rows[0].times) if profile_set.rows else []
    columns = [
        Column("parameters", identifies=True, text=SENTENCE_WIDTH),
        *(Column(f"{metric_label(name)}, s", right=True) for name in metrics),
        Column("objectives"),
        Column("not honoured", text=SENTENCE_WIDTH),
        Column("observed", text=SENTENCE_WIDTH),
    ]
    rows = [
        Row(
            [
                row.label,
                *("–" if span is None else interval_text(span) for span in row.times.values()),
                row.verdict,
                ", ".join(row.unsupported) or "–",
                observed_text(row.result, list(row.settings)),
            ]
        )
        for row in profile_set.rows
    ]
    return Table(columns, rows)


# --- Effects as data.


def _analysis(analysis: Analysis) -> dict[str, Any]:
    return {
        **_study_fields(analysis.sample),
        "observed": [level_data(level) for level in _levels(analysis.sample)],
        "metric": analysis.metric,
        "unit": "s",
        "median": analysis.median,
        "runs": analysis.runs,
        "late": analysis.censored,
        "chance": analysis.chance,
        "repetitions": analysis.repetitions,
        "residual": residual_text(analysis) if analysis.residual is not None else "",
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
        "refused": dict(subject.refused),
        "cells": len(subject.cells),
    }


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        "factors": list(effect.factors),
        "worse": list(effect.worse),
        "better": list(effect.better),
        "saved": _span(effect.saving),
        "ratio": _span(effect.ratio),
        "ratio_without_run": effect.ratio_without_run,
        "p": effect.p,
        "adjusted_p": effect.adjusted_p,
        "late": list(effect.late),
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
                "observed": [level_data(level) for level in observed_levels([row.result], list(row.settings))],
                "times": {name: None if span is None else _plain(span) for name, span in row.times.items()},
                "verdict": row.verdict,
            }
            for row in profile_set.rows
        ],
    }


def _plain(span: Interval) -> dict[str, Any]:
    return {name: value if abs(value) != float("inf") else "Infinity" for name, value in _span(span).items()}
