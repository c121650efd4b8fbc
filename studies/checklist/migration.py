"""Kim and Koh's rule for the congestion window of a client that moves."""

from __future__ import annotations

from collections.abc import Sequence

from harness.outcome.measured import WindowReaction
from harness.report.migration import MoveRow, rows
from harness.report.numbers import number_text, span_text
from harness.units import Duration, Rate
from studies.checklist.verdicts import (
    MISSING,
    Claim,
    Judge,
    Results,
    Status,
    Verdict,
    is_todays,
    not_applicable,
    setting,
)
from studies.handover.claims import DOCUMENT, INITIAL, KEPT, SATELLITE, TIMES
from studies.handover.compared import by_rule, ratio
from studies.handover.figures import mean_windows
from studies.handover.page import claim_rows

MIGRATE, REBIND = "handover/migrate", "handover/nat-geo"
SCENARIOS = ("handover",)
#: The document's span after the move, ms: its Figure 3 compares windows from 200 to 250 ms.
_MOVE, _UNTIL = 200.0, 250.0


def _bdp_text(results: Results) -> str:
    """The new path's bandwidth-delay product beside the window of a reset, by the ranges that are drawn."""
    found = by_rule(results, DOCUMENT.scenario)
    if not found:
        return ""
    draw = next(iter(found.values())).cell.scenario.draw
    rates = [Rate.parse(str(value)).bits_per_second for value in draw["paths.campus.forward.rate"]]
    delays = [
        sum(Duration.parse(str(draw[f"paths.campus.{way}.delay"][end])).seconds for way in ("forward", "return"))
        for end in (0, 1)
    ]
    low, high = (rate * delay / 8e3 for rate, delay in zip(rates, delays, strict=True))
    return (
        f"the new path's bandwidth-delay product is {low:.0f} to {high:.0f} kB, about the window of a reset, "
        f"{INITIAL / 1e3:.0f} kB: there is no room for a gain"
    )


def _status(text: str) -> Status:
    """The study's word for a verdict, as a status."""
    if text == "borne out":
        return "reproduced"
    if text.startswith("neither"):
        return "not decided"
    return "missing" if text == "not observed" else "contradicted"


def _row(number: int) -> Judge:
    """One of the study's rows of claims."""

    def judge(results: Results) -> Verdict:
        study_rows = claim_rows(results)
        if len(study_rows) <= number:
            return MISSING
        _, _, here, verdict = study_rows[number]
        status = _status(verdict)
        if status == "missing":
            return MISSING
        text = f"{here} times" if number else here
        if status == "reproduced":
            return Verdict(status, text)
        reason = verdict.removeprefix(f"{status}: ")
        return Verdict(status, text, f"{reason}; {_bdp_text(results)}" if number else reason)

    return judge


def _gain(scenario: str, rule: str) -> Judge:
    """What a rule delivers in the first 100 ms, per that of the reset."""

    def judge(results: Results) -> Verdict:
        found = by_rule(results, scenario)
        made = ratio(found[rule], found["reset"], "handover_throughput") if {rule, "reset"} <= found.keys() else None
        if made is None:
            return MISSING
        text = f"{span_text(made.span)} times the reset's"
        statuses: dict[str, Status] = {
            "helps": "reproduced",
            "hurts": "contradicted",
            "makes no difference": "contradicted",
            "no difference is shown": "not decided",
        }
        status = statuses.get(made.verdict, "not decided")
        return Verdict(status, text, "" if status == "reproduced" else f"{made.verdict}; {_bdp_text(results)}")

    return judge


def _larger_gap(results: Results) -> Verdict:
    """The gain from a satellite to 5G, where the paths differ most, beside the document's case."""
    spans = []
    for case in (DOCUMENT, SATELLITE):
        found = by_rule(results, case.scenario)
        made = (
            ratio(found["adaptive"], found["reset"], "delivered_500ms")
            if {"adaptive", "reset"} <= found.keys()
            else None
        )
        if made is None:
            return MISSING
        spans.append(made.span)
    near, far = spans
    text = f"over 500 ms {span_text(far)} times from a satellite, {span_text(near)} times in the document's case"
    if far.low > near.high:
        return Verdict("reproduced", text)
    return Verdict("contradicted" if far.high < near.low else "not decided", text, "see [the cases](handover.md)")


def _windows(results: Results) -> Verdict:
    """Mean windows of the rule and of the reset in the 50 ms after the move."""
    frame = mean_windows(results)
    means = {}
    for rule in ("adaptive", "reset"):
        windows = [value for name, at, value in frame.iter_rows() if name == rule and _MOVE < at <= _UNTIL]
        if not windows:
            return MISSING
        means[rule] = sum(windows) / len(windows)
    text = f"{number_text(means['adaptive'])} kB on average by the rule, {number_text(means['reset'])} kB by the reset"
    larger = means["adaptive"] > means["reset"]
    return Verdict("reproduced" if larger else "contradicted", text, "" if larger else "see [the cases](handover.md)")


