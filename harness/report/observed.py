"""What runs show of parameters, beside what was asked of their endpoints. Pure.

A run's observations (`harness.analysis.metrics.observed`) may come from several files. Where one of them agrees with
what was asked, the others are left out (`harness.outcome.deviations`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.evaluation.cell_result import CellResult
from harness.outcome import Observation
from harness.outcome.deviations import find_deviations
from harness.planning.sweep import full_names
from harness.report.document import SENTENCE_WIDTH, Column, Row, Span, Table
from harness.report.parameters import observed_value_text
from harness.scenario.parameters import PARAMETERS, ROLES, ParameterValue

#: The text where no file of a run shows a parameter.
NOT_SEEN = "not seen"


@dataclass(frozen=True)
class ObservedLevel:
    """One value that was asked of a parameter, and what the cells with it show."""

    parameter: str
    """With its role: server.initial_cwnd."""
    asked: ParameterValue
    cells: int
    """Measured cells in which it was asked."""
    observed: Mapping[str, int]
    """Text of a value → number of cells that show it, the commonest first; `NOT_SEEN` for none."""
    deviating: int
    """Cells that show another value than the one asked."""

    @property
    def text(self) -> str:
        """For a table: the values that were seen, each with its number of cells where there are several."""
        if not self.cells:
            return "–"
        if len(self.observed) == 1:
            return next(iter(self.observed))
        return ", ".join(f"{value} in {count}" for value, count in self.observed.items())


def observed_text(result: CellResult, varied: Sequence[str]) -> str:
    """What the last run shows of the varied endpoint parameters: 'server.congestion_control cubic'.

    'not seen' where no file of the run shows a parameter.
    """
    texts = []
    for full in endpoint_names(varied):
        values = _values(result, full) if full in result.cell.parameters else None
        if values is not None:
            parameter = full.partition(".")[2]
            seen = dict.fromkeys(observed_value_text(parameter, value) for value in values)
            texts.append(f"{full} {' or '.join(seen) or NOT_SEEN}")
    return ", ".join(texts) or "–"


def endpoint_names(names: Iterable[str]) -> list[str]:
    """Those names that are parameters of an endpoint, each with its role."""
    every = dict.fromkeys(full for name in names for full in full_names(name))
    return [full for full in every if full.partition(".")[0] in ROLES and full.partition(".")[2] in PARAMETERS]


def observed_levels(results: Iterable[CellResult], names: Iterable[str] = ()) -> list[ObservedLevel]:
    """Every value that was asked of endpoint parameters, with what was seen of it, in the order of first cells.

    `names`: the parameters; all that the cells set without.
    """
    every = list(results)
    order = list(names) or list(dict.fromkeys(name for result in every for name in sorted(result.cell.parameters)))
    return [
        _level(full, asked, [result for result in every if result.cell.parameters.get(full) == asked])
        for full in endpoint_names(order)
        for asked in dict.fromkeys(result.cell.parameters[full] for result in every if full in result.cell.parameters)
    ]


def observed_table(levels: Sequence[ObservedLevel]) -> Table:
    """The levels as rows."""
    columns = [
        Column("parameter", identifies=True),
        Column("asked", identifies=True, right=True),
        Column("observed", text=SENTENCE_WIDTH),
        Column("cells", right=True),
        Column("not as asked", right=True),
    ]
    rows = []
    for level in levels:
        deviating = Span(f"{level.deviating}", style="yellow" if level.deviating else "")
        rows.append(Row([Span(level.parameter, code=True), str(level.asked), level.text, str(level.cells), deviating]))
    return Table(columns, rows)


def level_data(level: ObservedLevel) -> dict[str, Any]:
    """A level for `--json`."""
    return {**asdict(level), "observed": dict(level.observed)}


def observed_by_implementation(results: Iterable[CellResult]) -> list[tuple[str, ObservedLevel]]:
    """The levels of each implementation that was asked, as (implementation, level), parameter by parameter."""
    every = list(results)
    names = endpoint_names(sorted({name for result in every for name in result.cell.parameters}))
    rows = []
    for full in names:
        groups: dict[str, list[CellResult]] = {}
        for result in every:
            groups.setdefault(_asked_implementation(result, full), []).append(result)
        rows += [(name, level) for name, group in sorted(groups.items()) for level in observed_levels(group, [full])]
    return rows


def _asked_implementation(result: CellResult, full: str) -> str:
    cell = result.cell
    return (cell.client if full.startswith("client.") else cell.server).name


def _level(full: str, asked: ParameterValue, results: Sequence[CellResult]) -> ObservedLevel:
    every = [values for result in results if (values := _values(result, full)) is not None]
    numbers = [value for values in every for value in values if not isinstance(value, str)]
    parameter = full.partition(".")[2]
    counts: Counter[str] = Counter()
    for values in every:
        words = [value for value in values if isinstance(value, str)]
        if len(words) < len(values):
            words.append(_range_text(parameter, min(numbers), max(numbers)))
        counts[" or ".join(dict.fromkeys(words)) or NOT_SEEN] += 1
    deviating = sum(
        any(deviation.name == full for run, measured in result.runs for deviation in find_deviations(run, measured))
        for result in results
    )
    return ObservedLevel(full, asked, len(every), dict(counts.most_common()), deviating)


def _range_text(parameter: str, low: float, high: float) -> str:
    texts = dict.fromkeys(observed_value_text(parameter, value) for value in (low, high))
    return " to ".join(texts)


def _values(result: CellResult, full: str) -> list[float | str] | None:
    """What the last run shows of one endpoint parameter; None for a cell without a measured run."""
    last = result.last
    if last is None or last[1] is None:
        return None
    role, _, parameter = full.partition(".")
    seen = [item for item in last[1].observed if (item.role, item.parameter) == (role, parameter)]
    asked = result.cell.parameters.get(full)
    agreeing = [item for item in seen if asked is not None and _agrees(parameter, asked, item)]
    return list(dict.fromkeys(item.value for item in agreeing or seen))


def _agrees(parameter: str, asked: ParameterValue, seen: Observation) -> bool:
    definition = PARAMETERS[parameter]
    return definition.agrees(definition.canonical(asked), seen.value) is True
