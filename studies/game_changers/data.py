"""Every effect of every pair as data: files of comma-separated values beside the pages. Pure."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence

from harness.doe.effects import Analysis, StudySample
from harness.doe.effects.samples import ProfileSample
from harness.doe.effects.summary import foreign_base_texts, is_lower_bound, is_negligible, residual_text, summarise

_STUDY = ("study", "client", "server", "engine")
#: A row names so many interactions that are taken for an effect.
_MAX_NAMED = 2
#: Columns of the effects; times are seconds.
EFFECT_COLUMNS = (
    *_STUDY, "time", "median", "factors", "worse", "better", "saved", "saved_low", "saved_high", "at_least", "shown",
    "on_one_run", "not_told_from",
)  # fmt: skip
#: Columns of the times that effects are of.
TIME_COLUMNS = (*_STUDY, "time", "median", "runs", "late", "repetitions", "effects", "residual", "foreign_base")
#: Columns of the profiles; infinite where the run timed out before.
PROFILE_COLUMNS = (*_STUDY, "profile", "time", "median", "low", "high", "objectives", "not_honoured")


def effects_csv(analyses: Iterable[Analysis]) -> str:
    """A row for each effect, of a factor or of two together, that is worth 1 % of a time or more."""
    rows = [
        [
            *_study(analysis.sample),
            analysis.metric,
            _number(analysis.median),
            " × ".join(effect.factors),
            *(_levels(effect.worse, effect.better)),
            *map(_number, (effect.saving.median, effect.saving.low, effect.saving.high)),
            _yes(is_lower_bound(effect)),
            _yes(effect.is_significant),
            _yes(effect.rests_on_one_run),
            _aliases([" × ".join(pair) for pair in effect.aliased]),
        ]
        for analysis in analyses
        for effect in (*analysis.main_effects, *analysis.interactions)
        if not is_negligible(effect)
    ]
    return _to_csv(EFFECT_COLUMNS, rows)


def times_csv(analyses: Iterable[Analysis]) -> str:
    """A row for each time of each study and pair: its runs, its effects in a sentence, and the worst residual.

    The last column names a base beside which one factor varies at a time, where it is not the pair's own.
    """
    rows = [
        [
            *_study(analysis.sample),
            analysis.metric,
            _number(analysis.median),
            str(analysis.runs),
            str(analysis.censored),
            str(analysis.repetitions),
            summarise(analysis),
            residual_text(analysis) if analysis.main_effects else "",
            "; ".join(foreign_base_texts(analysis.sample)),
        ]
        for analysis in analyses
    ]
    return _to_csv(TIME_COLUMNS, rows)


def profiles_csv(samples: Iterable[ProfileSample]) -> str:
    """A row for each time of each profile of each pair."""
    rows = [
        [
            *_study(sample),
            row.label,
            metric,
            *(["", "", ""] if span is None else map(_number, (span.median, span.low, span.high))),
            row.verdict,
            "; ".join(row.unsupported),
        ]
        for sample in samples
        for row in sample.rows
        for metric, span in row.times.items()
    ]
    return _to_csv(PROFILE_COLUMNS, rows)


def _study(sample: StudySample | ProfileSample) -> list[str]:
    return [sample.scenario.name, sample.client, sample.server, sample.engine]


def _levels(worse: Sequence[object], better: Sequence[object]) -> tuple[str, str]:
    """The levels of a factor. Two together have none of their own."""
    return (str(worse[0]), str(better[0])) if len(worse) == 1 else ("", "")


def _aliases(pairs: Sequence[str]) -> str:
    """The first interactions that are taken for an effect, and how many more: the design says all of them."""
    more = len(pairs) - _MAX_NAMED
    return "; ".join([*pairs[:_MAX_NAMED], *([f"{more} more"] if more > 0 else [])])


def _number(value: float) -> str:
    """Four significant digits, as far as runs repeat."""
    return f"{value:.4g}" if math.isfinite(value) else "inf"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _to_csv(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
