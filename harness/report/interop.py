"""The interop matrix: clients down, servers across, test cases by their abbreviations; what failed, and why.

Of failures: who seems responsible, the first wrong packet, and endpoints' last log lines.
"""

from __future__ import annotations

import math
import shlex
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.analysis.interop.matrix import (
    Disagreement,
    Failure,
    InteropMatrix,
    Pair,
    Party,
    PassRate,
    TestcaseResult,
    disagreements,
    relabel_unsupported,
)
from harness.analysis.interop.registry import CASES, FOLDER, MEASUREMENTS, PATH_CHECKS, Check, case_of
from harness.analysis.interop.responsibility import Blame, Responsibility, find_blame
from harness.analysis.interop.runner_json import to_document
from harness.analysis.interop.runner_logs import JudgedRun
from harness.analysis.interop.verdict import SENDER_SIDE, ResultWord, run_result
from harness.capture.artefacts import CAPTURE, KEYS, endpoint_path, last_log_lines
from harness.capture.files import ARCHIVE
from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count
from harness.outcome import InteropCheck, VerdictStatus
from harness.report.diagnosis import failure_sentence
from harness.report.document import (
    SENTENCE_WIDTH,
    Block,
    Column,
    Details,
    Document,
    LineBreak,
    Medium,
    Paragraph,
    Phrase,
    Row,
    Span,
    Table,
    Verbatim,
    join_phrases,
)
from harness.scenario.parameters import ROLES
from harness.stats.intervals import share_interval

SCHEMA = 1
_WORDS: dict[VerdictStatus, ResultWord] = {"pass": "succeeded", "fail": "failed", "unsupported": "unsupported"}
#: Result of a test case → its symbol, and the style of it.
RESULT_MARKS: dict[ResultWord, tuple[str, str]] = {
    "succeeded": ("✓", "green"),
    "failed": ("✗", "red"),
    "unsupported": ("–", "dim"),
    "inconclusive": ("?", "yellow"),
}
#: Of a failure that is reported as unsupported, since an implementation fails the case with every peer.
RELABELLED_MARK = ("⊘", "red")
#: The most failures that are explained one by one.
_MAX_EXPLAINED = 6
#: Minimum width of a folded reason.
_WHY_WIDTH = 30
RESULT_LEGEND = "✓ succeeded, ✗ failed, ⊘ fails with every peer, – unsupported, ? inconclusive"


def testcase_cells(results: Sequence[CellResult]) -> list[CellResult]:
    """The cells of test cases and measurements, without parameters of their own."""
    names = {f"{FOLDER}{name}" for name in (*CASES, *MEASUREMENTS)}
    return [result for result in results if result.cell.scenario.name in names and not result.cell.parameters]


def empty_reason(results: Sequence[CellResult]) -> str:
    """Why cells make no matrix; empty where they make one."""
    if testcase_cells(results):
        return ""
    names = {f"{FOLDER}{name}" for name in (*CASES, *MEASUREMENTS)}
    scenarios = sorted({result.cell.scenario.name for result in results} - names)
    if len(scenarios) == 1:
        return f"{scenarios[0]} is none of the interop runner's test cases"
    if scenarios:
        return (
            f"none of {len(scenarios)} scenarios, {scenarios[0]} among them, is one of the interop runner's test cases"
        )
    return "all stored cells of these test cases have parameters of their own, and the runner asks for none"


def matrix_of(results: Sequence[CellResult]) -> InteropMatrix:
    """Build the matrix of the cells. A case that an implementation fails with everybody counts as unsupported."""
    cells = testcase_cells(results)
    pairs = [(result.cell.client.name, result.cell.server.name) for result in cells]
    entries: dict[tuple[Pair, str], TestcaseResult] = {}
    measured: dict[tuple[Pair, str], str] = {}
    rates: dict[tuple[Pair, str], PassRate] = {}
    for pair, result in zip(pairs, cells, strict=True):
        case = case_of(result.cell.scenario.name)
        if case is not None:
            if (rate := pass_rate(result)).runs > 1:
                rates[pair, case] = rate
            verdict = result.verdict
            entries[pair, case] = TestcaseResult(
                result_word(result), verdict.reason, verdict.sentence, failure=_failure(result)
            )
        elif result.verdict.status == "pass" and (details := _details(result)):
            measured[pair, result.cell.scenario.name.removeprefix(FOLDER)] = details
    clients, servers = (tuple(sorted({pair[index] for pair in pairs})) for index in (0, 1))
    return relabel_unsupported(InteropMatrix(clients, servers, entries, measured, rates))


