"""docs/interop.md: the test cases, what they check and how they differ from the runner's, and what stored runs show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from harness.analysis.interop import declared_checks
from harness.analysis.interop.matrix import InteropMatrix, PassRate
from harness.analysis.interop.registry import (
    CASES,
    DISABLED,
    FOLDER,
    MEASUREMENTS,
    WEBTRANSPORT_CASES,
    WEBTRANSPORT_FOLDER,
    case_of,
)
from harness.analysis.interop.responsibility import find_blame
from harness.evaluation.cell_result import CellResult, pair_of
from harness.formatting import format_count, format_list
from harness.report.document import Paragraph
from harness.report.interop import (
    RESULT_LEGEND,
    checks_document,
    failure_blocks,
    grid,
    matrix_of,
    pass_rate,
    rate_blocks,
    rate_text,
    testcase_cells,
)
from harness.report.markdown import render_blocks, render_markdown, table_row
from harness.report.results import effort_summary
from harness.report.studies import Drawing
from harness.scenario.parameters import ROLES, Role
from harness.scenario.schema import ONE_SIDED, TESTCASES, Implementation, Scenario, TestcaseName
from harness.stats.intervals import interval
from studies import findings
from studies.charts import Axis, Mark, draw_rows
from tools.reference.study_pages import image_line

_HEAD = """\
# Interop

Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md), [the
scenarios](../scenarios/interop), and the [declarations of checks](../harness/analysis/interop/checks.py).
"""
_METHOD = """
## How it is done

