"""Where a transfer's time goes: every moment, from the client's first datagram to the last byte, in exactly one state.

Artefacts become a conversation (`inputs`). One rule per state gives the times at which the transfer may be in it
(`rules`). If several rules claim a moment, the first one gets it (`partition`). Unclaimed time stays unexplained.
"""

from __future__ import annotations

from pathlib import Path

from harness.analysis.run_view import RunView, Unavailable
from harness.analysis.time_breakdown.inputs import conversation_of
from harness.analysis.time_breakdown.partition import band_text, partition, state_durations
from harness.analysis.time_breakdown.rules import notes_of
from harness.outcome import Run
from harness.outcome.measured import Attributed, Attribution, NotAttributed, StateShare

#: Raised whenever a part would come out differently; no figure of `harness.analysis.metrics` depends on it.
VERSION = 3


def attribute(folder: Path, run: Run) -> Attributed:
    """Where the time of a run's transfers went, from the artefacts in its folder."""
    return attribute_view(RunView(folder, run))


def attribute_view(view: RunView) -> Attributed:
    """The same for a run that is open already. Never raises because of its artefacts."""
    attributions: list[Attribution] = []
    absent: list[NotAttributed] = []
    for window in view.windows:
        flow, name = window.transfer.flow, window.name
        if window.flow.amount is None:
            continue
        try:
            conv = conversation_of(view, window)
            if isinstance(conv, Unavailable):
                absent.append(NotAttributed(flow=flow, transfer=name, why=conv.text))
                continue
            edges, states = partition(conv)
            durations, notes = state_durations(edges, states), notes_of(conv)
        except Exception as error:  # one transfer's bad data must not cost the others
            absent.append(NotAttributed(flow=flow, transfer=name, why=f"{type(error).__name__}: {error}"))
            continue
        parts = tuple(
            StateShare(state=state, seconds=ns / 1e9, note=notes.get(state, "")) for state, ns in durations.items()
        )
        attributions.append(
            Attribution(
                flow=flow,
                transfer=name,
                size=window.flow.amount.bytes,
                seconds=conv.end_ns / 1e9,
                parts=parts,
                bands=band_text(edges, states),
            )
        )
    return Attributed(version=VERSION, transfers=tuple(attributions), absent=tuple(absent))
