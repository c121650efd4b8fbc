"""docs/studies.md: what parameters are worth, from stored runs, and what N. Kuhn's slides ask about them.

And docs/effects.md, with every effect of every pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from harness.doe.effects import Analysis, Effect, analyse_all, analyse_samples, group_beside_own, group_studies
from harness.doe.effects.failing_modes import (
    FACTOR,
    FailingMode,
    failing_modes,
    is_of_mode,
    path_text,
    remedies,
)
from harness.doe.effects.levels import SEEN
from harness.doe.effects.samples import ProfileSample, group_profiles
from harness.doe.effects.summary import (
    format_seconds,
    is_lower_bound,
    is_negligible,
    metric_label,
    round_seconds,
    summarise,
)
from harness.doe.minimal_settings import stored_searches
from harness.evaluation.cell_result import CellResult, newest
from harness.formatting import format_count, format_list
from harness.report.designs import searches_blocks
from harness.report.markdown import render_blocks, table_row
from harness.report.numbers import number_text
from harness.scenario.schema import Scenario
from harness.stats.intervals import MIN_VALUES
from harness.store.identity import lab_digest
from studies import FIGURE, findings
from studies.game_changers.claims import GAME, NEAR, PATHS, QUESTIONS, SWEEPS, Question
from studies.game_changers.data import effects_csv, profiles_csv, times_csv
from studies.game_changers.overview import FAILS, changes_game, profiles_table, worth_table

_NONE = "No runs are stored yet."
_ONCE = (
    "Every cell ran once. Nothing on the path is random, so another run tells nothing new. It would differ by the "
    "drawn millisecond of the delay, and by the endpoints' own random numbers."
)
_ONCE_BY_CHANCE = "Every cell ran once, and chance plays a part: nothing here is decided."
#: What is different on a near path: 10 MB are as many of its bandwidth-delay products as some 300 MB of a satellite's.
_LIKE = ", 20 ms, 10 MB"
_ENOUGH = (
    "A server counts once, whatever the number of its paths, studies and times ({}). The times of one run are nested. "
    f"The server counts if a factor's worse level takes {GAME:.0%} longer and more for one of them, and the runs "
    "show it."
)
#: A heading of the part, which goes one level down.
_HEADING = re.compile(r"^#+ ", re.MULTILINE)
_HEAD = """# Game changers

Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).

