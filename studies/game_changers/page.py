"""docs/studies.md: what parameters are worth, from stored runs, and what document 004 asks about them.

And docs/effects.md, with every effect of every pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from harness.doe.effects import Analysis, analyse_all
from harness.doe.effects.samples import ProfileSample, group_profiles
from harness.doe.effects.summary import metric_label, summarise
from harness.doe.minimal_settings import stored_searches
from harness.evaluation.cell_result import CellResult
from harness.report.designs import searches_blocks
from harness.report.document import Paragraph
from harness.report.effects import effects_blocks, profile_table
from harness.report.markdown import render_blocks, table_row
from harness.scenario.schema import Scenario
from harness.store.identity import lab_digest
from studies.game_changers.claims import GAME, NEAR, PATHS, QUESTIONS, SOME, SWEEPS, Question
from studies.game_changers.overview import changes_game, profiles_table, worth_table

_NONE = "No runs are stored yet."
_ONCE = "Every cell ran once: nothing here has an interval, and nothing is bold."
#: What is different on a near path: 10 MB are as many of its bandwidth-delay products as some 300 MB of a satellite's.
_LIKE = ", 20 ms, 10 MB"
_ENOUGH = (
    "Below: of how many times of {}, of pairs with several runs, a factor is worth "
    f"{GAME:.0%} or more of the median, by an interval that leaves out nothing at all."
)
_HEAD = """# Game changers

Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).

