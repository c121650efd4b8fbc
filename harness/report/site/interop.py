"""The page of the interop matrix: clients in rows, servers in columns, every test case of every pair. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.analysis.interop.matrix import InteropMatrix, Pair, TestcaseResult
from harness.analysis.interop.registry import CASES, case_of
from harness.analysis.interop.responsibility import find_blame
from harness.analysis.interop.verdict import ResultWord
from harness.evaluation.cell_result import CellResult
from harness.report.interop import RELABELLED_MARK, matrix_of, testcase_cells
from harness.report.results import SYMBOLS
from harness.report.site.cell import cell_address

#: Result of a test case → the verdict whose colour and symbol it has.
_STATUS: Final[dict[ResultWord, str]] = {
    "succeeded": "pass",
    "failed": "fail",
    "unsupported": "unsupported",
    "inconclusive": "inconclusive",
}


@dataclass(frozen=True)
class TestcaseSquare:
    """A test case of a pair."""

    case: str
    short: str
    """The runner's abbreviation."""
    word: ResultWord
    status: str
    """The verdict whose colour it has."""
    symbol: str
    address: str
    """Address of its cell's page."""
    why: str
    """The reason, a sentence; empty for a success."""


@dataclass(frozen=True)
class ClientRow:
    """A client's row: a tuple of squares for every server, in the runner's order; empty where nothing was run."""

    client: str
    squares: tuple[tuple[TestcaseSquare, ...], ...]


@dataclass(frozen=True)
class Case:
    """A test case over all pairs."""

    name: str
    short: str
    title: str
    counts: tuple[tuple[ResultWord, str, str, int], ...]
    """(word, its verdict, its symbol, number of pairs), without zeros."""


@dataclass(frozen=True)
class Miss:
    """A test case that a pair supports, but that did not succeed."""

    square: TestcaseSquare
    pair: str
    whose: str
    """The side at fault: the implementation, or this project's endpoint; empty where nobody has investigated it."""


@dataclass(frozen=True)
class InteropPage:
    """The page."""

    servers: tuple[str, ...]
    lines: tuple[ClientRow, ...]
    cases: tuple[Case, ...]
    misses: tuple[Miss, ...]
    counts: tuple[tuple[ResultWord, str, str, int], ...]


def cells_on_page(results: Sequence[CellResult]) -> dict[tuple[Pair, str], CellResult]:
    """The cells on the page, by pair and test case; the later one of two cells with the same."""
    return {
        ((result.cell.client.name, result.cell.server.name), case): result
        for result in testcase_cells(results)
        if (case := case_of(result.cell.scenario.name)) is not None
    }


def interop_page(results: Sequence[CellResult]) -> InteropPage | None:
    """The page of these cells; None where none belongs to a test case."""
    matrix = matrix_of(results)
    if not matrix.entries:
        return None
    cells = cells_on_page(results)
    titles = {case: result.cell.scenario.title for (_, case), result in cells.items()}

    def squares(pair: Pair) -> tuple[TestcaseSquare, ...]:
        return tuple(
            _build_square(case, entry, cell_address(cells[pair, case].cell)) for case, entry in matrix.cases(pair)
        )

    lines = tuple(
        ClientRow(client, tuple(squares((client, server)) for server in matrix.servers)) for client in matrix.clients
    )
    cases = [(name, short) for name, short in CASES.items() if name in titles]
    return InteropPage(
        servers=matrix.servers,
        lines=lines,
        cases=tuple(Case(name, short, titles[name], _counts(_of_case(matrix, name))) for name, short in cases),
        misses=tuple(_misses(matrix, lines)),
        counts=_counts(matrix.entries),
    )


def _build_square(case: str, entry: TestcaseResult, place: str) -> TestcaseSquare:
    status = _STATUS[entry.word]
    why = "" if entry.word == "succeeded" else entry.sentence
    if entry.relabelled:
        why = f"Fails with every peer. {why}"
    symbol = RELABELLED_MARK[0] if entry.relabelled else SYMBOLS[status][0]
    return TestcaseSquare(case, CASES[case], entry.word, status, symbol, place, why)


def _of_case(matrix: InteropMatrix, case: str) -> Mapping[tuple[Pair, str], TestcaseResult]:
    return {place: entry for place, entry in matrix.entries.items() if place[1] == case}


def _counts(entries: Mapping[tuple[Pair, str], TestcaseResult]) -> tuple[tuple[ResultWord, str, str, int], ...]:
    words = Counter(entry.word for entry in entries.values())
    return tuple((word, status, SYMBOLS[status][0], words[word]) for word, status in _STATUS.items() if words[word])


def _misses(matrix: InteropMatrix, lines: Sequence[ClientRow]) -> Iterator[Miss]:
    for line in lines:
        for server, squares in zip(matrix.servers, line.squares, strict=True):
            pair = (line.client, server)
            for square in squares:
                entry = matrix.entries[pair, square.case]
                if square.word in ("failed", "inconclusive") or entry.relabelled:
                    finding = find_blame(pair, square.case, entry)
                    yield Miss(square, " → ".join(pair), "" if finding is None else finding.whose)
