"""Failures of an interop matrix: who seems responsible, the first wrong packet, and endpoints' last log lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.text import Text

from harness.analysis.interop.matrix import InteropMatrix, Pair, Party, TestcaseResult
from harness.analysis.interop.registry import CASES
from harness.analysis.interop.responsibility import Blame, Responsibility, find_blame
from harness.formatting import escape_stored
from harness.report.layout import Column, FittedTable, Row
from harness.report.markdown import table_row

_OWNER_TITLES: dict[Responsibility | None, str] = {
    "implementation": "What looks like a bug of an implementation, or something that it does not have",
    "endpoint": "What looks to be our endpoints' doing",
    None: "What nobody has looked into",
}
#: Number of different sentences that say why an implementation fails with everybody.
_MAX_SENTENCES = 2
_EVERYBODY_TITLE = "What an implementation fails with everybody, which counts as unsupported"


@dataclass(frozen=True)
class _FailedEntry:
    """One entry that did not succeed."""

    pair: Pair
    case: str
    entry: TestcaseResult

    @property
    def finding(self) -> Blame | None:
        return find_blame(self.pair, self.case, self.entry)

    @property
    def whose(self) -> Responsibility | None:
        return None if self.finding is None else self.finding.whose

    @property
    def where(self) -> str:
        return " → ".join(self.pair)

    @property
    def word(self) -> str:
        return "unsupported (fails with everybody)" if self.entry.relabelled else self.entry.word


def _failed_entries(matrix: InteropMatrix) -> list[_FailedEntry]:
    """Failed, inconclusive and relabelled entries, by pair and case."""
    return [
        _FailedEntry(pair, case, entry)
        for pair in matrix.pairs
        for case, entry in matrix.cases(pair)
        if entry.word in ("failed", "inconclusive") or entry.relabelled
    ]


def show(matrix: InteropMatrix, console: Console) -> None:
    """Print a table of what did not succeed, and the endpoints' last lines of each failure, where they are kept."""
    failures = _failed_entries(matrix)
    if not failures:
        return
    columns = [
        Column("case"),
        Column("pair", identifies=True),
        Column("result"),
        Column("whose"),
        Column("why", text=30),
    ]
    rows = [
        Row([CASES[failure.case], failure.where, failure.word, failure.whose or "", failure.entry.sentence])
        for failure in failures
    ]
    console.print(FittedTable("What did not succeed", columns, rows))
    with_words = [failure for failure in failures if _last_lines(failure.entry)]
    if with_words:
        console.print(Text("What the endpoints said last", style="italic"))
    for failure in with_words:
        console.print(Text(f"{CASES[failure.case]} {failure.where}, {_run_label(failure.entry)}"))
        for text in _last_lines(failure.entry):
            console.print(Text(f"  {text}", style="dim"), soft_wrap=True)


def _run_label(entry: TestcaseResult) -> str:
    return f"run {entry.failure.run}" if entry.failure is not None else ""


def _last_lines(entry: TestcaseResult) -> list[str]:
    """'client0| text' of each of the last lines."""
    if entry.failure is None:
        return []
    return [f"{name}| {text}" for name, lines in entry.failure.log_lines.items() for text in lines]


