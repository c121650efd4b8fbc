"""Parameters: those of a table's cells, the vocabulary of all, and the defaults in force.

Of a table's cells those that vary become columns, and shared ones go into its title.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from harness.evaluation.cell_result import CellResult
from harness.outcome import Cell, Observation
from harness.planning.sweep import is_path_name
from harness.report.document import SENTENCE_WIDTH, Block, BulletList, Column, Document, Paragraph, Row, Span, Table
from harness.scenario.parameters import PARAMETERS, ROLES, ParameterValue, Role
from harness.scenario.schema import Implementation
from harness.units import Duration, Percentage, QueueSize, Rate, Size


@dataclass(frozen=True)
class RequestedParameters:
    """Parameters requested of the cells of one table."""

    varied: tuple[str, ...]
    """Names that differ between the cells, the columns of the table."""
    shared: Mapping[str, ParameterValue]
    """Names that all cells have, with their one value."""
    joined: bool
    """A name without a role stands for both of them."""

    def cells(self, cell: Cell) -> list[str]:
        """One cell's entries in the columns; a dash where nothing was requested."""
        table = _merge_roles(cell.parameters) if self.joined else cell.parameters
        return [str(table.get(name, "–")) for name in self.varied]

    @property
    def suffix(self) -> str:
        """The shared parameters, for a title: ', server.congestion_control bbr'; empty for nothing."""
        return "".join(f", {name} {value}" for name, value in self.shared.items())


def requested_parameters(cells: Sequence[Cell]) -> RequestedParameters:
    """Split the parameters of cells into varied and shared ones."""
    tables = [_merge_roles(cell.parameters) for cell in cells]
    joined = len({frozenset(table) for table in tables}) <= 1
    if not joined:
        # Some cells set both roles alike, others set one of them. Names with roles distinguish these.
        tables = [dict(cell.parameters) for cell in cells]
    names = list(dict.fromkeys(name for table in tables for name in sorted(table, key=_order)))
    varied = [name for name in names if len({table.get(name) for table in tables}) > 1]
    shared = {name: value for name, value in (tables[0] if tables else {}).items() if name not in varied}
    return RequestedParameters(tuple(varied), shared, joined)


def sort_key(cell: Cell) -> tuple[object, ...]:
    """Sort key for the cells of one table: by parameter values, small before large."""
    return tuple((name, *_sort_value(value), str(value)) for name, value in sorted(cell.parameters.items()))