def pass_rate(result: CellResult) -> PassRate:
    """How many of a cell's runs succeeded, of those that succeeded or failed."""
    words = Counter(run_result(run, measured).word for run, measured in result.runs)
    return PassRate(words["succeeded"], words["succeeded"] + words["failed"])


def result_word(result: CellResult) -> ResultWord:
    """What a test case came to, as the runner calls it."""
    return _WORDS.get(result.verdict.status, "inconclusive")


def _failure(result: CellResult) -> Failure | None:
    """The failure in the first run that failed."""
    for (run, measured), folder in zip(result.runs, result.folders, strict=True):
        verdict = run_result(run, measured)
        if verdict.word == "failed":
            unfinished, endings = ((), ()) if measured is None else (measured.unfinished, measured.endings)
            progress = " ".join(
                failure_sentence(transfer, [end for end in endings if end.flow == transfer.flow])
                for transfer in unfinished
            )
            return Failure(run.name, verdict.check, last_log_lines(folder, run), progress, folder)
    return None


def _details(result: CellResult) -> str:
    """Goodput as the runner writes it: mean and deviation of the runs, kbit/s."""
    values = [value * 1000 for value in result.values("goodput", 0, "first")]
    if not values:
        return ""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.0f} (± {spread:.0f}) kbps"


def _result_mark(entry: TestcaseResult) -> tuple[str, str]:
    """The symbol of a result, and its style."""
    return RELABELLED_MARK if entry.relabelled else RESULT_MARKS[entry.word]


def _cases_by_mark(matrix: InteropMatrix, pair: Pair) -> Iterator[tuple[tuple[str, str], str]]:
    """(mark, abbreviations) of a pair."""
    succeeded, failed, *remaining_marks = RESULT_MARKS.values()
    for mark in (succeeded, failed, RELABELLED_MARK, *remaining_marks):
        if cases := [CASES[case] for case, entry in matrix.cases(pair) if _result_mark(entry) == mark]:
            yield mark, " ".join(cases)


def _summary(matrix: InteropMatrix) -> str:
    relabelled = sum(entry.relabelled for entry in matrix.entries.values())
    notes = {"unsupported": f" ({relabelled} of them fail with every peer)"} if relabelled else {}
    return ", ".join(f"{count} {word}{notes.get(word, '')}" for word, count in matrix.counts().items() if count)