def markdown(matrix: InteropMatrix) -> list[str]:
    """Lines of a page: a part per responsible party, and each finding with all pairs that show it."""
    failures = _failed_entries(matrix)
    unattributed = [failure for failure in failures if failure.finding is None]
    everybody_groups = _group_by_everybody([failure for failure in unattributed if failure.entry.relabelled])
    unexplained = [failure for failure in unattributed if not failure.entry.relabelled]
    lines: list[str] = []
    for owner, title in _OWNER_TITLES.items():
        section = unexplained if owner is None else [failure for failure in failures if failure.whose == owner]
        if not section:
            continue
        lines += ["", f"**{title}** ({len(section)}).", ""]
        if owner is None:
            lines += [table_row(["case", "pair", "result", "why"]), table_row(["---"] * 4)]
            lines += [
                table_row([CASES[failure.case], failure.where, failure.word, _escape(failure.entry.sentence)])
                for failure in section
            ]
        else:
            lines += _finding_rows(section)
    if everybody_groups:
        lines += ["", f"**{_EVERYBODY_TITLE}** ({sum(map(len, everybody_groups))}; nobody has looked into it).", ""]
        lines += [table_row(["case", "who", "with", "why"]), table_row(["---"] * 4), *map(_group_row, everybody_groups)]
    # One failure of a group represents it.
    if with_words := [
        failure for failure in [*unexplained, *(group[0] for group in everybody_groups)] if _last_lines(failure.entry)
    ]:
        lines += ["", "<details><summary>What the endpoints said last</summary>", ""]
        for failure in with_words:
            # A line begins with its endpoint's name, so that none of them can end the block.
            lines += [
                f"{CASES[failure.case]} {failure.where}, {_run_label(failure.entry)}:",
                "",
                "```",
                *_last_lines(failure.entry),
                "```",
                "",
            ]
        lines.append("</details>")
    return lines


def _group_by_everybody(failures: Sequence[_FailedEntry]) -> list[list[_FailedEntry]]:
    """Group failures by case and by the implementation that fails it with everybody, in the order of the cases."""

    def place(failure: _FailedEntry) -> tuple[int, Party]:
        assert failure.entry.failing_party is not None
        return list(CASES).index(failure.case), failure.entry.failing_party

    return [list(group) for _, group in groupby(sorted(failures, key=place), key=place)]


def _group_row(group: Sequence[_FailedEntry]) -> str:
    """A row for such a group: with whom, and why. Each sentence appears once, the most frequent first."""
    assert group[0].entry.failing_party is not None
    role, name = group[0].entry.failing_party
    peers = ", ".join(failure.pair[1 if role == "client" else 0] for failure in group)
    sentences = Counter(failure.entry.sentence for failure in group).most_common(_MAX_SENTENCES)
    why = " ".join(_escape(sentence) for sentence, _ in sentences)
    return table_row([CASES[group[0].case], f"{name} as a {role}", peers, why])


def _finding_rows(failures: Sequence[_FailedEntry]) -> Iterator[str]:
    """Rows of findings: implementation, failure, reason, cases and pairs, and the sentence of the first."""
    yield table_row(["who", "fails", "why", "where it shows", "seen there"])
    yield table_row(["---"] * 5)
    ordered = sorted(failures, key=lambda failure: str(failure.finding))
    for finding, group in groupby(ordered, key=lambda failure: failure.finding):
        members = list(group)
        assert finding is not None
        places = ", ".join(f"{CASES[failure.case]} {failure.where}" for failure in members)
        implementation = f"{finding.implementation} as a {finding.role}"
        example = f"{members[0].where}: {_escape(members[0].entry.sentence)}"
        fails = f"`{finding.reason}`" if finding.reason else ", ".join(CASES[case] for case in finding.cases)
        yield table_row([implementation, fails, finding.why, places, example])


def _escape(text: str) -> str:
    """A sentence that may have an endpoint's own words, in a cell of a table."""
    return escape_stored(text.replace("\\", "\\\\")).replace("<", "&lt;")


def report(pair: Pair, case: str, entry: TestcaseResult) -> dict[str, Any]:
    """An entry's failure as data: run, check with its packet, last lines, and who seems responsible."""
    finding = find_blame(pair, case, entry) if entry.word != "succeeded" else None
    content: dict[str, Any] = {}
    if entry.failure is not None:
        check = entry.failure.check
        content["failure"] = {
            "run": entry.failure.run,
            "check": None if check is None else check.model_dump(mode="json"),
            "words": {name: list(lines) for name, lines in entry.failure.log_lines.items()},
        }
    if finding is not None:
        content["finding"] = asdict(finding)
    return content
