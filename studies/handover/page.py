"""The rule's claims beside stored runs, and the cases that the document did not try."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count, format_list
from harness.report.markdown import render_blocks, table_row
from harness.report.migration import migration_blocks
from harness.report.numbers import number_text, span_text
from harness.stats.intervals import interval
from studies import FIGURE, list_items
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
#: Verdict of a ratio → what a rule does, in a sentence; the other verdicts are verbs already.
_WORDS = {
    "no difference is shown": "is not shown to differ",
    "one run tells nothing": "has one run, which tells nothing,",
}
_STACKS = ("handover/migrate", "handover/interface", "handover/nat-geo")

#: Claim, the document's figure, ours, verdict.
ClaimRow = tuple[str, str, str, str]


def handover(results: Sequence[CellResult]) -> str:
    """The page."""
    mine = [result for result in results if result.cell.scenario.name.startswith("handover/")]
    claims = claim_rows(mine)
    lines = [
        "# The congestion window of a client that moves",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        *list_items(_summary(mine, claims)),
        FIGURE,
        "",
        f"The document is {SOURCE}.",
        "When a client's address changes, a sender has to start with its initial window again (RFC 9000 §9.4).",
        "The document proposes to use the round trips instead:",
        "",
        "```",
        RULE,
        "```",
        "",
        "`RTT_old` is the old path's least round trip, and `RTT_new` is the new path's own first one.",
        f"The document reports that {KEPT:.0%} of the window is kept.",
        f"It also reports nearly {TIMES:g} times the throughput in the first 100 ms after the handover.",
        "These are means of ten runs of Chromium between a 5G network and a campus.",
        "",
        "Here the server is quinn's, with CUBIC inside a frame of ours (`migration_cwnd`).",
        "It starts with 32 packets, as Chromium does. The client probes the new path and goes over to it.",
        "The rates, round trips and losses have the document's ranges.",
        "The seed of each repetition draws them, and they are the same for each rule.",
        "The columns `/ reset` therefore compare pairs of runs. Figures are medians and intervals.",
        "",
        "The client is picoquic's. On the way to the satellite it is quinn's, which loses its path.",
        "The reason is that picoquic's client did not come to the satellite by probing.",
        "A client of ngtcp2 retires its old connection ID as soon as the new path is validated.",
        "The packets that it sent before arrive later, by the longer path.",
        "The server of quinn does not know that ID any more.",
        "It answers with a stateless reset (RFC 9000 §10.3), which ends the connection.",
        "",
        *_case(mine, DOCUMENT),
        *_claims(mine, claims),
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
            "The command `harness report moves` prints this with the evidence behind each row. The cases are:",
            "",
            "* `migrate`: the client probes the new path and goes over to it.",
            "* `interface`: the client loses its path.",
            "* `nat-geo`: the client is behind a satellite. Its port is rewritten, and later its address.",
            "",
            "*Not observed* means that the transfer had ended, or that the client did not move.",
            "*Changed* is what the server saw. A completed row without a gap had no data on the new path:",
            "the client tried that one, and the transfer ended on the old one.",
            "",
            render_blocks(migration_blocks(stacks)),
        ]
    return "\n".join(lines)


def _summary(results: Sequence[CellResult], claims: Sequence[ClaimRow]) -> list[str]:
    """What was found, in at most six sentences."""
    texts = []
    if claims:
        (_, document_kept, kept, kept_verdict), (_, document_gain, gain, gain_verdict) = claims[:2]
        texts += [
            f"The document's rule keeps {kept} of a window that is larger than the initial one. The document reports "
            f"{document_kept} ({kept_verdict}).",
            f"It has {gain} times the throughput of the reset in the first 100 ms. The document reports "
            f"{document_gain} times ({gain_verdict}).",
        ]
    for rule, words in (("adaptive", "The document's rule"), ("keep", "Keeping all of the window")):
        verdicts = {
            case.title: _spans_verdicts(by_rule(results, case.scenario), rule).get("2 s")
            for case in (DOCUMENT, *OTHERS)
        }
        known = {title: verdict for title, verdict in verdicts.items() if verdict is not None}
        if known:
            helped = [title for title, verdict in known.items() if verdict == "helps"]
            where = f": {'; '.join(helped)}" if helped else ""
            texts.append(f"{words} helps over 2 s in {len(helped)} of {format_count(len(known), 'case')}{where}.")
    return texts


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
    """What the data support, an item a rule. The columns `/ reset` have the figures."""
    items = []
    for rule in ("adaptive", "keep"):
        spans: dict[str, list[str]] = {}
        for when, verdict in _spans_verdicts(results, rule).items():
            spans.setdefault(_WORDS.get(verdict, verdict), []).append(when)
        items += [f"* `{rule}` {words} over {format_list(whens)}." for words, whens in spans.items()]
    return ["Against the reset:", "", *items] if items else []


def _spans_verdicts(results: dict[str, CellResult], rule: str) -> dict[str, str]:
    """Span → what the data support of a rule against the reset."""
    if rule not in results or "reset" not in results:
        return {}
    ratios = {when: ratio(results[rule], results["reset"], metric) for when, metric in _SPANS.items()}
    return {when: of.verdict for when, of in ratios.items() if of is not None}


def claim_rows(results: Sequence[CellResult]) -> list[ClaimRow]:
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


def _claims(results: Sequence[CellResult], claims: Sequence[ClaimRow]) -> list[str]:
    """The document's two figures, and whether the data bear them out."""
    if not claims:
        return []
    adaptive = by_rule(results, DOCUMENT.scenario)["adaptive"]
    every, large = values(adaptive, "cwnd_kept"), larger(adaptive, INITIAL)
    return [
        "**The document's claims.** The rule matters only if the window is larger than the initial one when the client",
        f"moves. It is larger in {len(large)} of {len(every)} runs, because losses of up to 5 % leave CUBIC no more.",
        "",
        table_row(["claim", "document", "here", "verdict"]),
        table_row(["---"] * 4),
        *map(table_row, claims),
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
        f"The server of {SECOND} has the rule too, so that the result is not {FIRST}'s luck.",
        "It is written anew: the crate's CUBIC in another frame, one for each path, as the stack's RTT estimators are.",
        f"The table has it beside {FIRST}'s, on the same paths:",
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