Document 004 ends on a question: which parameters are game changers? A study answers it: factors with levels, and a
design that says which of their combinations run ([the format](scenario.md#experiment)).

```
harness plan studies/fraction-50-10 --engine virtual   # cells, what a pair does not honour, aliases, disk, time
harness run studies/fraction-50-10 --engine virtual    # resumes as every run does
harness report study studies/fraction-50-10            # effects with intervals, ranked (--figures DIR draws them)
harness reach studies/reach-50-10 --engine virtual     # the fewest settings that meet the objectives (--budget 60)
```

*Worth* is how many seconds a time differs between a factor's worst level and its best, over all levels of the others.
A repetition has the same draws in all cells, of losses and of the delay's phase: it is the whole study once, and the
interval is that of the repetitions, of two of them one of 50 %. Bold: it leaves out nothing at all. What two factors do
together is half of how much more one is worth at the other's better level. A pair has the factors that it honours; the
others are absent, and `harness plan` names them.

The tables of this page have a row a server, behind picoquic's client, which can be told how it acknowledges: what each
factor is worth of each time, one after the other. **Bold** changes the game: 10 % of the time and more, by an interval
that leaves out nothing at all. · is less than a hundredth of it, – is not honoured, † is a time that some runs had not
come to when they were over: their timeout stands for it, and hides what is beyond. Intervals, which level is better,
and what two factors do together: [every effect](effects.md).
"""
_DETAILS = """# Every effect

Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md): what stands behind
[Game changers](studies.md), pair by pair, as `harness report study` prints it. Words and figures are explained there;
bold are figures whose interval leaves out nothing at all.
"""
_PROFILES = """## Document 004's columns as profiles

Its table of default parameters, told to every stack as far as it honours them: *h2o's parameters* on quinn are quinn's
code with h2o's settings. What differs between the rows of one stack is owed to settings; what differs between stacks
in one row, to code.
"""
_REACH = """## What would it take?

The fewest settings with which a pair meets all objectives: `harness reach` tries none, then every setting alone, then
sets of two and more, those first that single settings promise most of. A set is the cheapest where every cheaper one
was tried and fails; none does where every set was.
"""


def game_changers(results: Sequence[CellResult]) -> str:
    """The page."""
    mine = _mine(results)
    analyses = analyse_all(mine)
    return "\n".join(
        [
            _HEAD,
            *_questions(analyses),
            *_by_path(analyses, "fraction", "The parameter table in a fraction", _FRACTION, worth_table),
            *_by_path(analyses, "levels", "Every level alone", _LEVELS, worth_table),
            *_sweeps(analyses),
            *_heat(analyses, worth_table),
            *_profiles(group_profiles(mine), _PROFILES, profiles_table),
            *_reach(results),
        ]
    )


def every_effect(results: Sequence[CellResult]) -> str:
    """The page of details."""
    mine = _mine(results)
    analyses = analyse_all(mine)
    return "\n".join(
        [
            _DETAILS,
            *_by_path(analyses, "fraction", "The parameter table in a fraction", _FRACTION, _effects),
            *_by_path(analyses, "levels", "Every level alone", _LEVELS, _effects),
            *_heat(analyses, _effects),
            *_profiles(group_profiles(mine), "## Document 004's columns as profiles\n", _by_pair),
        ]
    )


def _mine(results: Sequence[CellResult]) -> list[CellResult]:
    return [
        result for result in results if result.cell.scenario.name.startswith("studies/") and result.cell.virtual_time
    ]


def _effects(mine: Sequence[Analysis]) -> list[str]:
    return [render_blocks(effects_blocks(mine)).rstrip("\n")]


def _by_pair(mine: Sequence[ProfileSample]) -> list[str]:
    blocks = [block for one in mine for block in (Paragraph(f"{one.client}→{one.server}:"), profile_table(one))]
    return [render_blocks(blocks).rstrip("\n")]


def _scenario(kind: str, path: str) -> str:
    return f"studies/{kind}-{path}"


def _questions(analyses: Sequence[Analysis]) -> list[str]:
    lines = ["## What document 004 asks", ""]
    for question in QUESTIONS:
        lines += [f"**{question.text}**", "", *_answer(question, analyses), ""]
    return lines


def _answer(one: Question, analyses: Sequence[Analysis]) -> list[str]:
    kinds = ("fraction", "levels", "ack-ratio-initial-rtt")
    mine = [
        analysis
        for analysis in analyses
        if _near(analysis) == one.near and (_named(analysis, kinds) or _is_sweep(analysis))
    ]
    counted = [tally for tally in tallies(mine) if not one.factors or tally.factor in one.factors]
    if not counted:
        return [_NONE]
    rows = [
        table_row(["factor", "changes the game for", "at most worth", "where"]),
        table_row(["---", "---:", "---:", "---"]),
    ]
    for each in counted:
        changed = f"{each.changes} of {each.pairs}"
        rows += [table_row([each.factor, changed, f"{each.largest_saving:.1f} s", each.largest_saving_at])]
    sizes = "2 and 10 MB on paths of 20 ms" if one.near else "2, 10 and 100 MB"
    return [f"{verdict(counted)} {_ENOUGH.format(sizes)}", "", *rows]


def verdict(counted: Sequence[Tally]) -> str:
    """What the runs answer: factors by how often they change the game."""
    often = [tally.factor for tally in counted if tally.changes >= tally.pairs / 2]
    at_times = [tally.factor for tally in counted if SOME * tally.pairs <= tally.changes < tally.pairs / 2]
    hardly = [tally.factor for tally in counted if 0 < tally.changes < SOME * tally.pairs]
    never = [tally.factor for tally in counted if not tally.changes]
    parts = {"yes, more often than not": often, "at times": at_times, "hardly": hardly, "no": never}
    text = "; ".join(f"{word}: {', '.join(map('`{}`'.format, names))}" for word, names in parts.items() if names)
    return f"{text[0].upper()}{text[1:]}."


def _near(one: Analysis) -> bool:
    return f"-{NEAR}" in one.sample.scenario.name


def _named(one: Analysis, kinds: Iterable[str]) -> bool:
    return one.sample.scenario.name.startswith(tuple(f"studies/{kind}-" for kind in kinds))


def _is_sweep(one: Analysis) -> bool:
    return one.sample.scenario.name in SWEEPS


@dataclass(frozen=True)
class Tally:
    """A factor over all pairs, paths and times."""

    factor: str
    changes: int
    """Pairs' times of which it is worth enough."""
    pairs: int
    """Those that have it."""
    largest_saving: float
    """Seconds, where it is worth most."""
    largest_saving_at: str


def tallies(analyses: Iterable[Analysis]) -> list[Tally]:
    """Every factor of these analyses, those first that change most. One repetition alone shows nothing."""
    by: dict[str, list[tuple[Analysis, float, bool]]] = {}
    for analysis in analyses:
        for effect in analysis.main_effects if any(each.saving.n > 1 for each in analysis.main_effects) else ():
            worth = abs(effect.saving.median)
            by.setdefault(effect.factors[0], []).append((analysis, worth, changes_game(effect)))
    made = []
    for factor, each in by.items():
        of, most, _ = max(each, key=lambda item: item[1])
        where = f"{metric_label(of.metric)}, {of.sample.client}→{of.sample.server}, `{of.sample.scenario.name}`"
        made.append(Tally(factor, sum(enough for _, _, enough in each), len(each), most, where))
    return sorted(made, key=lambda tally: (-tally.changes / tally.pairs, -tally.largest_saving, tally.factor))


_FRACTION = (
    "Nine factors of two levels in a fraction of resolution IV: no factor is taken for two others together; which "
    "interactions are taken for each other stands beside them."
)
_LEVELS = "One factor at a time: what a level is worth beside the base of all others, and nothing of two together."


Table = Callable[[Sequence[Analysis]], list[str]]
"""Some of a study's analyses → lines."""


def _by_path(analyses: Sequence[Analysis], kind: str, title: str, words: str, table: Table) -> list[str]:
    lines = [f"## {title}", "", words, ""]
    for start in ("", NEAR):
        for path, name in PATHS.items():
            scenario = _scenario(kind, f"{start}{path}")
            mine = [analysis for analysis in analyses if analysis.sample.scenario.name == scenario]
            lines += [f"**{name}{_LIKE if start else ''}** (`{scenario}`)", ""]
            lines += [*_tabled(mine, table), ""]
    return lines


def _tabled(mine: Sequence[Analysis], table: Table) -> list[str]:
    """What one study came to, and that it ran once where it did."""
    if not mine:
        return [_NONE]
    times = {effect.saving.n for analysis in mine for effect in analysis.main_effects}
    return [*table(mine), *(["", _ONCE] if times == {1} else [])]


def _sweeps(analyses: Sequence[Analysis]) -> list[str]:
    lines = ["## One or two factors, in full", "", "Sweeps of every value with every other.", ""]
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
    """A search's cells. Some are the same as in other studies of its path, and every cell is stored under one name.

    What a pair does as it is stands under the satellite's cases too, with more runs.
    """
    mine = [result for result in results if result.cell.scenario.name == name]
    if not mine:
        return []
    scenario = mine[0].cell.scenario
    shared = [
        (result, result.cell.model_copy(update={"scenario": scenario}))
        for result in results
        if result.cell.scenario.name != name and result.cell.scenario.objectives == scenario.objectives
    ]
    return [
        *mine,
        *(
            replace(result, cell=cell)
            for result, cell in shared
            if lab_digest(cell) == result.cell.compiled or _is_as_it_is(result, scenario)
        ),
    ]


def _is_as_it_is(result: CellResult, scenario: Scenario) -> bool:
    """Whether a cell is of a pair of a scenario, as it is and on the same path, drawn values aside."""
    cell = result.cell
    among = cell.client.name in scenario.clients and cell.server.name in scenario.servers
    return among and cell.virtual_time and not cell.parameters and cell.scenario.every_path == scenario.every_path
