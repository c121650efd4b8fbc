"""Everybody at a glance: what each factor is worth on each server, and each server with each profile. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.doe.effects import Analysis, Effect, foreign_bases
from harness.doe.effects.failing_modes import FailingMode, is_of_mode
from harness.doe.effects.samples import ProfileRow, ProfileSample
from harness.doe.effects.summary import is_hidden, is_lower_bound, is_negligible, metric_label, round_seconds
from harness.evaluation.objective_claim import Answer, is_judged, objectives_answer
from harness.outcome import Interval, VerdictStatus
from harness.report.markdown import table_row
from harness.report.numbers import interval_text
from harness.report.results import SYMBOLS
from studies.game_changers.claims import GAME

#: Of a time that runs at both levels had not come to before their timeout: the figure is no bound.
CUT = "†"
#: Of a figure that is 10 % of the time and more, and less than half of that without one run, or as much as others'.
ONE_RUN = "¹"
#: Of a figure that the design does not tell from what other factors do together.
ALIASED = "≈"
#: Of a factor whose levels the runs show not to be what they are called.
REFUSED = "∅"
#: Of a profile that puts a server into a mode that fails.
FAILS = "⊗"
_NOT_HONOURED, _LITTLE, _HIDDEN = "–", "·", "?"


def is_large(effect: Effect) -> bool:
    """Whether the worse level takes so much longer than the better one that it would change the game."""
    return effect.ratio.median >= 1 + GAME


def changes_game(effect: Effect) -> bool:
    """Whether a factor changes the game, and the runs show it."""
    return effect.is_significant and is_large(effect)


def worth_table(mine: Sequence[Analysis]) -> list[str]:
    """The analyses of one study as a table: a row a pair, a column a factor, a figure a time."""
    pairs: dict[tuple[str, str], list[Analysis]] = {}
    for analysis in mine:
        pairs.setdefault((analysis.sample.client, analysis.sample.server), []).append(analysis)
    told = list(dict.fromkeys(name for analysis in mine for name in _factors(analysis)))
    # As the study names them, not by what they are worth on whoever comes first.
    study = mine[0].sample.scenario.study
    order = list(study.factors) if study is not None else told
    factors = sorted(told, key=lambda name: (order.index(name) if name in order else len(order), name))
    times = " / ".join(metric_label(analysis.metric) for analysis in next(iter(pairs.values())))
    clients = {client for client, _ in pairs}
    rows = [
        table_row([f"worth, seconds of {times}", *(f"`{name}`{_base_text(name, mine)}" for name in factors)]),
        table_row(["---", *["---:"] * len(factors)]),
    ]
    for (client, server), analyses in pairs.items():
        who = server if len(clients) == 1 else f"{client} → {server}"
        rows.append(table_row([who, *(_worth(name, analyses) for name in factors)]))
    return rows


def _base_text(factor: str, mine: Sequence[Analysis]) -> str:
    """The base of a factor for the table's head, where it is not the own default of all rows' stacks."""
    samples = {(analysis.sample.client, analysis.sample.server): analysis.sample for analysis in mine}
    having = [sample for sample in samples.values() if factor in sample.factors]
    foreign = [sample for sample in having if factor in foreign_bases(sample)]
    if not foreign:
        return ""
    base, _ = foreign_bases(foreign[0])[factor]
    role = "client" if factor.startswith("client.") else "server"
    names, owners = (
        list(dict.fromkeys(sample.client if role == "client" else sample.server for sample in group))
        for group in (foreign, [sample for sample in having if sample not in foreign])
    )
    if len(owners) < len(names):
        whose = f"own of {', '.join(owners)} alone" if owners else "nobody's own"
    else:
        whose = f"not of {', '.join(names)}"
    return f" from {base}, {whose}"


def _factors(analysis: Analysis) -> list[str]:
    """The factors that a pair honours, those that are left out too."""
    refused = [name for name in analysis.sample.refused if " " not in name]
    return [*(effect.factors[0] for effect in analysis.main_effects), *refused]


def _worth(factor: str, times: Sequence[Analysis]) -> str:
    found = [
        (analysis, effect) for analysis in times for effect in analysis.main_effects if effect.factors[0] == factor
    ]
    if not found:
        return REFUSED if any(factor in analysis.sample.refused for analysis in times) else _NOT_HONOURED
    figures = [_figure(effect, analysis) for analysis, effect in found]
    return _LITTLE if set(figures) == {_LITTLE} else " / ".join(figures)


def _figure(effect: Effect, one: Analysis) -> str:
    if is_hidden(effect):
        return _HIDDEN
    cut = CUT if effect.late[1] else ""
    if is_negligible(effect):
        return f"{_LITTLE}{cut}"
    seconds = round_seconds(effect.saving.median, one)
    text = f"{'≥ ' if is_lower_bound(effect) else ''}{f'**{seconds}**' if changes_game(effect) else seconds}{cut}"
    if is_large(effect):
        text += (
            ALIASED if not effect.is_identifiable else ONE_RUN if effect.rests_on_one_run or effect.is_shared else ""
        )
    return text


def profiles_table(mine: Sequence[ProfileSample], failing: Sequence[FailingMode] = ()) -> list[str]:
    """The profiles of one scenario as a table: a row a server, a column a profile, the times in each cell."""
    study = mine[0].scenario.study
    labels = ["its own parameters", *(study.profiles if study is not None else ())]
    names = [name for sample in mine for row in sample.rows[:1] for name in row.times]
    times = " / ".join(map(metric_label, dict.fromkeys(names)))
    rows = [table_row([f"seconds of {times}", *labels]), table_row(["---", *["---:"] * len(labels)])]
    for sample in mine:
        by = {label: row for row in sample.rows for label in row.label.split(" = ")}
        rows.append(table_row([sample.server, *(_profile(sample, by.get(label), failing) for label in labels)]))
    return rows


def _profile(sample: ProfileSample, row: ProfileRow | None, failing: Sequence[FailingMode]) -> str:
    if row is None:
        return _NOT_HONOURED
    fails = any(is_of_mode(mode, sample.scenario, sample.server, row.settings) for mode in failing)
    return f"{' / '.join(map(_median, row.times.values()))} {_symbol(row)}{f' {FAILS}' if fails else ''}".rstrip()


def _symbol(row: ProfileRow) -> str:
    """Whether a profile meets the objectives, by the one rule of all pages; empty where there are none."""
    if row.verdict == "error":
        return SYMBOLS["error"][0]
    if not is_judged(row.result):
        return ""
    words: dict[Answer, VerdictStatus] = {"meets": "pass", "misses": "fail", "undecided": "inconclusive"}
    return SYMBOLS[words[objectives_answer(row.result)]][0]


def _median(span: Interval | None) -> str:
    return interval_text(None if span is None else span.model_copy(update={"n": 1}))
