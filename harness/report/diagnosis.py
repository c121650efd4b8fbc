"""Why a transfer took as long as it did, and why one failed, in words and as data. Pure.

Of a transfer that ended: the time by state, and the excess over its objective. Of one that failed: what was received,
who was silent, how connections ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.evaluation.cell_result import CellResult, attributions, median_attribution, notable_parts
from harness.evaluation.staleness import MARK
from harness.formatting import format_beyond
from harness.outcome import (
    STATES,
    Attribution,
    Ending,
    MeasuredRun,
    State,
    StateShare,
    Unfinished,
    proven_outcome,
)
from harness.report.document import Block, Column, Paragraph, Row, Table
from harness.units import Size

#: State → its name in texts.
STATE_NAMES: dict[State, str] = {
    "handshake": "handshake",
    "request": "request and first byte",
    "slow_start": "slow start",
    "line_rate": "line rate",
    "recovery": "recovery",
    "spurious_recovery": "spurious recovery",
    "window_limited": "window-limited after slow start",
    "flow_control": "flow control",
    "buffer_limited": "buffer-limited",
    "sender_idle": "sender idle",
    "acknowledgements": "late acknowledgements",
    "probe_timeouts": "probe timeouts",
    "shared": "others had the link",
    "unexplained": "unexplained",
}
assert set(STATE_NAMES) == set(STATES)
#: Note on an attribution by an older version of the rules.
OLDER_RULES_NOTE = (
    "Where the time went was told by rules that are no longer today's: the run is still to be made again."
)


def uses_older_rules(result: CellResult) -> bool:
    """Whether `attributions` come from an older version of the rules."""
    # The import is slow, and pages alone need it.
    from harness.analysis.time_breakdown import VERSION

    median_run = median_attribution(result)
    return median_run is not None and median_run.version < VERSION


def time_text(transfer: Attribution) -> str:
    """For a column: 'slow start 3.9 s from 10 packets, recovery 2.1 s; line rate 16.1 s'."""
    shares = [
        f"{STATE_NAMES[part.state]} {_seconds_text(part)}{_note_text(part)}" for part in notable_parts(transfer)[:3]
    ]
    return "; ".join(filter(None, [", ".join(shares), f"line rate {transfer.seconds_in('line_rate'):.1f} s"]))


def time_sentence(transfer: Attribution, result: CellResult) -> str:
    """'100 MB in 24.6 s, 4.6 s over: 3.9 s in slow start from 10 packets, …; line rate for 16.1 s.'"""
    parts = [f"{_seconds_text(part)} {_state_phrase(part.state)}{_note_text(part)}" for part in notable_parts(transfer)]
    setup = transfer.seconds_in("handshake") + transfer.seconds_in("request")
    required = f"line rate for {transfer.seconds_in('line_rate'):.1f} s, handshake and request {setup:.1f} s"
    breakdown = "; ".join(filter(None, [", ".join(parts), required]))
    return f"{Size(transfer.size)} in {transfer.seconds:.1f} s{_excess_text(transfer, result)}: {breakdown}."


def excess_seconds(transfer: Attribution, result: CellResult) -> float | None:
    """Seconds by which the transfer exceeds its time objective. None where it meets it, or where none is set."""
    flows = len(result.cell.scenario.flows)
    if (transfer.flow, transfer.transfer) != (0, "first"):
        return None
    names = {f"milestone_{Size(transfer.size).label()}", "completion"}
    names |= {f"flow0_{name}" for name in names} if flows > 1 else set()
    bounds = [item.bound for item in result.verdict.objectives if item.metric in names and item.at_most]
    return transfer.seconds - min(bounds) if bounds and transfer.seconds > min(bounds) else None


def _excess_text(transfer: Attribution, result: CellResult) -> str:
    excess = excess_seconds(transfer, result)
    return "" if excess is None else f", {format_beyond(excess, 0, 1)} s over"


def diagnosis_blocks(results: Sequence[CellResult]) -> list[Block]:
    """A table of the pairs that miss an objective, the slowest first: the excess, and where the time went.

    Pairs whose runs failed follow, with the last line of their log. Pairs with the same line share a row. Empty where
    there is neither.
    """
    late = [
        (transfers[0], result)
        for result in results
        if result.verdict.status == "fail" and (transfers := attributions(result))
    ]
    failed: dict[str, list[str]] = {}
    for result in sorted(results, key=lambda cell: cell.name):
        if failure := _failure(result):
            failed.setdefault(failure, []).append(result.name)
    rows = []
    for transfer, result in sorted(late, key=lambda pair: (-pair[0].seconds, pair[1].name)):
        excess = excess_seconds(transfer, result)
        too_long = "–" if excess is None else format_beyond(excess, 0, 2)
        mark = f" {MARK}" if uses_older_rules(result) else ""
        rows.append(Row([result.name, f"{transfer.seconds:.2f}", too_long, f"{time_text(transfer)}{mark}"]))
    rows += [Row([", ".join(names), "–", "–", failure]) for failure, names in failed.items()]
    if not rows:
        return []
    columns = [Column("client → server"), Column("s", right=True), Column("over", right=True), Column("because")]
    outdated = any(uses_older_rules(result) for _, result in late)
    return [Table(columns, rows), *([Paragraph(f"{MARK} {OLDER_RULES_NOTE}")] if outdated else [])]


def _failure(result: CellResult) -> str:
    """How the first failed run ended: 'crashed client: …'. Empty without one, or where there are attributions."""
    outcomes = (proven_outcome(run, measured) for run, measured in result.runs)
    failure = next((outcome for outcome in outcomes if outcome.status not in ("completed", "unsupported")), None)
    if failure is None or attributions(result):
        return ""
    if failure.failed_transfer and (reason := failure_text(result)):
        return f"{failure.status.replace('_', ' ')} {failure.role or ''}".rstrip() + f": {reason}"
    reason = (
        f": “{failure.log_tail[-1].strip()}”" if failure.log_tail else f": {failure.detail}" if failure.detail else ""
    )
    return f"{failure.status.replace('_', ' ')} {failure.role or ''}".rstrip() + reason


def _seconds_text(part: StateShare) -> str:
    return f"{part.seconds:.1f} s" if part.seconds >= 0.095 else f"{part.seconds:.2f} s"


def _note_text(part: StateShare) -> str:
    if not part.note:
        return ""
    return f" {part.note}" if part.note.startswith(("from ", "with ")) else f" ({part.note})"


def _state_phrase(state: State) -> str:
    words = {"sender_idle": "with the sender idle", "shared": "in which others had the link"}
    bare = state in ("window_limited", "buffer_limited", "unexplained")
    return words.get(state, STATE_NAMES[state] if bare else f"in {STATE_NAMES[state]}")


def time_data(result: CellResult) -> list[dict[str, Any]]:
    """Data of a cell for `--json`: an entry per transfer, times in s. `bound_without` is a bound, not a forecast."""
    return [
        {
            "flow": transfer.flow,
            "transfer": transfer.transfer,
            "seconds": transfer.seconds,
            "sentence": time_sentence(transfer, result),
            "parts": [
                {**part.model_dump(mode="json"), "bound_without": transfer.bound_without(part.state)}
                for part in transfer.parts
            ],
            "bands": transfer.bands,
        }
        for transfer in attributions(result)
    ]


#: The most transfers of a cell that have a sentence each.
_MOST_SENTENCES = 50


def time_lines(results: Sequence[CellResult]) -> list[str]:
    """A sentence per transfer of the cells that miss an objective, or that have none; of very many the first ones."""
    lines = []
    for result in results:
        if result.verdict.status not in ("fail", "measured"):
            continue
        transfers = attributions(result)
        for transfer in transfers[:_MOST_SENTENCES]:
            place = "" if len(transfers) == 1 else f" flow {transfer.flow} ({transfer.transfer})"
            lines.append(f"{result.name}{place}: {time_sentence(transfer, result)}")
        if (more := len(transfers) - _MOST_SENTENCES) > 0:
            lines.append(f"{result.name}: and {more} more transfers")
    return lines


# --- Transfers that failed.


def failed_transfers(result: CellResult) -> list[tuple[Unfinished, list[Ending]]]:
    """The transfers of the first run that failed, with the known ends of their connections.

    Empty where none failed, or nothing is known of it.
    """
    failed_runs: list[MeasuredRun] = [
        measured
        for run, measured in result.runs
        if measured is not None and measured.unfinished and proven_outcome(run, measured).failed_transfer
    ]
    if not failed_runs:
        return []
    return [
        (
            transfer,
            [end for end in failed_runs[0].endings if (end.flow, end.transfer) == (transfer.flow, transfer.transfer)],
        )
        for transfer in failed_runs[0].unfinished
    ]


def failure_text(result: CellResult) -> str:
    """For a column; empty where nothing is known."""
    transfers = failed_transfers(result)
    return transfers[0][0].short if transfers else ""


def failure_sentence(transfer: Unfinished, endings: Sequence[Ending]) -> str:
    """'351 kB of 1 MB came, the last at 0.4 s; the server was silent for the last 59.6 s, …'"""
    # A witness may report an end twice, in its qlog and in its log. Such an end appears once.
    distinct = {(end.witness, end.kind, end.by): end for end in reversed(endings)}
    return "; ".join([transfer.sentence, *(end.sentence for end in endings if end in distinct.values())]) + "."


def failure_lines(results: Sequence[CellResult]) -> list[str]:
    """A sentence for each transfer that failed."""
    return [
        f"{result.name}{'' if len(transfers) == 1 else f' flow {transfer.flow} ({transfer.transfer})'}: "
        f"{failure_sentence(transfer, endings)}"
        for result in results
        for transfers in [failed_transfers(result)]
        for transfer, endings in transfers
    ]


def failure_data(result: CellResult) -> list[dict[str, Any]]:
    """What `--json` has of a cell whose transfers failed: the figures behind each sentence."""
    return [
        {
            **transfer.model_dump(mode="json"),
            "silent": list(transfer.silent),
            "sentence": failure_sentence(transfer, endings),
            "endings": [end.model_dump(mode="json") for end in endings],
        }
        for transfer, endings in failed_transfers(result)
    ]
