"""Explain in words why a transfer failed: what was received, who was silent, how connections ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.evaluation.cell_result import CellResult
from harness.outcome import Ending, MeasuredRun, Unfinished, proven_outcome


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


def short(result: CellResult) -> str:
    """For a column; empty where nothing is known."""
    transfers = failed_transfers(result)
    return transfers[0][0].short if transfers else ""


def sentence(transfer: Unfinished, endings: Sequence[Ending]) -> str:
    """'351 kB of 1 MB came, the last at 0.4 s; the server was silent for the last 59.6 s, …'"""
    # A witness may report an end twice, in its qlog and in its log. Such an end appears once.
    distinct = {(end.witness, end.kind, end.by): end for end in reversed(endings)}
    return "; ".join([transfer.sentence, *(end.sentence for end in endings if end in distinct.values())]) + "."


def lines(results: Sequence[CellResult]) -> list[str]:
    """A sentence for each transfer that failed."""
    return [
        f"{result.name}{'' if len(transfers) == 1 else f' flow {transfer.flow} ({transfer.transfer})'}: "
        f"{sentence(transfer, endings)}"
        for result in results
        for transfers in [failed_transfers(result)]
        for transfer, endings in transfers
    ]


def report(result: CellResult) -> list[dict[str, Any]]:
    """What `--json` has of a cell whose transfers failed: the figures behind each sentence."""
    return [
        {
            **transfer.model_dump(mode="json"),
            "silent": list(transfer.silent),
            "sentence": sentence(transfer, endings),
            "endings": [end.model_dump(mode="json") for end in endings],
        }
        for transfer, endings in failed_transfers(result)
    ]
