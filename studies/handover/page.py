"""The rule's claims beside stored runs, and the cases that the document did not try."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.report.markdown import render_blocks, table_row
from harness.report.migration import migration_blocks
from harness.report.numbers import number_text, span_text
from harness.stats.intervals import interval
from studies.handover.claims import (
    AGAIN,
    DOCUMENT,
    FIRST,
    INITIAL,
    KEPT,
    NEAR,
    NEARLY,
    OTHERS,
    RULE,
    RULES,
    SECOND,
    SOURCE,
    TIMES,
    Case,
)
from studies.handover.compared import Ratio, by_rule, larger, ratio, values

#: Column → (metric, what its values are divided by).
_COLUMNS = {
    "window before, kB": ("cwnd_before", 1000.0),
    "after, kB": ("cwnd_after", 1000.0),
    "kept": ("cwnd_kept", 1.0),
    "first 100 ms, Mbit/s": ("handover_throughput", 1.0),
    "500 ms, MB": ("delivered_500ms", 1e6),
    "2 s, MB": ("delivered_2s", 1e6),
    "sent again without need": ("spurious_retransmissions", 1.0),
}
#: Span after the move → metric.
_SPANS = {"100 ms": "handover_throughput", "500 ms": "delivered_500ms", "2 s": "delivered_2s"}
_STACKS = ("handover/migrate", "handover/interface", "handover/nat-geo")


def handover(results: Sequence[CellResult]) -> str:
    """The page."""
    mine = [result for result in results if result.cell.scenario.name.startswith("handover/")]
    lines = [
        "# The congestion window of a client that moves",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        f"{SOURCE}: when a client's address changes, a sender has to start with its initial window again",
        f"(RFC 9000 §9.4). The document proposes to go by the round trips instead: {RULE},",
        "with the old path's least round trip and the new path's own first one. It reports that",
        f"{KEPT:.0%} of the window is kept, and nearly twice the throughput in the 100 ms from the handover on, as",
        "means of ten runs of Chromium between a 5G network and a campus.",
        "",
        "Here it is quinn's server with CUBIC inside a frame of ours, which starts with 32 packets as Chromium does",
        "(`migration_cwnd`), and a client that probes the new path and goes over to it. The ranges of rates, round",
        "trips and losses are the document's, drawn by the seed of each repetition and the same for each rule, so that",
        "what stands under `/ reset` is over pairs. Figures are medians and intervals.",
        "",
        "The client is picoquic's; on the way to the satellite it is quinn's, which loses its path, since picoquic's",
        "did not come to it by probing. ngtcp2's retires its old connection ID as soon as the new path is",
        "validated, and what it sent before comes later, by the longer path: quinn does not know that ID any more and",
        "answers with a stateless reset (RFC 9000 §10.3), which ends the connection.",
        "",
        *_case(mine, DOCUMENT),
        *_claims(mine),
        "## Cases that the document did not try",
        "",
    ]
    for case in OTHERS:
        lines += _case(mine, case)
    lines += [*_lessons(mine), *_again(mine)]
    stacks = [result for result in mine if result.cell.scenario.name in _STACKS]
    if stacks:
        lines += [
            "## What every stack does",
            "",
            "`harness report moves` prints this with the evidence behind each row. The case `migrate` has a client",
            "that probes and goes over, `interface` one that loses its path, `nat-geo` one whose port, and later whose",
            "address, is rewritten behind a satellite. *not observed* is a transfer that had ended, or a client that",
            "did not move.",
            "",
            render_blocks(migration_blocks(stacks)),
        ]
    return "\n".join(lines)


def _case(results: Sequence[CellResult], case: Case) -> list[str]:
    cell_results = by_rule(results, case.scenario)
    head = "##" if case is DOCUMENT else "###"
    lines = [
        f"{head} {case.title[0].upper()}{case.title[1:]} (`{case.scenario}`)",
        "",
        f"The document: {case.expected}.",
        "",
    ]
    if not cell_results:
        return [*lines, "No runs are stored.", ""]
    lines += [table_row(["window", "runs", *_COLUMNS, *(f"{when} / reset" for when in _SPANS)])]
    lines += [table_row(["---", *["---:"] * (len(_COLUMNS) + 1 + len(_SPANS))])]
    lines += [_row(cell_results, rule) for rule in RULES if rule in cell_results]
    return [*lines, "", *_verdicts(cell_results), ""]


def _row(results: dict[str, CellResult], rule: str) -> str:
    cells = [f"{rule}: {RULES[rule]}", str(len(results[rule].runs))]
    cells += [_median(results[rule], metric, per) for metric, per in _COLUMNS.values()]
    return table_row([*cells, *_per_reset(results, rule)])


def _median(result: CellResult, metric: str, per: float = 1.0) -> str:
    seen = [value / per for value in values(result, metric).values()]
    return span_text(interval(seen) if seen else None)


def _per_reset(results: dict[str, CellResult], rule: str) -> list[str]:
    """What is delivered in each span, per what the reset delivers."""
    cells = []
    for metric in _SPANS.values():
        made = None if rule == "reset" or "reset" not in results else ratio(results[rule], results["reset"], metric)
        cells.append("–" if made is None else span_text(made.span))
    return cells


def _verdicts(results: dict[str, CellResult]) -> list[str]:
    """What the data support, a sentence a rule."""
    said = []
    for rule in ("adaptive", "keep"):
        if rule not in results or "reset" not in results:
            continue
        made = {when: ratio(results[rule], results["reset"], metric) for when, metric in _SPANS.items()}
        parts = [
            f"{one.verdict} over {when} ({span_text(one.span)} times)" for when, one in made.items() if one is not None
        ]
        if parts:
            said.append(f"Against the reset, `{rule}` {', '.join(parts)}.")
    return [" ".join(said)] if said else []


def claim_rows(results: Sequence[CellResult]) -> list[tuple[str, str, str, str]]:
    """The document's two figures: claim, theirs, ours, verdict. None where runs lack."""
    cell_results = by_rule(results, DOCUMENT.scenario)
    if not {"adaptive", "reset"} <= set(cell_results):
        return []
    every = values(cell_results["adaptive"], "cwnd_kept")
    large = larger(cell_results["adaptive"], INITIAL)
    gains = [
        (what, ratio(cell_results["adaptive"], cell_results["reset"], "handover_throughput", only))
        for what, only in (("all runs", None), ("runs with a larger window", large))
    ]
    kept = [share for number, share in every.items() if number in large]
    return [
        ("share of the window that is kept, runs with a larger window", f"{KEPT:.0%}", *_kept(kept)),
        *(
            (f"throughput of the first 100 ms, per that of the reset, {what}", f"nearly {TIMES:g}", *_gain(gain))
            for what, gain in gains
        ),
    ]