def interop_document(matrix: InteropMatrix, published: InteropMatrix | None = None) -> Document:
    """The grid, what failed, and where a published matrix disagrees."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "clients": list(matrix.clients),
        "servers": list(matrix.servers),
        "counts": matrix.counts(),
        "entries": [_entry(pair, case, entry) for pair in matrix.pairs for case, entry in matrix.cases(pair)],
        "measurements": [
            {"client": client, "server": server, "measurement": name, "details": details}
            for ((client, server), name), details in matrix.measured.items()
        ],
    }
    if matrix.rates:
        data["rates"] = [_rate_data(pair, case, rate) for (pair, case), rate in matrix.rates.items()]
    blocks = [Paragraph(f"{_summary(matrix)}. {RESULT_LEGEND}."), grid(matrix), *failure_blocks(matrix)]
    blocks += rate_blocks(matrix)
    if published is not None:
        mismatches = disagreements(matrix, published)
        data["disagreements"] = [_disagreement(mismatch) for mismatch in mismatches]
        blocks += [
            Paragraph(f"Published: {_summary(published)}.", medium="terminal"),
            replace(grid(published), medium="terminal"),
            Paragraph(f"{len(mismatches)} disagreements with the published matrix."),
            _disagreements_table(mismatches),
        ]
    return Document(data, blocks)


def grid(matrix: InteropMatrix) -> Table:
    """Clients down, servers across, cases by their marks."""
    columns = [Column("client ↓ server →", identifies=True), *(Column(name, text=12) for name in matrix.servers)]
    return Table(columns, [Row([name, *_grid_cells(matrix, name)]) for name in matrix.clients])


def _grid_cells(matrix: InteropMatrix, client: str) -> Iterator[Phrase]:
    for server in matrix.servers:
        words = [
            Span(f"{symbol} {text}", style=style) for (symbol, style), text in _cases_by_mark(matrix, (client, server))
        ]
        yield join_phrases(words, LineBreak())


# --- How often a case succeeds where chance decides: runs with different seeds.


def rate_blocks(matrix: InteropMatrix) -> list[Block]:
    """A grid per case with several runs a pair: how many succeeded, and the interval of the chance to."""
    blocks: list[Block] = []
    for case, abbreviation in CASES.items():
        rates = {pair: rate for (pair, named), rate in matrix.rates.items() if named == case}
        if not rates:
            continue
        total = PassRate(sum(rate.succeeded for rate in rates.values()), sum(rate.runs for rate in rates.values()))
        certain = sum(rate.succeeded == rate.runs for rate in rates.values())
        text = (
            f": {total.succeeded} of {total.runs} runs succeeded; {certain} of {format_count(len(rates), 'pair')} "
            "always did. Every run has a seed of its own. In brackets: Wilson's interval of 95 %."
        )
        title = f"How often {abbreviation} ({case}) succeeds"
        blocks += [Paragraph((Span(title, strong=True), text)), _rate_grid(rates)]
    return blocks


def _rate_grid(rates: Mapping[Pair, PassRate]) -> Table:
    clients, servers = (sorted({pair[index] for pair in rates}) for index in (0, 1))
    columns = [Column("client ↓ server →", identifies=True), *(Column(name, text=8) for name in servers)]
    rows = [
        Row([client, *(rate_text(rates[client, name]) if (client, name) in rates else "" for name in servers)])
        for client in clients
    ]
    return Table(columns, rows)


def rate_text(rate: PassRate) -> str:
    """'17/20 (64–95 %)'; ends are rounded outwards."""
    low, high = share_interval(rate.succeeded, rate.runs)
    return f"{rate.succeeded}/{rate.runs} ({math.floor(100 * low)}–{math.ceil(100 * high)} %)"


def _rate_data(pair: Pair, case: str, rate: PassRate) -> dict[str, Any]:
    low, high = share_interval(rate.succeeded, rate.runs)
    return {
        "client": pair[0],
        "server": pair[1],
        "case": case,
        "succeeded": rate.succeeded,
        "runs": rate.runs,
        "interval": [round(low, 4), round(high, 4)],
    }


def _disagreements_table(mismatches: Sequence[Disagreement]) -> Table:
    columns = [
        Column("case"),
        Column("pair", identifies=True),
        Column("here"),
        Column("there"),
        Column("why", text=_WHY_WIDTH),
    ]
    rows = [
        Row(
            [
                CASES[item.case],
                " → ".join(item.pair),
                item.ours.judged_word,
                item.theirs.judged_word,
                item.ours.sentence,
            ]
        )
        for item in mismatches
    ]
    return Table(columns, rows)


def _entry(pair: Pair, case: str, entry: TestcaseResult) -> dict[str, Any]:
    return {
        "client": pair[0],
        "server": pair[1],
        "case": case,
        "abbreviation": CASES[case],
        "result": entry.word,
        "relabelled": entry.relabelled,
        "reason": entry.reason,
        "sentence": entry.sentence,
        **_failure_data(pair, case, entry),
    }


def _disagreement(mismatch: Disagreement) -> dict[str, Any]:
    return {
        "client": mismatch.pair[0],
        "server": mismatch.pair[1],
        "case": mismatch.case,
        "here": mismatch.ours.judged_word,
        "there": mismatch.theirs.judged_word,
        "sentence": mismatch.ours.sentence,
    }


def result_json(results: Sequence[CellResult], titles: Mapping[str, str], log_folder: str) -> dict[str, Any]:
    """The runner's own document of the cells. `titles`: case → what it is.

    `log_folder`: the name of the folder of logs, which the runner's site links to below its own; empty for none.
    """
    cells = testcase_cells(results)
    urls = {
        implementation.name: implementation.project
        for cell in cells
        for implementation in (cell.cell.client, cell.cell.server)
    }
    start_times = [datetime.fromisoformat(run.started_at).timestamp() for cell in cells for run, _ in cell.runs]
    wall_times = [run.wall for cell in cells for run, _ in cell.runs]
    start = min(start_times, default=0.0)
    end = max((run_start + wall for run_start, wall in zip(start_times, wall_times, strict=True)), default=0.0)
    return to_document(matrix_of(results), titles, urls, start, end, log_folder)


# --- What did not succeed.


_OWNER_TITLES: dict[Responsibility | None, str] = {
    "implementation": "What looks like a bug of an implementation, or something that it does not have",
    "endpoint": "What looks to be our endpoints' doing",
    "case": "What the test case cannot ask of a pair",
    None: "What nobody has looked into",
}
#: Number of different sentences that say why an implementation fails with everybody.
_MAX_SENTENCES = 2
_UNSEEN_TITLE = "Moves that nobody saw: a single path was used"
_EVERYBODY_TITLE = "What an implementation fails with every peer, which counts as unsupported"


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
    def unseen_move(self) -> str:
        """What a check saw of a client that was to change its path, and stayed on one; empty for any other failure.

        A path that was used has a packet, which the check's failure names.
        """
        check = None if self.entry.failure is None else self.entry.failure.check
        return check.sentence if check is not None and check.check in PATH_CHECKS and check.packet is None else ""

    @property
    def where(self) -> str:
        return " → ".join(self.pair)

    @property
    def word(self) -> str:
        return "unsupported (fails with every peer)" if self.entry.relabelled else self.entry.word


def _failed_entries(matrix: InteropMatrix) -> list[_FailedEntry]:
    """Failed, inconclusive and relabelled entries, by pair and case."""
    return [
        _FailedEntry(pair, case, entry)
        for pair in matrix.pairs
        for case, entry in matrix.cases(pair)
        if entry.word in ("failed", "inconclusive") or entry.relabelled
    ]


def failure_blocks(matrix: InteropMatrix) -> list[Block]:
    """A terminal has a row a failure; a page has a part per responsible party, each finding with all its pairs."""
    failures = _failed_entries(matrix)
    if not failures:
        return []
    by_chance = {place for place, rate in matrix.rates.items() if 0 < rate.succeeded < rate.runs}
    unseen_moves = [failure for failure in failures if failure.finding is None and failure.unseen_move]
    # Chance decides where some runs succeed: how often is a table of its own.
    unattributed = [
        failure
        for failure in failures
        if failure.finding is None and not failure.unseen_move and (failure.pair, failure.case) not in by_chance
    ]
    everybody_groups = _group_by_everybody([failure for failure in unattributed if failure.entry.relabelled])
    unexplained = [failure for failure in unattributed if not failure.entry.relabelled]
    blocks: list[Block] = [_failures_table(failures, "terminal")]
    for owner, title in _OWNER_TITLES.items():
        section = unexplained if owner is None else [failure for failure in failures if failure.whose == owner]
        if section:
            table = _failures_table(section, "markdown") if owner is None else _findings_table(section)
            chance = sum((failure.pair, failure.case) in by_chance for failure in section)
            more = f", and {chance} more that {'fails' if chance == 1 else 'fail'} in some runs only" if chance else ""
            blocks += [_part_title(title, f" ({len(section) - chance}{more})."), table]
    if unseen_moves:
        blocks += [_part_title(_UNSEEN_TITLE, f" ({len(unseen_moves)})."), _unseen_moves_table(unseen_moves)]
    if everybody_groups:
        note = f" ({sum(map(len, everybody_groups))}; nobody has looked into it)."
        blocks += [_part_title(_EVERYBODY_TITLE, note), _everybody_table(everybody_groups)]
    # On a page one failure of a group represents it.
    representatives = [*unexplained, *unseen_moves[:1], *(group[0] for group in everybody_groups)]
    return [
        *blocks,
        *(_explanations(failures) if len(failures) <= _MAX_EXPLAINED else []),
        *_last_words(failures, "terminal"),
        *_last_words(representatives, "markdown"),
    ]


def _explanations(failures: Sequence[_FailedEntry]) -> list[Block]:
    """What is known of each failure: how far it came, whose it looks to be, and where to look on."""
    blocks: list[Block] = []
    for failure in failures:
        record, finding = failure.entry.failure, failure.finding
        if record is None:
            continue
        owner = f"{finding.whose}, {finding.implementation} as a {finding.role}: {finding.why}" if finding else ""
        facts = {
            "what": " ".join(filter(None, [failure.entry.sentence, record.progress])),
            "whose": owner or "nobody has looked into it",
            "run": str(record.folder) if record.folder is not None and record.folder.exists() else record.run,
            "open": frame_command(record),
        }
        lines = [f"{name:5}  {text}" for name, text in facts.items() if text]
        blocks += [
            Paragraph(f"{CASES[failure.case]} {failure.where}:", medium="terminal"),
            *(Paragraph(line, medium="terminal") for line in lines),
        ]
    return blocks


def frame_command(failure: Failure) -> str:
    """The command that shows a failure's first wrong packet in Wireshark, decrypted; empty where it has none, or where
    the run's captures were not kept.
    """
    if failure.check is None or failure.check.sender is None or failure.folder is None:
        return ""
    folder, capture = failure.folder, failure.folder / CAPTURE[SENDER_SIDE[failure.check.sender]]
    archive = capture.parent / ARCHIVE
    endpoints = [folder / endpoint_path(0, role) for role in ROLES]
    if capture.exists():
        return _wireshark_command(failure.check, capture, endpoints)
    if not archive.exists():
        return ""
    unpacked = Path("/tmp") / capture.name
    extraction = f"tar --zstd -xOf {shlex.quote(str(archive))} {capture.name} > {unpacked}"
    return f"{extraction} && {_wireshark_command(failure.check, unpacked, endpoints)}"


def _wireshark_command(check: InteropCheck, capture: Path, endpoints: Sequence[Path]) -> str:
    """`endpoints`: the folders of both endpoints, one of which has the secrets."""
    keys = next((file for folder in endpoints if (file := folder / KEYS).exists()), None)
    options = "" if keys is None else f" -o tls.keylog_file:{shlex.quote(str(keys))}"
    return f"wireshark{options} -g {check.packet} {shlex.quote(str(capture))}"


def _part_title(title: str, note: str) -> Paragraph:
    return Paragraph((Span(title, strong=True), note), medium="markdown")


def _failures_table(failures: Sequence[_FailedEntry], medium: Medium) -> Table:
    columns = [
        Column("case"),
        Column("pair", identifies=True),
        Column("result"),
        Column("whose", medium="terminal"),
        Column("why", text=_WHY_WIDTH),
    ]
    rows = [
        Row(
            [
                CASES[failure.case],
                failure.where,
                failure.word,
                failure.whose or "",
                Span(failure.entry.sentence, quoted=True),
            ]
        )
        for failure in failures
    ]
    return Table(columns, rows, "What did not succeed" if medium == "terminal" else "", medium)


def _findings_table(failures: Sequence[_FailedEntry]) -> Table:
    """A row per finding: implementation, failure, reason, cases and pairs, and the sentence of the first.

    Implementations with the same finding share a row.
    """
    rows = []
    by_finding: dict[Blame, list[_FailedEntry]] = {}
    for failure in failures:
        if (finding := failure.finding) is not None:
            by_finding.setdefault(replace(finding, implementation=""), []).append(failure)
    for finding, members in sorted(by_finding.items(), key=lambda item: _first_name(item[1])):
        places = ", ".join(f"{CASES[failure.case]} {failure.where}" for failure in members)
        names = sorted({failure.finding.implementation for failure in members if failure.finding is not None})
        implementation = f"{', '.join(names)} as a {finding.role}"
        example = (f"{members[0].where}: ", Span(members[0].entry.sentence, quoted=True))
        cases = ", ".join(CASES[case] for case in finding.cases)
        fails = Span(finding.reason, code=True) if finding.reason else cases
        rows.append(Row([implementation, fails, finding.why, places, example]))
    columns = [Column(heading) for heading in ("who", "fails", "why", "where it shows", "seen there")]
    return Table(columns, rows, medium="markdown")


def _first_name(failures: Sequence[_FailedEntry]) -> str:
    """The implementation of a group that comes first, with what sorts its findings."""
    return min(f"{finding.implementation} {finding}" for failure in failures if (finding := failure.finding))


def _unseen_moves_table(failures: Sequence[_FailedEntry]) -> Table:
    """One row of all moves that the other side never saw: which cases, with whom, and what each check saw."""
    cases = ", ".join(CASES[case] for case in CASES if any(failure.case == case for failure in failures))
    places = ", ".join(f"{CASES[failure.case]} {failure.where}" for failure in failures)
    sentences = sorted({failure.unseen_move for failure in failures})
    row = Row([cases, places, Span("; ".join(sentences), quoted=True)])
    return Table([Column(heading) for heading in ("case", "pairs", "why")], [row], medium="markdown")


def _everybody_table(groups: Sequence[Sequence[_FailedEntry]]) -> Table:
    """A row per group: with whom, and why. Each sentence appears once, the most frequent first."""
    rows = []
    for group in groups:
        assert group[0].entry.failing_party is not None
        role, name = group[0].entry.failing_party
        peers = ", ".join(failure.pair[1 if role == "client" else 0] for failure in group)
        sentences = Counter(failure.entry.sentence for failure in group).most_common(_MAX_SENTENCES)
        why = join_phrases([Span(sentence, quoted=True) for sentence, _ in sentences], " ")
        rows.append(Row([CASES[group[0].case], f"{name} as a {role}", peers, why]))
    return Table([Column(heading) for heading in ("case", "who", "with", "why")], rows, medium="markdown")


def _last_words(failures: Sequence[_FailedEntry], medium: Medium) -> list[Block]:
    """The endpoints' last lines of each failure, where they are kept."""
    blocks: list[Block] = []
    for failure in failures:
        # A line begins with its endpoint's name, so that none of them can end the block.
        if lines := _last_lines(failure.entry):
            label = f"{CASES[failure.case]} {failure.where}, {_run_label(failure.entry)}"
            blocks += [Paragraph(f"{label}:"), Verbatim(lines)]
    return [Details("What the endpoints said last", blocks, medium)] if blocks else []