N. Kuhn's slides end on a question: which parameters are game changers? A study answers it. It has factors with levels,
and a design that says which of their combinations run ([the format](scenario.md#experiment)).

```
harness plan studies/fraction-50-10 --engine virtual   # cells, what a pair does not honour, aliases, disk, time
harness run studies/fraction-50-10 --engine virtual    # resumes as every run does
harness report study studies/fraction-50-10            # effects with intervals, ranked (--figures DIR draws them)
harness reach studies/reach-50-10 --engine virtual     # the fewest settings that meet the objectives (--budget 60)
```

*Worth* is how many seconds lie between a factor's worst level and its best. It is taken between the geometric means
over all levels of the others. A design that varies one factor at a time takes it at the base of all others. Effects are
ratios of times, so that one late run does not make a mean. A repetition has the same draws in all cells, of losses and
of the delay's phase. It is the whole study once.

*Shown* is what the runs show. It is bold if the worse level takes 10 % longer and more.

* Nothing is random on a path without loss and jitter. One run of a cell counts there. An effect is shown unless less
  than half of it is left without some one run.
* In some studies every cell ran once beside one base. A difference that cells of two other factors have as well is no
  factor's there. It belongs to the base, or to a sender which any change tips over.
* If chance plays a part, the levels are permuted within the repetitions. The test takes all orders of two levels, by
  ranks, so that a timeout is a late rank and nothing else. The p-values of all factors, servers and times of a scenario
  are adjusted together (Benjamini and Hochberg). At most 5 % of what is shown is by chance. Fewer than six repetitions
  cannot show anything by that test, and then nothing is bold.
* Three other factors that are all worth more may explain a factor as well. It is then not told apart from them, and not
  shown.
* Two factors together stand before either alone if they are worth as much together as either is alone.

The tables of this page have a row for each server. The client is picoquic, because you can tell it how it acknowledges.
A cell has what the factor is worth of each time, one after the other. **Bold** changes the game.

| mark | meaning |
| --- | --- |
| · | less than a hundredth |
| – | not honoured |
| ∅ | left out: the runs show that its levels were not what they are called |
| ≥ | a lower bound: runs at the worse level had not come so far when their time was over |
| † | no bound: runs at the better level had not come so far either |
| ? | hidden by timeouts, of half of the runs at both levels and more |
| ¹ | rests on one run, or is as much as other factors' cells differ from the base |
| ≈ | not told from other factors together |

[Every effect](effects.md) has the intervals, the residuals, the better level, and what two factors do together.
"""
_DETAILS = """# Every effect

Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).
"""
_READ = """\
```
harness report study studies/fraction-50-10 --servers quiche --store results/reference   # all effects of a pair
```

The command prints every effect of the pairs that you name, in seconds, with intervals. This page has the greatest
effect of each pair. [Game changers](studies.md) says what the words mean. Bold is what the runs show to be this
factor's. Brackets are the repetitions' least and most.

All of it is also data, comma-separated, times in seconds:

| file | a row is |
| --- | --- |
| [`effects.csv`](data/effects.csv) | an effect that is worth 1 % of a time or more: of a factor, or of two together |
| [`times.csv`](data/times.csv) | a time of a pair: its runs, effects in a sentence, worst residual, foreign base |
| [`profiles.csv`](data/profiles.csv) | a time of a pair with a column of N. Kuhn's table as its settings |

```python
import polars as pl

effects = pl.read_csv("docs/data/effects.csv")
print(effects.filter(pl.col("server") == "quiche", pl.col("shown") == "yes").sort("saved", descending=True))
```

`not_told_from` has the interactions that a fraction takes for this one. `on_one_run` has less than half of it left
without that run. A *residual* is a run's distance from the model of factors and two of them together.
"""
#: The scenario of the same path whose runs in real time would confirm what a mode does in virtual time.
_REAL = "satellite/medium"
_SEEN = (
    "What was observed decides what a study compares. A level that most runs show at another value is named by that "
    "value, and two levels that were seen at the same one are no two levels: one of them is left out. A client that "
    "reads several packets at once acknowledges them at once, and one whose packets are lost acknowledges at once, too."
)
_PROFILES = """## The columns of N. Kuhn's table as profiles

Every stack gets the default parameters of N. Kuhn's table, as far as it honours them. *h2o's parameters* on quinn are
quinn's code with h2o's settings. A row is a server, and a column is a profile. Differences within a row come from
settings. Differences within a profile's column come from code. ✓ meets all objectives, and ✕ misses one. ~ is not
decided: if chance plays a part, fewer than six runs do not show that a pair meets them.
"""
_REACH = """## What would it take?

`harness reach` searches the fewest settings with which a pair meets all objectives. It tries none first, then every
setting alone, then sets of two and more. The sets that single settings promise most of come first. A set is the
cheapest if every cheaper set was tried and fails. No set meets the objectives if every set was tried and fails.
"""


#: The most factors that a sentence names.
_MAX_FACTORS = 3


def game_changers(results: Sequence[CellResult]) -> str:
    """Its part of the page, below the page's own heading."""
    mine = _mine(results)
    analyses = [*analyse_all(mine), *_beside_own(mine)]
    text = "\n".join(
        [
            _HEAD,
            *_failures(results, mine),
            *_questions(analyses),
            *_by_path(analyses, "fraction", "The parameter table in a fraction", _FRACTION, worth_table),
            *_by_path(analyses, "levels", "Every level alone", _LEVELS, worth_table),
            *_by_path(_own(analyses), "reach", "Every setting alone, beside each stack's own", _OWN, worth_table, [""]),
            *_sweeps(analyses),
            *_heat(analyses, worth_table),
            *_profiles(group_profiles(mine), _PROFILES, partial(profiles_table, failing=failing_modes(mine))),
            *_reach(results),
        ]
    )
    return _HEADING.sub(r"#\g<0>", text)


def every_effect(results: Sequence[CellResult]) -> str:
    """The page of details: the greatest effects of each pair, and where the data are."""
    analyses = _every_analysis(results)
    return "\n".join(
        [
            _DETAILS,
            *findings(_opening(analyses)),
            FIGURE,
            "",
            _READ,
            *_by_path(analyses, "fraction", "The parameter table in a fraction", _FRACTION, _greatest),
            *_by_path(analyses, "levels", "Every level alone", _LEVELS, _greatest),
            *_by_path(_own(analyses), "reach", "Every setting alone, beside each stack's own", _OWN, _greatest, [""]),
            *_heat(analyses, _greatest),
            *_levels_seen(analyses),
        ]
    )


def _opening(analyses: Sequence[Analysis]) -> Iterator[str]:
    """Which factors change the game on the most servers behind a satellite, which never do, and the greatest effect."""
    near, far = ([analysis for analysis in analyses if _near(analysis) == wanted] for wanted in (True, False))
    decided = sorted((tally for tally in tallies(far) if tally.servers), key=lambda tally: -len(tally.changes))
    if not decided:
        return
    pairs = {(analysis.sample.client, analysis.sample.server) for analysis in far}
    yield (
        f"{format_count(len(pairs), 'pair')} ran over the satellite's paths with other settings of "
        f"{format_count(len(decided), 'factor')}."
    )
    often = [
        f"`{tally.factor}` on {len(tally.changes)} of {format_count(len(tally.servers), 'server')}"
        for tally in decided[:_MAX_FACTORS]
        if tally.changes
    ]
    if often:
        yield f"A factor changes the game where its worse level takes {GAME:.0%} longer and more."
        yield f"The most frequent are {format_list(often)}."
    greatest = max(decided, key=lambda tally: tally.largest)
    if greatest.largest:
        yield f"The greatest effect is that of `{greatest.factor}`: {greatest.largest_text}; {greatest.largest_at}."
    never = {tally.factor for tally in decided if not tally.changes}
    if never:
        names = format_list([f"`{factor}`" for factor in sorted(never)])
        yield f"{format_count(len(never), 'factor')} never change it there: {names}."
    elsewhere = [
        f"`{tally.factor}` (on {format_list(tally.changes)})"
        for tally in tallies(near)
        if tally.factor in never and tally.changes
    ]
    if elsewhere:
        yield f"On paths of 20 ms these do: {format_list(elsewhere)}."


def effects_data(results: Sequence[CellResult]) -> str:
    """Every effect as comma-separated values, see `studies.game_changers.data.effects_csv`."""
    return effects_csv(_every_analysis(results))


def times_data(results: Sequence[CellResult]) -> str:
    """Every time with its effects in a sentence, as comma-separated values."""
    return times_csv(_every_analysis(results))


def profiles_data(results: Sequence[CellResult]) -> str:
    """The profiles of every pair, as comma-separated values."""
    return profiles_csv(group_profiles(_mine(results)))


def _every_analysis(results: Sequence[CellResult]) -> list[Analysis]:
    mine = _mine(results)
    return [*analyse_all(mine), *_beside_own(mine)]


def _greatest(mine: Sequence[Analysis]) -> list[str]:
    """A row for each pair: at each time, the factor that is worth most."""
    rows = [table_row(["pair", "worth most"]), table_row(["---", "---"])]
    for name in dict.fromkeys(analysis.sample.name for analysis in mine):
        group = [analysis for analysis in mine if analysis.sample.name == name]
        texts = [f"{metric_label(analysis.metric)}: {_worth(analysis)}" for analysis in group]
        sample = group[0].sample
        rows.append(table_row([f"{sample.client}→{sample.server}", "; ".join(texts)]))
    return rows


def _worth(analysis: Analysis) -> str:
    """The factor that is worth most of a time: its seconds and its levels; bold as in `report study`."""
    effects = [effect for effect in analysis.main_effects if not is_negligible(effect)]
    if not effects:
        return analysis.problem or "nothing as much as 1 %"
    effect = max(effects, key=lambda one: one.size)
    seconds = f"{'≥ ' if is_lower_bound(effect) else ''}{format_seconds(effect.saving, analysis)}"
    shown = f"**{seconds}**" if effect.is_significant else seconds
    return f"{effect.factors[0]} {shown} ({effect.worse[0]} → {effect.better[0]})"


def _failures(results: Sequence[CellResult], mine: Sequence[CellResult]) -> list[str]:
    """The modes of servers that fail, what helps, and whether a run in real time confirms it."""
    modes = failing_modes(mine)
    if not modes:
        return []
    samples = group_studies(mine)
    lines = ["## Modes that fail", ""]
    for mode in modes:
        own, rest = (_range(spans) for spans in (mode.times, mode.other_mode_times))
        sizes = " and ".join(map(metric_label, mode.metrics))
        text = (
            f"**{mode.server} with {mode.level}**, everything else its own, takes {own} for {sizes} "
            f"({', '.join(f'`{name}`' for name in mode.scenarios)}). This is far beyond all {mode.modes} other modes "
            f"of all servers, which take {rest}. That is a failure of this mode, and not what a setting is worth. On "
            f"paths as long, its runs are left out of the effects below. They are marked {FAILS} among the profiles."
        )
        helps = [
            f"With `{one.factor}` {one.level} it takes {number_text(one.fastest)} to {number_text(one.slowest)} s of "
            f"{metric_label(mode.metrics[-1])} ({format_count(one.runs, 'run')}, `{one.scenario}`)."
            for one in remedies(mode, samples)
        ]
        lines += [" ".join([text, *helps, _confirmation(results, mode)]), ""]
    return lines


def _range(spans: Sequence[tuple[float, float]]) -> str:
    """Times as 24 s and 32.1 s, or from the fastest to the slowest."""
    texts = [(number_text(low), number_text(high)) for low, high in spans]
    return " and ".join(f"{low} s" if low == high else f"{low} to {high} s" for low, high in texts)


def _confirmation(results: Sequence[CellResult], mode: FailingMode) -> str:
    """What runs in real time say of a mode that fails; that they are missing, and how to make one."""
    real = [
        result
        for result in results
        if not result.cell.virtual_time
        and set(result.cell.parameters) == {FACTOR}
        and is_of_mode(mode, result.cell.scenario, result.cell.server.name, result.cell.parameters)
        and path_text(result.cell.scenario) == mode.path
    ]
    values = {
        metric: [time for result in real for time in result.values(metric, 0, "first")] for metric in mode.metrics
    }
    if not all(values.values()):
        return (
            f"No run in real time confirms it yet: `harness run {_REAL} --clients picoquic --servers {mode.server} "
            f"--set {FACTOR}={mode.level} --engine compose`."
        )
    times = _range([(min(times), max(times)) for times in values.values()])
    count = format_count(len(values[mode.metrics[0]]), "run")
    slow = all(min(times) > rest for times, (_, rest) in zip(values.values(), mode.other_mode_times, strict=True))
    return f"{count} in real time {'confirm' if slow else 'do not confirm'} it: {times}."


def _beside_own(mine: Sequence[CellResult]) -> list[Analysis]:
    """Every setting that searches tried alone, beside each pair's own defaults."""
    cells = [result for path in PATHS for result in _same_lab(mine, _scenario("reach", path))]
    return analyse_samples(group_beside_own(cells), failing_modes(mine))


def _own(analyses: Sequence[Analysis]) -> list[Analysis]:
    return [analysis for analysis in analyses if analysis.sample.is_beside_own]


def _levels_seen(analyses: Sequence[Analysis]) -> list[str]:
    """What runs show of levels that they did not reach: a row for each pair of each study that has some."""
    samples = {analysis.sample.name: analysis.sample for analysis in analyses}
    rows = []
    for sample in samples.values():
        renamed = [
            f"`{name}`: {', '.join(map(str, levels))}"
            for name, levels in sample.factors.items()
            if any(SEEN in str(level) for level in levels)
        ]
        refused = [
            f"`{name}` {reason}" for name, reason in sample.refused.items() if not name.endswith("stream_window")
        ]
        if renamed or refused:
            pair = f"{sample.client}→{sample.server}"
            rows.append(table_row([f"`{sample.scenario.name}`", pair, "; ".join(renamed), "; ".join(refused)]))
    if not rows:
        return []
    head = [table_row(["study", "pair", "levels by what was seen", "left out"]), table_row(["---"] * 4)]
    return ["## Levels that were not reached", "", _SEEN, "", *head, *rows, ""]


def _mine(results: Sequence[CellResult]) -> list[CellResult]:
    return [
        result for result in results if result.cell.scenario.name.startswith("studies/") and result.cell.virtual_time
    ]


def _scenario(kind: str, path: str) -> str:
    return f"studies/{kind}-{path}"


def _questions(analyses: Sequence[Analysis]) -> list[str]:
    lines = ["## What N. Kuhn's slides ask", ""]
    for question in QUESTIONS:
        lines += [f"**{question.text}**", "", *_answer(question, analyses), ""]
    return lines


def _answer(one: Question, analyses: Sequence[Analysis]) -> list[str]:
    kinds = ("fraction", "levels", "ack-ratio-initial-rtt")
    mine = [
        analysis
        for analysis in analyses
        if _near(analysis) == one.near
        and (_named(analysis, kinds) or _is_sweep(analysis) or analysis.sample.is_beside_own)
    ]
    counted = [tally for tally in tallies(mine) if not one.factors or tally.factor in one.factors]
    if not counted:
        return [_NONE]
    rows = [
        table_row(["factor", "changes the game on", "together with", "at most worth", "where"]),
        table_row(["---", "---", "---", "---:", "---"]),
    ]
    for each in counted:
        names = f": {', '.join(each.changes)}" if each.changes else ""
        changed = f"{len(each.changes)} of {len(each.servers)}{names}"
        largest = each.largest_text or "–"
        rows += [table_row([each.factor, changed, ", ".join(each.partners) or "–", largest, each.largest_at or "–"])]
    sizes = "2 and 10 MB on paths of 20 ms" if one.near else "2, 10 and 100 MB"
    lines = [f"{verdict(counted)} {_ENOUGH.format(sizes)}", "", *rows]
    return [*lines, *_left_out(one, mine, {tally.factor for tally in counted}), *_undecided(mine)]


def _left_out(one: Question, mine: Sequence[Analysis], counted: set[str]) -> list[str]:
    """Factors of a question that count nowhere: the runs show that their levels were not what they are called."""
    reasons = {
        name: reason
        for analysis in mine
        for name, reason in analysis.sample.refused.items()
        if name in one.factors and name not in counted
    }
    return [line for name, reason in reasons.items() for line in ("", f"`{name}` does not count: {reason}.")]


def _undecided(mine: Sequence[Analysis]) -> list[str]:
    """The scenarios in which chance plays a part, with too few repetitions."""
    counts = {one.sample.scenario.name: one.repetitions for one in mine if one.main_effects and not one.is_decided}
    if not counts:
        return []
    names = ", ".join(f"`{name}`" for name in counts)
    most = format_count(max(counts.values()), "repetition")
    return [
        "",
        f"These studies decide nothing: {names}. Chance plays a part in them, and they have {most} at most. The test "
        f"needs {MIN_VALUES}.",
    ]


def verdict(counted: Sequence[Tally]) -> str:
    """What the runs answer: factors by how many servers they change the game on."""
    decided = [tally for tally in counted if tally.servers]
    often = [tally.factor for tally in decided if len(tally.changes) >= len(tally.servers) / 2]
    some = [tally.factor for tally in decided if 0 < len(tally.changes) < len(tally.servers) / 2]
    never = [tally.factor for tally in decided if not tally.changes]
    open_ = [tally.factor for tally in counted if not tally.servers]
    parts = {"Yes, on half of the servers and more": often, "On some": some, "No": never, "Not decided": open_}
    return " ".join(f"{word}: {', '.join(map('`{}`'.format, names))}." for word, names in parts.items() if names)


def _near(one: Analysis) -> bool:
    return f"-{NEAR}" in one.sample.scenario.name


def _named(one: Analysis, kinds: Iterable[str]) -> bool:
    return one.sample.scenario.name.startswith(tuple(f"studies/{kind}-" for kind in kinds))


def _is_sweep(one: Analysis) -> bool:
    return one.sample.scenario.name in SWEEPS


@dataclass(frozen=True)
class Tally:
    """A factor over all servers."""

    factor: str
    servers: tuple[str, ...]
    """Those whose runs decide whether it changes the game."""
    changes: tuple[str, ...]
    """Those on which it does."""
    partners: tuple[str, ...] = ()
    """Factors that it is worth as much together with as alone, on a server on which it changes the game."""
    largest: float = 0.0
    """Seconds between the worst level and the best, where they are most of those that count."""
    largest_text: str = ""
    """The same in seconds."""
    largest_at: str = ""


def tallies(analyses: Iterable[Analysis]) -> list[Tally]:
    """Every factor of these analyses, those first that change the game on the largest share of servers."""
    by_factor: dict[str, list[tuple[Analysis, Effect]]] = {}
    for analysis in analyses:
        for effect in analysis.main_effects:
            by_factor.setdefault(effect.factors[0], []).append((analysis, effect))
    made = [_tally(factor, pairs) for factor, pairs in by_factor.items()]
    share = {tally.factor: len(tally.changes) / max(len(tally.servers), 1) for tally in made}
    return sorted(made, key=lambda tally: (not tally.servers, -share[tally.factor], -tally.largest, tally.factor))


def _tally(factor: str, pairs: Sequence[tuple[Analysis, Effect]]) -> Tally:
    decided = [(analysis, effect) for analysis, effect in pairs if analysis.is_decided]
    counting = [(analysis, effect) for analysis, effect in decided if changes_game(effect)]
    servers = tuple(sorted({analysis.sample.server for analysis, _ in decided}))
    changes = tuple(sorted({analysis.sample.server for analysis, _ in counting}))
    if not counting:
        return Tally(factor, servers, changes)
    partners = {
        name
        for analysis, _ in counting
        for together in analysis.dominant_interactions()
        for name in together.factors
        if factor in together.factors and name != factor
    }
    of, most = max(counting, key=lambda pair: pair[1].saving.median)
    where = f"{metric_label(of.metric)}, {of.sample.client}→{of.sample.server}, `{of.sample.scenario.name}`"
    seconds = f"{'≥ ' if is_lower_bound(most) else ''}{round_seconds(most.saving.median, of)} s"
    text = f"{seconds} ({most.worse[0]} → {most.better[0]})"
    return Tally(factor, servers, changes, tuple(sorted(partners)), most.saving.median, text, where)


_FRACTION = (
    "Nine factors of two levels run in a fraction of resolution IV. No factor is taken for two others together. "
    "Interactions that are taken for each other are named beside them."
)
_LEVELS = (
    "One factor varies at a time. The tables have what a level is worth beside the base of all others, and nothing of "
    "two together. The base is the same for all stacks. The table's head says whose own it is not."
)
_OWN = (
    "One setting varies at a time, beside what each stack does when you tell it nothing. The cells are those of the "
    "searches below. A connection's credit is none of them."
)


Table = Callable[[Sequence[Analysis]], list[str]]
"""Some of a study's analyses → lines."""


def _by_path(
    analyses: Sequence[Analysis], kind: str, title: str, words: str, table: Table, starts: Sequence[str] = ("", NEAR)
) -> list[str]:
    lines = [f"## {title}", "", words, ""]
    for start in starts:
        for path, name in PATHS.items():
            scenario = _scenario(kind, f"{start}{path}")
            mine = [analysis for analysis in analyses if analysis.sample.scenario.name == scenario]
            lines += [f"**{name}{_LIKE if start else ''}** (`{scenario}`)", ""]
            lines += [*_tabled(mine, table), ""]
    return lines


def _tabled(mine: Sequence[Analysis], table: Table) -> list[str]:
    """What one study came to, and what that is where it ran once."""
    if not mine:
        return [_NONE]
    once = {analysis.repetitions for analysis in mine if analysis.main_effects} == {1}
    words = _ONCE_BY_CHANCE if any(analysis.chance for analysis in mine) else _ONCE
    return [*table(mine), *(["", words] if once else [])]


def _sweeps(analyses: Sequence[Analysis]) -> list[str]:
    lines = ["## One or two factors, in full", "", "Each sweep has every value with every other.", ""]
    for scenario, title in SWEEPS.items():
        mine = [
            analysis for analysis in analyses if analysis.sample.scenario.name == scenario and analysis.main_effects
        ]
        lines += [f"**{title}** (`{scenario}`)", ""]
        lines += [_sentences(mine), ""] if mine else [_NONE, ""]
    return lines


def _sentences(mine: Sequence[Analysis]) -> str:
    return "\n".join(f"* {one.sample.client}→{one.sample.server}: {summarise(one)}" for one in mine)


def _heat(analyses: Sequence[Analysis], table: Table) -> list[str]:
    scenario = "studies/ack-ratio-initial-rtt-50-10"
    mine = [analysis for analysis in analyses if analysis.sample.scenario.name == scenario]
    lines = ["## ACK ratio × initial RTT", "", f"`{scenario}`: every level with every other.", ""]
    return [*lines, *_tabled(mine, table), ""]


def _profiles(
    samples: Sequence[ProfileSample], head: str, table: Callable[[Sequence[ProfileSample]], list[str]]
) -> list[str]:
    lines = [head]
    for start in ("", NEAR):
        for path, name in PATHS.items():
            scenario = _scenario("profiles", f"{start}{path}")
            mine = [sample for sample in samples if sample.scenario.name == scenario]
            lines += [f"**{name}{_LIKE if start else ''}** (`{scenario}`)", ""]
            lines += [*(table(mine) if mine else [_NONE]), ""]
    return lines


def _reach(results: Sequence[CellResult]) -> list[str]:
    lines = [_REACH]
    for path, name in PATHS.items():
        scenario = _scenario("reach", path)
        mine = stored_searches(_searched(results, scenario))
        lines += [render_blocks(searches_blocks(mine))] if mine else [f"**{name}** (`{scenario}`)", "", _NONE, ""]
    return lines


def _searched(results: Sequence[CellResult], name: str) -> list[CellResult]:
    """A search's cells, and what its pairs do as they are: that stands under the satellite's cases, with more runs."""
    mine = _same_lab(results, name)
    if not mine:
        return []
    scenario = newest(mine).cell.scenario
    cells = [result for result in results if result.cell.scenario.objectives == scenario.objectives]
    return [
        *mine,
        *(
            replace(result, cell=result.cell.model_copy(update={"scenario": scenario}))
            for result in cells
            if result.cell.scenario.name != name and _is_as_it_is(result, scenario)
        ),
    ]


def _same_lab(results: Sequence[CellResult], name: str) -> list[CellResult]:
    """A scenario's cells, and those of the same lab: every cell is stored under one name."""
    mine = [result for result in results if result.cell.scenario.name == name]
    if not mine:
        return []
    scenario = newest(mine).cell.scenario
    shared = [
        (result, result.cell.model_copy(update={"scenario": scenario}))
        for result in results
        if result.cell.scenario.name != name and result.cell.scenario.objectives == scenario.objectives
    ]
    return [*mine, *(replace(result, cell=cell) for result, cell in shared if lab_digest(cell) == result.cell.compiled)]


def _is_as_it_is(result: CellResult, scenario: Scenario) -> bool:
    """Whether a cell is of a pair of a scenario, as it is and on the same path, drawn values aside."""
    cell = result.cell
    among = cell.client.name in scenario.clients and cell.server.name in scenario.servers
    return among and cell.virtual_time and not cell.parameters and cell.scenario.every_path == scenario.every_path
