"""Everybody at a glance: what each factor is worth on each server, and each server with each profile. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.doe.effects import Analysis, Effect
from harness.doe.effects.samples import ProfileRow, ProfileSample
from harness.doe.effects.summary import is_negligible, metric_label, round_seconds
from harness.outcome import Interval
from harness.report.markdown import table_row
from harness.report.numbers import interval_text
from harness.report.results import SYMBOLS
from studies.game_changers.claims import GAME

#: Of a time that not all runs had come to before their timeout.
CUT = "†"
_NOT_HONOURED, _LITTLE = "–", "·"


def changes_game(effect: Effect, one: Analysis) -> bool:
    """Whether a factor is worth so much of a time that it changes the game, by an interval that leaves out nothing."""
    return effect.shown and abs(effect.saved.median) >= GAME * one.median


def worth_table(mine: Sequence[Analysis]) -> list[str]:
    """The analyses of one study as a table: a row a pair, a column a factor, a figure a time."""
    pairs: dict[tuple[str, str], list[Analysis]] = {}
    for one in mine:
        pairs.setdefault((one.of.client, one.of.server), []).append(one)
    told = list(dict.fromkeys(effect.factors[0] for one in mine for effect in one.main))
    # As the study names them, not by what they are worth on whoever comes first.
    study = mine[0].of.scenario.study
    order = list(study.factors) if study is not None else told
    factors = sorted(told, key=lambda name: (order.index(name) if name in order else len(order), name))
    times = " / ".join(metric_label(one.metric) for one in next(iter(pairs.values())))
    clients = {client for client, _ in pairs}
    rows = [
        table_row([f"worth, seconds of {times}", *(f"`{name}`" for name in factors)]),
        table_row(["---", *["---:"] * len(factors)]),
    ]
    for (client, server), each in pairs.items():
        who = server if len(clients) == 1 else f"{client} → {server}"
        rows.append(table_row([who, *(_worth(name, each) for name in factors)]))
    return rows


def _worth(factor: str, times: Sequence[Analysis]) -> str:
    found = [(one, effect) for one in times for effect in one.main if effect.factors[0] == factor]
    if not found:
        return _NOT_HONOURED
    figures = [_figure(effect, one) for one, effect in found]
    return _LITTLE if set(figures) == {_LITTLE} else " / ".join(figures)


def _figure(effect: Effect, one: Analysis) -> str:
    cut = CUT if one.late else ""
    if is_negligible(effect.saved, one):
        return f"{_LITTLE}{cut}"
    text = round_seconds(effect.saved.median, one)
    return f"{f'**{text}**' if changes_game(effect, one) else text}{cut}"


def profiles_table(mine: Sequence[ProfileSample]) -> list[str]:
    """The profiles of one scenario as a table: a row a server, a column a profile, the times in each cell."""
    study = mine[0].scenario.study
    labels = ["its own parameters", *(study.profiles if study is not None else ())]
    names = [name for one in mine for row in one.rows[:1] for name in row.times]
    times = " / ".join(map(metric_label, dict.fromkeys(names)))
    rows = [table_row([f"seconds of {times}", *labels]), table_row(["---", *["---:"] * len(labels)])]
    for one in mine:
        by = {label: row for row in one.rows for label in row.label.split(" = ")}
        rows.append(table_row([one.server, *(_profile(by.get(label)) for label in labels)]))
    return rows


def _profile(row: ProfileRow | None) -> str:
    if row is None:
        return _NOT_HONOURED
    symbol = SYMBOLS[row.verdict][0] if row.verdict in ("pass", "fail", "error") else ""
    return f"{' / '.join(map(_median, row.times.values()))} {symbol}".rstrip()


def _median(span: Interval | None) -> str:
    return interval_text(None if span is None else span.model_copy(update={"n": 1}))