def _run_label(entry: TestcaseResult) -> str:
    return f"run {entry.failure.run}" if entry.failure is not None else ""


def _last_lines(entry: TestcaseResult) -> list[str]:
    """'client0| text' of each of the last lines."""
    if entry.failure is None:
        return []
    return [f"{name}| {text}" for name, lines in entry.failure.log_lines.items() for text in lines]


def _group_by_everybody(failures: Sequence[_FailedEntry]) -> list[list[_FailedEntry]]:
    """Group failures by case and by the implementation that fails it with everybody, in the order of the cases."""

    def place(failure: _FailedEntry) -> tuple[int, Party]:
        assert failure.entry.failing_party is not None
        return list(CASES).index(failure.case), failure.entry.failing_party

    return [list(group) for _, group in groupby(sorted(failures, key=place), key=place)]


def _failure_data(pair: Pair, case: str, entry: TestcaseResult) -> dict[str, Any]:
    """An entry's failure as data: run, check with its packet, last lines, and who seems responsible."""
    finding = find_blame(pair, case, entry) if entry.word != "succeeded" else None
    content: dict[str, Any] = {}
    if entry.failure is not None:
        check = entry.failure.check
        content["failure"] = {
            "run": entry.failure.run,
            "progress": entry.failure.progress,
            "check": None if check is None else check.model_dump(mode="json"),
            "words": {name: list(lines) for name, lines in entry.failure.log_lines.items()},
        }
    if finding is not None:
        content["finding"] = asdict(finding)
    return content