The test cases of [the QUIC interop runner](https://github.com/quic-interop/quic-interop-runner) are scenarios here.
Endpoints are asked by its contract (TESTCASE, REQUESTS), so that its images play as they are. Frames are captured
whole on both sides of the path, packets are decrypted with the secrets that endpoints write down (SSLKEYLOGFILE), and
each check is a function over them. A failure names the first wrong packet: its number in the capture at its sender's
side, and its time. What cannot be told without secrets is inconclusive. An empty place of the grid was not run: stacks
outside the default matrix run with each other, picoquic, quic-go and quiche.

```
make interop                                                     # everyone with everyone, in virtual time
harness run interop/retry --clients quic-go --servers quinn --engine virtual
harness report interop                                           # the grid, and what failed and why
harness report interop --from result.json                        # beside a published one, with where the two disagree
harness report interop --result-json > result.json               # as the runner writes it
harness report interop --result-json --logs night > result.json  # and the logs and captures that its links name
harness report interop --checks                                  # what checks of a scenario can demand
harness run interop/handshakeloss --repeat 20 --engine virtual   # how often a pair succeeds where chance decides
harness interop judge logs/                                      # a log directory of the runner's run.py, judged here
```

`harness interop judge` reads the captures and secrets that the runner keeps of each run, and says which requirement
failed at which packet. Downloaded files are not compared, since those logs do not have them.

An implementation that fails a case with every peer counts as unsupported there, as the runner has it, and has a mark
of its own. What a check finds is judged from what each endpoint sent, seen at its own side of the path: packets that
the path dropped or damaged were sent.
"""
_OWN = """
Three more have no counterpart in the runner:

* [ecn/red](../scenarios/ecn/red.yaml), both told `ecn`: RED marks datagrams, and the receiver counts the marks back. It
  is for whoever takes `ecn`.

In two the client is told `zerortt`, and the server something else:

* [early-data/behind-retry](../scenarios/early-data/behind-retry.yaml), server `retry`: a Retry answers early data.
* [early-data/rejected](../scenarios/early-data/rejected.yaml), server `zerortt-rejected`: the server accepts early data
  in no connection after the first. The word is the lab's own. A server that does not know it ends with 127; quic-go,
  quinn and noq know it.
"""
#: The columns that all tables of test cases begin with.
_CASE_COLUMNS = ["", "case", "what it is", "TESTCASE", "checks"]
_WEBTRANSPORT = """
## WebTransport

```
harness run webtransport
```

The runner's seven test cases over WebTransport, with its words for endpoints. webtransport-go is our client and server
over the library of quic-go, and chromium-webtransport a page in headless Chromium. Whoever receives files asks for
them; the other end is told `transfer`.
"""
_DIFFERENCES = """
## How they differ from the runner's

The runner is quic-interop-runner at commit 1d6f655 of 2026-04-06, its simulator quic-network-simulator at e557a54 of
2025-11-18.

* Virtual time: the same seed gives the same packets, and no other load has a part in it.
* Verdicts come from exit codes, files and packets. There they come from what the console printed, and the exit code of
  either endpoint counts. Its time-outs include the start of the containers.
* A link that is not the one asked for makes a run inconclusive. So does a check whose condition never arose: it says
  *not exercised*.
* Times of faults count from the client's first datagram. There they count from the start of the simulator.
* Three datagrams in a row at most are dropped, as there (since August 2024).
* A damaged datagram reaches the receiver here. There it has been dropped since September 2024, so that cases of damage
  are cases of loss: L1 and L2 are these. C1 and C2 are the harder ones here. A damaged datagram has no UDP checksum,
  and the byte is changed by a value that is drawn for each place and run.
* Files have the same bytes on every machine, and names of their own.
* A failure with every peer is ⊘ here, and counts as unsupported, as it does where one run of the runner has them all.
  On its site nothing is relabelled, since its pairs run by themselves. `--from` compares failures as failures.

{checks}
"""


_IMAGES = """
## What the images here take

c as a client, s as a server; of anything else an image ends with 127. keyupdate is told to clients alone,
connectionmigration to servers alone. The contract has HTTP/0.9 (ALPN hq-interop) in every test case but
http3, so that what speaks HTTP/3 alone has http3 alone: ngtcp2, of which Debian has the example programs for HTTP/3 and
no others, curl, and Caddy. `harness check NAME` tries each of these, and the refusals.
"""


#: Cases in which chance decides.
_CHANCE = ("handshakeloss", "transferloss", "handshakecorruption", "transfercorruption")
_ROLES = ("as a client", "as a server")
#: The most cases that a sentence names.
_MAX_CASES = 3


def interop_page(
    scenarios: Sequence[Scenario],
    implementations: Sequence[Implementation],
    results: Sequence[CellResult],
    drawn: Collection[str] = (),
) -> str:
    """The page. `scenarios`, `implementations`: all; those of test cases are taken, and of the latter what is built
    here and speaks QUIC. `drawn`: files of figures that are there.
    """
    by_name = {scenario.name: scenario for scenario in scenarios}
    matrix = matrix_of(results)
    lines = [
        _HEAD,
        *findings(_sentences(matrix, results)),
        *filter(None, [image_line(SUCCESSES.caption, SUCCESSES.file, drawn)]),
    ]
    if matrix.entries:
        lines.append(render_blocks([Paragraph(f"{RESULT_LEGEND}."), grid(matrix)]).rstrip("\n"))
    lines.append(_METHOD)
    judged = [result for result in testcase_cells(results) if case_of(result.cell.scenario.name) is not None]
    if judged:
        lines += [f"{effort_summary(judged)}; to decrypt and judge them is not in it.", ""]
    if failures := render_blocks([*failure_blocks(matrix), *rate_blocks(matrix)]):
        lines += ["## What failed, and why", "", failures]
    lines += ["## Test cases", ""]
    lines += [table_row([*_CASE_COLUMNS, "what is chosen"]), table_row(["---"] * 6)]
    for name, abbreviation in (CASES | MEASUREMENTS).items():
        scenario = by_name[FOLDER + name]
        note = "Disabled in the runner. " if name in DISABLED else ""
        chosen = (note + scenario.description).strip()
        lines.append(table_row([*_case(name, abbreviation, scenario, FOLDER), chosen]))
    lines.append(_OWN.rstrip("\n"))
    lines += [_WEBTRANSPORT, *_webtransport_table(by_name, results)]
    lines += [
        "",
        "## Checks",
        "",
        render_markdown(checks_document(list(declared_checks().values()))).rstrip("\n"),
    ]
    lines.append(_IMAGES)
    lines += _images(
        [
            implementation
            for implementation in implementations
            if implementation.build is not None and implementation.tested and implementation.speaks_quic
        ]
    )
    lines.append(_DIFFERENCES.format(checks="\n".join(_stricter())))
    return "\n".join(lines)


def _sentences(matrix: InteropMatrix, results: Sequence[CellResult]) -> Iterator[str]:
    """What the grid shows, in at most six sentences."""
    entries, counts = matrix.entries, matrix.counts()
    if not entries:
        return
    relabelled = sum(entry.relabelled for entry in entries.values())
    unexercised, chance = (
        sum(entry.reason == reason for entry in entries.values()) for reason in ("not_exercised", "flaky")
    )
    yield f"{counts['succeeded']:,} of {len(entries):,} cells (a pair in a test case) succeed."
    yield (
        f"{counts['failed']:,} fail, {relabelled:,} more fail with every peer, "
        f"{counts['unsupported'] - relabelled:,} are unsupported, and {counts['inconclusive']:,} inconclusive "
        f"({unexercised:,} of them not exercised, {chance:,} by chance: some seeds succeed)."
    )
    taken = {
        pair: words
        for pair in matrix.pairs
        if (words := [entry.judged_word for _, entry in matrix.cases(pair) if entry.judged_word != "unsupported"])
    }
    clean = {pair: len(words) for pair, words in taken.items() if set(words) == {"succeeded"}}
    most = max(clean.values(), default=0)
    examples = format_list([" → ".join(pair) for pair, count in clean.items() if count == most])
    yield (
        f"{len(clean)} of {format_count(len(taken), 'pair')} succeed in every case that both take"
        + (f"; {examples} in the most ({most})." if clean else ".")
    )
    failures = [(place, entry) for place, entry in entries.items() if entry.judged_word == "failed"]
    blames = [find_blame(pair, case, entry) for (pair, case), entry in failures]
    whose = Counter(None if blame is None else blame.whose for blame in blames)
    frequent = Counter(CASES[case] for (_, case), _ in failures).most_common(_MAX_CASES)
    if failures:
        yield f"Most failures are in {format_list([f'{name} ({count})' for name, count in frequent])}."
        unexplained = f"nobody has looked into {whose[None]}" if whose[None] else "none is without an explanation"
        yield (
            f"{whose['implementation']} of {len(failures)} failures look to be an implementation's, "
            f"{whose['endpoint']} our endpoints', and {unexplained}."
        )
    rates = {
        name: _total(
            pass_rate(result) for result in testcase_cells(results) if case_of(result.cell.scenario.name) == name
        )
        for name in _CHANCE
    }
    shown = [f"{CASES[name]} {rate_text(rate)}" for name, rate in rates.items() if rate.runs]
    if shown:
        yield f"Where packets are lost or damaged, runs succeed so often (95 %, Wilson): {format_list(shown)}."


def _successes(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of the share of its cells in which each implementation succeeds, by its role; None without runs."""
    entries = matrix_of(results).entries
    succeeded: dict[tuple[str, str], list[bool]] = {}
    for (pair, _), entry in entries.items():
        if entry.judged_word != "unsupported":
            for name, role in zip(pair, _ROLES, strict=True):
                succeeded.setdefault((name, role), []).append(entry.judged_word == "succeeded")
    marks = [
        Mark(name, role, interval([sum(outcomes) / len(outcomes)])) for (name, role), outcomes in succeeded.items()
    ]
    least = {mark.row: min(other.span.median for other in marks if other.row == mark.row) for mark in marks}
    return draw_rows(
        sorted(marks, key=lambda mark: (least[mark.row], mark.row)),
        Axis("of the cells that both take", alt.Scale(domainMax=1), alt.Axis(format="%", grid=True, tickCount=6)),
        "Test cases that succeed",
        ["a cell is a pair in a test case"],
        _ROLES,
    )


#: The figure of the page.
SUCCESSES = Drawing("interop-successes.svg", "In how many of its cells each implementation succeeds", _successes)


def _total(rates: Iterable[PassRate]) -> PassRate:
    pairs = [(rate.succeeded, rate.runs) for rate in rates]
    return PassRate(sum(succeeded for succeeded, _ in pairs), sum(runs for _, runs in pairs))


def _stricter() -> Iterator[str]:
    """The table of checks that ask something else than the runner's."""
    yield table_row(["check", "here", "there, and why"])
    yield table_row(["---"] * 3)
    for check in declared_checks().values():
        if check.upstream:
            yield table_row([f"`{check.name}`", check.title, check.upstream])


def _webtransport_table(scenarios: Mapping[str, Scenario], results: Sequence[CellResult]) -> Iterator[str]:
    """The test cases over WebTransport, and what came of each pair of the stored runs."""
    yield table_row([*_CASE_COLUMNS, "results"])
    yield table_row(["---"] * 6)
    for name, abbreviation in WEBTRANSPORT_CASES.items():
        full_name = WEBTRANSPORT_FOLDER + name
        outcomes = [
            f"{' → '.join(pair_of(result.cell))}: {_passed_text(result)}"
            for result in results
            if result.cell.scenario.name == full_name
        ]
        yield table_row(
            [*_case(name, abbreviation, scenarios[full_name], WEBTRANSPORT_FOLDER), format_list(outcomes) or "not run"]
        )


def _passed_text(result: CellResult) -> str:
    """'succeeded', or the sentence that says why not."""
    return "succeeded" if result.verdict.status == "pass" else result.verdict.sentence


def _case(name: str, abbreviation: str, scenario: Scenario, folder: str) -> list[str]:
    """The cells of a test case below _CASE_COLUMNS."""
    arguments = scenario.testcase_of("client"), scenario.testcase_of("server")
    testcase = (
        f"`{arguments[0]}`" if arguments[0] == arguments[1] else f"client `{arguments[0]}`, server `{arguments[1]}`"
    )
    checks = ", ".join(f"`{check}: {str(value).lower()}`" for check, value in scenario.checks.items())
    title = scenario.title.removesuffix(f" ({abbreviation})")
    link = f"[{name}](../scenarios/{folder}{name}.yaml)"
    return [abbreviation, link, title, testcase, checks]


def _images(implementations: Sequence[Implementation]) -> Iterator[str]:
    """The table of what images take, and a list of why they refuse the rest."""
    yield table_row(["", *(f"`{name}`" for name in TESTCASES)])
    yield table_row(["---"] * (1 + len(TESTCASES)))
    for implementation in implementations:
        yield table_row([implementation.name, *(_roles_taking(implementation, name) for name in TESTCASES)])
    yield ""
    for implementation in implementations:
        for refusal in implementation.refuses:
            cases = ", ".join(f"`{name}`" for name in refusal.testcases)
            roles = [role for role in refusal.roles if role in implementation.roles]
            alone = f" as a {roles[0]}" if len(roles) < len(implementation.roles) else ""
            yield f"* {implementation.name} refuses {cases}{alone}: {refusal.why}."


def _roles_taking(implementation: Implementation, testcase: TestcaseName) -> str:
    """'c s': the roles in which an image takes a test case."""
    asked: tuple[Role, ...] = (ONE_SIDED[testcase],) if testcase in ONE_SIDED else ROLES
    return " ".join(role[0] for role in asked if not implementation.refusal(role, testcase)) or "–"