def _merge_roles(parameters: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """role.NAME → value, with NAME alone where both roles have the same value."""
    table: dict[str, ParameterValue] = {}
    for full_name, value in parameters.items():
        name = full_name.partition(".")[2]
        both = name in PARAMETERS and all(parameters.get(f"{role}.{name}") == value for role in ROLES)
        table[name if both else full_name] = value
    return table


def _order(name: str) -> tuple[int, str]:
    """The path first, then the endpoints."""
    return (0 if is_path_name(name) else 1, name)


def _sort_value(value: ParameterValue) -> tuple[str, float]:
    """A word and a number to sort a value by: what it is called or measured in, and its amount."""
    text = str(value)
    discipline, _, limit = text.partition(" ")
    if discipline == "RED":
        return discipline, _sort_value(limit)[1]
    for kind in (Rate, Duration, Size, Percentage):
        with suppress(ValueError):
            return "", float(kind.parse(text).value)
    with suppress(ValueError):
        return "", float(QueueSize.parse(text).amount)
    with suppress(ValueError):
        return "", float(value)
    return "", 0.0


# --- The defaults in force of every implementation, and whether stored runs confirm them.
#
# A default is what the manifest states. Runs in which the parameter was not set can confirm it.


#: The columns: those of N. Kuhn's table of parameters (studies/in_sequence_satellite), and others worth a column.
DEFAULT_COLUMNS = (
    "max_udp_payload",
    "initial_cwnd",
    "initial_rtt",
    "ack_ratio",
    "max_ack_delay",
    "ack_delay_exponent",
    "congestion_control",
    "connection_window",
    "stream_window",
)

ObservedValues = Mapping[tuple[str, Role, str], Sequence[Observation]]


@dataclass(frozen=True)
class Default:
    """One parameter of one implementation in one role."""

    implementation: str
    tested: bool
    """Whether anybody has run it who wrote its manifest."""
    role: Role
    parameter: str
    stated: ParameterValue | None
    observed: float | str | None
    """Median of what runs showed, or the commonest word."""
    runs: int
    """Observations it rests on."""
    confirmed: bool | None
    """Whether the two agree; None where one is missing or they cannot be compared."""
    note: str

    @property
    def text(self) -> str:
        """For a table: the default, with ✓ where runs confirm it, and what they show where they do not."""
        stated = "" if self.stated is None else str(self.stated)
        if self.confirmed:
            return f"{stated} ✓"
        if self.observed is None:
            return stated or "?"
        shown = observed_value_text(self.parameter, self.observed)
        return f"{stated} (seen {shown})" if stated else f"seen {shown}"


def observed_value_text(name: str, value: float | str) -> str:
    """An observation of a parameter, for a table: a word, ms for a duration, else a number."""
    if isinstance(value, str):
        return value
    if PARAMETERS[name].kind == "duration":
        return f"{value * 1e3:.4g} ms"
    return f"{value:.4g}" if value < 10_000 else f"{value:,.0f}"


def observations(results: Iterable[CellResult]) -> ObservedValues:
    """(implementation, role, parameter) → observations in runs that did not set it."""
    by_parameter: dict[tuple[str, Role, str], list[Observation]] = {}
    for result in results:
        names = {"client": result.cell.client.name, "server": result.cell.server.name}
        for run, measured in result.runs:
            for observation in measured.observed if measured is not None else ():
                if f"{observation.role}.{observation.parameter}" not in run.effective:
                    by_parameter.setdefault(
                        (names[observation.role], observation.role, observation.parameter), []
                    ).append(observation)
    return by_parameter


def defaults(implementations: Iterable[Implementation], observed: ObservedValues) -> list[Default]:
    """Every shown parameter of every implementation and role."""
    return [
        _default(item, role, name, observed.get((item.name, role, name), ()))
        for item in implementations
        for role in item.roles
        for name in DEFAULT_COLUMNS
    ]


def _default(item: Implementation, role: Role, name: str, evidence: Sequence[Observation]) -> Default:
    setting = item.setting(role, name)
    stated = None if setting is None else setting.default
    if stated is not None:
        stated = PARAMETERS[name].canonical(stated)
    numbers = [float(observation.value) for observation in evidence if isinstance(observation.value, float | int)]
    words = [observation.value for observation in evidence if isinstance(observation.value, str)]
    observed: float | str | None = None
    if numbers:
        observed = statistics.median(numbers)
    elif words:
        observed = Counter(words).most_common(1)[0][0]
    confirmed = None
    if stated is not None and evidence:
        # Each kind of evidence may see its own side of it. Agreement of at least half of the answers confirms.
        agreeing = [PARAMETERS[name].agrees(stated, observation.value) for observation in evidence]
        decisive = [answer for answer in agreeing if answer is not None]
        confirmed = sum(decisive) * 2 >= len(decisive) if decisive else None
    note = "" if setting is None else " ".join(setting.note.split())
    return Default(item.name, item.tested, role, name, stated, observed, len(evidence), confirmed, note)


def _rows(entries: Sequence[Default]) -> list[tuple[str, Role, list[Default]]]:
    """(name, role, its defaults). The name says whether the implementation was never run."""
    rows: dict[tuple[str, Role], list[Default]] = {}
    for entry in entries:
        name = entry.implementation + ("" if entry.tested else " (never run)")
        rows.setdefault((name, entry.role), []).append(entry)
    return [(name, role, cells) for (name, role), cells in rows.items()]


def defaults_document(entries: Sequence[Default]) -> Document:
    """The table, and the notes below it."""
    return Document({"schema": 1, "defaults": [asdict(entry) for entry in entries]}, defaults_blocks(entries))


def defaults_blocks(entries: Sequence[Default]) -> list[Block]:
    """The defaults as part of a page."""
    columns = [Column("implementation", identifies=True), Column("role", identifies=True)]
    columns += [Column(Span(name, code=True), text=SENTENCE_WIDTH) for name in DEFAULT_COLUMNS]
    rows = [Row([name, role, *(entry.text for entry in cells)]) for name, role, cells in _rows(entries)]
    title = Paragraph("defaults in force (✓ confirmed by stored runs)", medium="terminal")
    return [title, Table(columns, rows), BulletList(notes(entries), bullet="*")]


def notes(entries: Sequence[Default]) -> list[str]:
    """Notes of manifests on defaults, a line each. A note that both roles share appears once."""
    roles_by_note: dict[tuple[str, str, str], list[Role]] = {}
    for entry in entries:
        if entry.note:
            roles_by_note.setdefault((entry.implementation, entry.parameter, entry.note), []).append(entry.role)
    return [
        f"{name}{'' if len(roles) > 1 else f' as a {roles[0]}'}, {parameter}: {note}"
        for (name, parameter, note), roles in roles_by_note.items()
    ]


# --- The vocabulary of parameters as a table, generated from the model.


def vocabulary_document() -> Document:
    """Every parameter that there is."""
    names = ("name", "written", "acts", "meaning", "evidence")
    rows = [
        (parameter.name, parameter.written, parameter.acts, parameter.meaning, parameter.evidence)
        for parameter in PARAMETERS.values()
    ]
    data = {"schema": 1, "parameters": [dict(zip(names, row, strict=True)) for row in rows]}
    headings = ("written as", "whose behaviour", "meaning", "what shows that it took effect")
    columns = [
        Column("parameter", identifies=True, code=True),
        *(Column(heading, text=SENTENCE_WIDTH) for heading in headings),
    ]
    return Document(data, [Table(columns, [Row(row) for row in rows])])