# --- What the checks of test cases can demand.


def checks_document(checks: Sequence[Check]) -> Document:
    """A row per check, from the declaration beside its code."""
    columns = [
        Column("check", identifies=True, code=True),
        Column("takes"),
        Column("what it demands", text=SENTENCE_WIDTH),
        Column("exercised by", text=SENTENCE_WIDTH),
        Column("source", text=SENTENCE_WIDTH),
        Column("needs secrets"),
    ]
    rows = [
        Row(
            [
                check.name,
                _accepted_values(check),
                check.title,
                check.exercised_by,
                check.source,
                "yes" if check.needs_keys else "",
            ]
        )
        for check in checks
    ]
    data = [
        {
            "name": check.name,
            "takes": check.value_kind,
            "words": list(check.words),
            "demands": check.title,
            "exercised_by": check.exercised_by,
            "upstream": check.upstream,
            "source": check.source,
            "needs_secrets": check.needs_keys,
        }
        for check in checks
    ]
    title = "What the checks of a scenario can demand (checks: {NAME: value})"
    return Document({"schema": 1, "checks": data}, [Paragraph(title, medium="terminal"), Table(columns, rows)])


def _accepted_values(check: Check) -> Phrase:
    """The values that a check takes: words, or a kind of value."""
    return join_phrases([Span(word, code=True) for word in check.words], " or ") if check.words else check.value_kind


