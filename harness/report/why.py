"""Attribution as an experiment, in words and as data: attributed and measured seconds of each cause. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from harness.doe.interventions import Explained, RemovalEffect, differences, stored_explanations, trial_keys
from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count
from harness.outcome import proven_outcome
from harness.report.diagnosis import STATE_NAMES
from harness.report.document import Block, BulletList, Column, DeferredBlocks, Document, Paragraph, Row, Span, Table

SCHEMA = 1


def why_document(entries: Sequence[Explained]) -> Document:
    """The experiments on several cells."""
    return Document({"schema": SCHEMA, "cells": [_entry(entry) for entry in entries]}, why_blocks(entries))


def with_explanations(document: Document, results: Sequence[CellResult], stored: Sequence[CellResult]) -> Document:
    """A document with the stored experiments on those cells that miss an objective below it; and which have none.

    `stored`: the cells among which their trials are looked for.
    """
    trials = trial_keys(stored)
    missed = [result for result in results if result.verdict.status == "fail" and result.cell.key not in trials]
    entries = stored_explanations(missed, stored)
    absent = [result.name for result in missed if result.cell.key not in entries]
    lines = [f"no experiment is stored of {', '.join(absent)}: 'harness why' runs it"] if absent else []

    def blocks() -> Iterator[Block]:
        yield from document.blocks
        yield from why_blocks(list(entries.values()))
        yield BulletList(lines)

    return Document({**document.data, "why": [_entry(entry) for entry in entries.values()]}, DeferredBlocks(blocks))


def why_blocks(entries: Sequence[Explained]) -> list[Block]:
    """A table for each cell: causes with attributed and measured seconds, the interaction, and what stays."""
    blocks: list[Block] = []
    for entry in entries:
        blocks += [Paragraph((Span(f"{entry.base.cell.scenario.name} {entry.base.name}", strong=True), _head(entry)))]
        if entry.effects:
            blocks.append(_table(entry))
        blocks.append(BulletList(why_lines(entry)))
    return [*blocks, *([Paragraph(summary_text(entries))] if differences(entries) else [])]


def _head(entry: Explained) -> str:
    runs = max((effect.runs for effect in entry.effects), default=0)
    seeds = f", median of {format_count(runs, 'run')} with seeds of their own" if runs > 1 else ""
    return f": {entry.transfer.seconds:.2f} s{seeds}"


#: Headings of `why_rows`.
HEADINGS = ("removed", "by", "attributed, s", "measured, s", "then it takes, s")


def why_rows(entry: Explained) -> list[list[str]]:
    """A row for each cause that was removed, and for all together: cells below `HEADINGS`."""
    effects = [*entry.effects, *([entry.together] if entry.together is not None else [])]
    return [_cells(effect, effect is entry.together) for effect in effects]


def _table(entry: Explained) -> Table:
    removed, by, *figures = HEADINGS
    columns = [
        Column(removed, identifies=True),
        Column(by, text=24, code=True),
        *(Column(heading, right=True) for heading in figures),
    ]
    return Table(columns, [Row(row) for row in why_rows(entry)])


def _cells(effect: RemovalEffect, together: bool) -> list[str]:
    removal = effect.removal
    title = removal.title if together else f"{removal.title} ({', '.join(STATE_NAMES[s] for s in removal.states)})"
    return [
        title,
        "" if together else ", ".join(f"{name}={value}" for name, value in removal.settings.items()),
        f"{removal.attributed:.2f}",
        _failure(effect) if effect.saved is None else f"{effect.saved:.2f}",
        "–" if effect.seconds is None else f"{effect.seconds:.2f}",
    ]


def _failure(effect: RemovalEffect) -> str:
    """Why a trial has no figure: 'timed out'."""
    statuses = dict.fromkeys(proven_outcome(run, measured).status for run, measured in effect.result.runs)
    return ", ".join(status.replace("_", " ") for status in statuses if status != "completed") or "no pair of runs"


def why_lines(entry: Explained) -> list[str]:
    """The interaction, and what no setting removed, a sentence each."""
    lines = []
    if (interaction := entry.interaction) is not None:
        lines.append(f"interaction: together {interaction:+.2f} s beyond the sum of each alone")
    lines += [
        f"{effect.removal.title}, not removed wholly: {why}" for effect in entry.effects for why in effect.removal.notes
    ]
    lines += [
        f"could not be removed: {STATE_NAMES[item.state]} {item.seconds:.2f} s: {item.why}" for item in entry.remainders
    ]
    return lines


def summary_text(entries: Sequence[Explained]) -> str:
    """How far attribution and experiment differ over several cells, in a sentence. Needs a difference."""
    values = differences(entries)
    cells = sum(any(effect.difference is not None for effect in entry.effects) for entry in entries)
    counted = f"{format_count(len(values), 'removal')} in {format_count(cells, 'cell')}"
    return (
        f"Measured less attributed seconds, over {counted}: "
        f"median {statistics.median(values):+.2f} s; median without its sign "
        f"{statistics.median(map(abs, values)):.2f} s; from {min(values):+.2f} to {max(values):+.2f} s."
    )


# --- data


def _entry(entry: Explained) -> dict[str, Any]:
    cell = entry.base.cell
    return {
        "key": cell.key,
        "scenario": cell.scenario.name,
        "name": entry.base.name,
        "seconds": entry.transfer.seconds,
        "removed": [_effect(effect) for effect in entry.effects],
        "together": None if entry.together is None else _effect(entry.together),
        "interaction": entry.interaction,
        "not_removed": [{"state": item.state, "seconds": item.seconds, "why": item.why} for item in entry.remainders],
    }


def _effect(effect: RemovalEffect) -> dict[str, Any]:
    return {
        "cause": effect.removal.title,
        "states": list(effect.removal.states),
        "settings": dict(effect.removal.settings),
        "attributed": effect.removal.attributed,
        "measured": effect.saved,
        "seconds": effect.seconds,
        "runs": effect.runs,
        "key": effect.result.cell.key,
        "outcomes": effect.result.outcomes,
        "not_taken": list(effect.removal.notes),
    }
