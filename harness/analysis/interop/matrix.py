"""All pairs of client and server over all test cases: their results, and the disagreements of two matrices. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.analysis.interop.registry import CASES
from harness.analysis.interop.verdict import ResultWord
from harness.outcome import InteropCheck
from harness.scenario.parameters import Role

Pair = tuple[str, str]
"""Client and server."""
Party = tuple[Role, str]
"""An implementation in one of its roles."""


@dataclass(frozen=True)
class Failure:
    """Where a failure shows: in which run, at which packet, and the endpoints' last log lines."""

    run: str
    """KEY/REPETITION."""
    check: InteropCheck | None = None
    """The first check that failed, with the first wrong packet; None if the run broke off, and all checks held."""
    log_lines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Endpoint → the last lines of its log; empty if logs are not kept."""
    progress: str = ""
    """How far a download came that did not end, and what the endpoints sent after that."""
    folder: Path | None = None
    """The run's folder."""


@dataclass(frozen=True)
class TestcaseResult:
    """The result of one pair in one test case."""

    word: ResultWord
    reason: str = ""
    sentence: str = ""
    failing_party: Party | None = None
    """The implementation that fails the case with every peer, so that the failure is reported as unsupported; else
    None.
    """
    failure: Failure | None = None
    """The failure, in all runs or in one."""

    @property
    def relabelled(self) -> bool:
        """Whether it failed, and is reported as unsupported."""
        return self.failing_party is not None

    @property
    def judged_word(self) -> ResultWord:
        """The result before it was relabelled."""
        return "failed" if self.relabelled else self.word


@dataclass(frozen=True)
class PassRate:
    """How many of a cell's runs succeeded, each with a seed of its own."""

    succeeded: int
    runs: int
    """Those that succeeded or failed."""


@dataclass(frozen=True)
class InteropMatrix:
    """Entries by pair and case; pairs and cases that were not run have none."""

    clients: tuple[str, ...]
    servers: tuple[str, ...]
    entries: Mapping[tuple[Pair, str], TestcaseResult]
    measured: Mapping[tuple[Pair, str], str] = field(default_factory=dict)
    """Measurements, as the runner's text: '9559 (± 12) kbps'."""
    rates: Mapping[tuple[Pair, str], PassRate] = field(default_factory=dict)
    """Of the pairs and cases with two or more runs that succeeded or failed."""

    def cases(self, pair: Pair) -> Iterator[tuple[str, TestcaseResult]]:
        """The cases of a pair, in the runner's order."""
        return ((case, self.entries[pair, case]) for case in CASES if (pair, case) in self.entries)

    @property
    def pairs(self) -> list[Pair]:
        """All pairs, by clients first."""
        return [(client, server) for client in self.clients for server in self.servers]

    def counts(self) -> dict[ResultWord, int]:
        """How many entries each word has."""
        words: Sequence[ResultWord] = ("succeeded", "failed", "unsupported", "inconclusive")
        return {word: sum(entry.word == word for entry in self.entries.values()) for word in words}


def relabel_unsupported(matrix: InteropMatrix) -> InteropMatrix:
    """Report a case that an implementation fails with every peer as unsupported, as the runner does (its issue 388).

    Not with only one client or one server, because then the cause is unknown.
    """
    if len(matrix.clients) < 2 or len(matrix.servers) < 2:
        return matrix
    entries = dict(matrix.entries)
    for case in CASES:
        for name in matrix.clients:
            _relabel(entries, ("client", name), [((name, server), case) for server in matrix.servers], matrix.entries)
        for name in matrix.servers:
            _relabel(entries, ("server", name), [((client, name), case) for client in matrix.clients], matrix.entries)
    return replace(matrix, entries=entries)


def _relabel(
    entries: dict[tuple[Pair, str], TestcaseResult],
    implementation: Party,
    keys: Sequence[tuple[Pair, str]],
    before: Mapping[tuple[Pair, str], TestcaseResult],
) -> None:
    run_keys = [key for key in keys if key in before]
    if len(run_keys) < 2 or any(before[key].word not in ("failed", "unsupported") for key in run_keys):
        return
    for key in run_keys:
        if before[key].word == "failed":
            entries[key] = replace(before[key], word="unsupported", failing_party=implementation)


@dataclass(frozen=True)
class Disagreement:
    """A pair and a case with different results in two matrices."""

    pair: Pair
    case: str
    ours: TestcaseResult
    theirs: TestcaseResult


def disagreements(ours: InteropMatrix, theirs: InteropMatrix) -> list[Disagreement]:
    """Entries that succeeded in one matrix and failed in the other, by pairs and cases.

    Our names that end in -qns are published images; theirs lack the suffix. A case that one side does not support, or
    could not decide, is no disagreement. A failure that was relabelled as unsupported here is a failure: the runner
    relabels nothing where its pairs run by themselves, as on its site.
    """
    conflicts = []
    for (pair, case), entry in ours.entries.items():
        published = theirs.entries.get((_published_pair(pair), case))
        if published is not None and {entry.judged_word, published.judged_word} == {"succeeded", "failed"}:
            conflicts.append(Disagreement(pair, case, entry, published))
    order = list(CASES)
    return sorted(conflicts, key=lambda conflict: (conflict.pair, order.index(conflict.case)))


def _published_pair(pair: Pair) -> Pair:
    return pair[0].removesuffix("-qns"), pair[1].removesuffix("-qns")