# --- Runs of the published runner, judged by the checks here.


def judged_document(judged: Sequence[JudgedRun]) -> Document:
    """A row per run of the runner, and of each failure where to look on."""
    columns = [
        Column("case", identifies=True),
        Column("client"),
        Column("server"),
        Column("result"),
        Column("why", text=_WHY_WIDTH),
    ]
    rows = [
        Row(
            [
                " ".join(filter(None, [item.run.case, item.run.repetition])),
                item.run.client,
                item.run.server,
                Span(f"{RESULT_MARKS[item.word][0]} {item.word}", style=RESULT_MARKS[item.word][1]),
                Span(item.sentence, quoted=True),
            ]
        )
        for item in judged
    ]
    commands = [(item.run.name, command) for item in judged if (command := _runner_frame_command(item))]
    counts = Counter(item.word for item in judged)
    data = {
        "schema": SCHEMA,
        "counts": {word: counts[word] for word in RESULT_MARKS},
        "runs": [
            {
                "client": item.run.client,
                "server": item.run.server,
                "case": item.run.case,
                "repetition": item.run.repetition,
                "folder": str(item.run.folder),
                "result": item.word,
                "sentence": item.sentence,
                "exit_codes": {str(role): code for role, code in item.exit_codes.items()},
                "checks": [check.model_dump(mode="json") for check in item.checks],
            }
            for item in judged
        ],
    }
    summary = ", ".join(f"{counts[word]} {word}" for word in RESULT_MARKS if counts[word])
    return Document(
        data,
        [
            Paragraph(f"{summary}."),
            Table(columns, rows),
            *(Paragraph(f"{name}: {command}", medium="terminal") for name, command in commands),
        ],
    )


def _runner_frame_command(judged: JudgedRun) -> str:
    check = next((check for check in judged.checks if check.status == "failed" and check.sender is not None), None)
    if check is None or check.sender is None:
        return ""
    folder = judged.run.folder
    return _wireshark_command(check, folder / CAPTURE[SENDER_SIDE[check.sender]], [folder / role for role in ROLES])