def _claims(results: Sequence[CellResult]) -> list[str]:
    """The document's two figures, and whether the data bear them out."""
    rows = claim_rows(results)
    if not rows:
        return []
    adaptive = by_rule(results, DOCUMENT.scenario)["adaptive"]
    every, large = values(adaptive, "cwnd_kept"), larger(adaptive, INITIAL)
    return [
        "**The document's claims.** The rule has a say only where the window is larger than the initial one when the",
        f"client moves: it is in {len(large)} of {len(every)} runs, since losses of up to 5 % leave CUBIC no more.",
        "",
        table_row(["claim", "document", "here", "verdict"]),
        table_row(["---"] * 4),
        *map(table_row, rows),
        "",
    ]


def _kept(shares: list[float]) -> tuple[str, str]:
    if not shares:
        return "–", "not observed"
    span = interval(shares)
    here = span_text(span)
    if span.low - NEAR <= KEPT <= span.high + NEAR:
        return here, "borne out"
    return here, "more is kept" if span.median > KEPT else "less is kept"


def _gain(gain: Ratio | None) -> tuple[str, str]:
    if gain is None:
        return "–", "not observed"
    here = span_text(gain.span)
    if gain.span.low >= NEARLY:
        return here, "borne out"
    if gain.span.high >= NEARLY:
        return here, "neither borne out nor contradicted: the interval reaches from less to as much"
    word = "a smaller gain" if gain.verdict == "helps" else gain.verdict
    return here, f"contradicted: {word}"


def _lessons(results: Sequence[CellResult]) -> list[str]:
    """Cases by what each rule does there."""
    rows = []
    for case in (DOCUMENT, *OTHERS):
        cell_results = by_rule(results, case.scenario)
        if "reset" not in cell_results:
            continue
        told = [case.title]
        for rule in ("adaptive", "keep"):
            for metric in _SPANS.values():
                made = None if rule not in cell_results else ratio(cell_results[rule], cell_results["reset"], metric)
                told.append("–" if made is None else f"{made.verdict} ({number_text(made.span.median)})")
        rows.append(table_row(told))
    if not rows:
        return []
    columns = [f"{what}, {when}" for what in ("the document's rule", "keeping all") for when in _SPANS]
    head = [table_row(["against the reset", *columns]), table_row(["---"] * (1 + len(columns)))]
    return ["## In all", "", *head, *rows, ""]


def _again(results: Sequence[CellResult]) -> list[str]:
    """What the second implementation of the rule does on the cases of the first."""
    lines = [
        "## A second implementation",
        "",
        f"So that the rule is not {FIRST}'s luck, the server of {SECOND} has it too, written anew: the crate's CUBIC",
        f"in another frame, one for each path, as the stack's RTT estimators are. Beside {FIRST}'s, on the same paths:",
        "",
    ]
    rows = []
    for case in AGAIN:
        found = {server: by_rule(results, case.scenario, server) for server in (FIRST, SECOND)}
        rows += [
            table_row(
                [
                    case.title,
                    rule,
                    server,
                    str(len(cells[rule].runs)),
                    _median(cells[rule], "cwnd_kept"),
                    *_per_reset(cells, rule),
                ]
            )
            for rule in RULES
            for server, cells in found.items()
            if rule in cells and found[SECOND]
        ]
    if not rows:
        return [*lines, "No runs are stored.", ""]
    head = ["case", "window", "server", "runs", "kept", *(f"{when} / reset" for when in _SPANS)]
    return [*lines, table_row(head), table_row(["---"] * 3 + ["---:"] * (len(head) - 3)), *rows, ""]
