"""Why a transfer that failed came no further, in words: what had come, who was silent, how connections ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.evaluation.cell_result import CellResult
from harness.outcome import Ending, MeasuredRun, Unfinished, proven_outcome


def unfinished(result: CellResult) -> list[tuple[Unfinished, list[Ending]]]:
    """The transfers of the first run that failed, with how their connections are known to have ended.

    Empty where none failed, or nothing is known of it.
    """
    failed: list[MeasuredRun] = [
        measured
        for run, measured in result.runs
        if measured is not None and measured.unfinished and proven_outcome(run, measured).failed_transfer
    ]
    if not failed:
        return []
    return [
        (one, [end for end in failed[0].endings if (end.flow, end.transfer) == (one.flow, one.transfer)])
        for one in failed[0].unfinished
    ]


def short(result: CellResult) -> str:
    """For a column; empty where nothing is known."""
    found = unfinished(result)
    return found[0][0].short if found else ""


def sentence(one: Unfinished, endings: Sequence[Ending]) -> str:
    """'351 kB of 1 MB came, the last at 0.4 s; the server was silent for the last 59.6 s, …'"""
    # Of what one witness tells twice, from its qlog and from its log, once.
    told = {(end.witness, end.kind, end.by): end for end in reversed(endings)}
    return "; ".join([one.sentence, *(end.sentence for end in endings if end in told.values())]) + "."


def lines(results: Sequence[CellResult]) -> list[str]:
    """A sentence for each transfer that failed."""
    return [
        f"{result.name}{'' if len(found) == 1 else f' flow {one.flow} ({one.transfer})'}: {sentence(one, endings)}"
        for result in results
        for found in [unfinished(result)]
        for one, endings in found
    ]


def report(result: CellResult) -> list[dict[str, Any]]:
    """What `--json` has of a cell whose transfers failed: the figures behind each sentence."""
    return [
        {
            **one.model_dump(mode="json"),
            "silent": list(one.silent),
            "sentence": sentence(one, endings),
            "endings": [end.model_dump(mode="json") for end in endings],
        }
        for one, endings in unfinished(result)
    ]