def _moves(results: Results, scenario: str, move: int) -> list[MoveRow]:
    """The rows of [the moves](handover.md) of a scenario, those of runs that failed or show no move included.

    They are of virtual time and of today's releases, with no parameter set.
    """
    asked = [
        result
        for result in results
        if result.cell.scenario.name == scenario and is_todays(result.cell) and not result.cell.parameters
    ]
    return [row for row in rows(asked) if row.move == move]


def _stays(results: Results) -> Verdict:
    """Connections that end well although the client's address changed."""
    every = _moves(results, MIGRATE, 1)
    moved = [row for row in every if row.seen]
    if not moved:
        return MISSING
    ended = [row for row in moved if row.result.all_completed]
    stalled = [" → ".join((row.result.cell.client.name, row.server)) for row in moved if row not in ended]
    without = sum(row.result.interval("delivery_gap", 0, "first", move=1) is None for row in ended)
    asides = (
        f"{without} of these got no data there" if without else "",
        f"{len(every) - len(moved)} more pairs show no move" if len(every) > len(moved) else "",
    )
    whole = f"{len(ended)} of {len(moved)} pairs of QUIC end their transfer after the server saw the new address"
    text = "; ".join(filter(None, [whole, *asides]))
    return Verdict("in part" if stalled else "reproduced", text, f"not {', '.join(stalled)}" if stalled else "")


def _rebinding(move: int, window: WindowReaction) -> Judge:
    """Whether windows are kept, or start again, where a port or an address is rewritten on the way."""

    def judge(results: Results) -> Verdict:
        reactions = {row.server: row.counted("window") for row in _moves(results, REBIND, move) if row.seen}
        known = {server: reaction for server, reaction in reactions.items() if reaction != "unknown"}
        if not known:
            return MISSING
        others = sorted(server for server, reaction in known.items() if reaction != window)
        text = f"{len(known) - len(others)} of {len(known)} servers do"
        if not others:
            return Verdict("reproduced", text)
        why = f"not {', '.join(others)}"
        return Verdict("in part" if len(others) < len(known) else "contradicted", text, why)

    return judge


def claims(results: Results) -> Sequence[Claim]:
    """In the order of the document."""
    return [
        Claim(
            "Abstract", "a window that starts again at a handover costs throughput", _gain(DOCUMENT.scenario, "keep")
        ),
        Claim("Abstract", "the rule is a significant improvement", _gain(DOCUMENT.scenario, "adaptive")),
        Claim("I", "TCP ends where an address changes, QUIC goes on", _stays),
        Claim("I", "a change of the port (NAT) keeps the window", _rebinding(1, "kept")),
        Claim("I", "a change of the IP address starts it again", _rebinding(2, "reset")),
        Claim(
            "II",
            "the rule's equation; a longer new round trip means the initial window",
            setting(DOCUMENT.scenario, "`migration_cwnd: adaptive`"),
        ),
        Claim(
            "II",
            "path validation goes one way; a server waits for non-probing frames",
            not_applicable("what RFC 9000 says, without a number"),
        ),
        Claim(
            "III.A",
            "campus 150-200 Mbit/s, 1.7-3.5 ms, no loss; 5G 100-150 Mbit/s, 27-48 ms, 0-5 % loss",
            setting(DOCUMENT.scenario, "the same ranges, drawn for each repetition"),
        ),
        Claim(
            "III.A",
            "Chromium's QUIC with CUBIC; 1,250 bytes in a STREAM frame",
            not_applicable("Chromium's server is not run; quinn's and s2n-quic's CUBIC have the rule here"),
        ),
        Claim(
            "III.B", "a reset goes to 32 packets; a mean of 10 runs", setting(DOCUMENT.scenario, "32 packets, 10 runs")
        ),
        Claim("III.B, Figure 3", f"about {KEPT:.0%} of the window is kept", _row(0)),
        Claim("III.B, Figure 3", "from 200 to 250 ms the rule's window is larger, and stable sooner", _windows),
        Claim("III.C, Figure 4", f"throughput of the first 100 ms nearly doubled ({TIMES:g}), all runs", _row(1)),
        Claim("III.C, Figure 4", "the same, where the window was larger than the initial one", _row(2)),
        Claim("III.C", "with a larger difference between the paths the gain may be larger", _larger_gap),
        Claim(
            "IV",
            "one round trip may not tell the new path's bandwidth; other measurements and multipath are to come",
            not_applicable("future work"),
        ),
    ]
