"""Whether a run has the parameters of its cell: endpoints' own records, compared with their configuration."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.metrics.observed.kernel import RECORD, recorded_algorithm
from harness.analysis.run_view import RunView
from harness.outcome import Observation
from harness.outcome.deviations import contradiction_sentence, contradiction_sentences


def find_contradictions(view: RunView, observed: Sequence[Observation]) -> tuple[str, ...]:
    """Contradictions between endpoints' own records and their configuration, a sentence each. Raises OSError.

    For every TCP flow it is the congestion control in its generator's report; for the pair's flow over QUIC the one
    that a qlog names (`observed`).
    """
    sentences = list(contradiction_sentences(view.run, observed))
    for index, flow in enumerate(view.run.cell.scenario.flows):
        word = recorded_algorithm(view, index, flow.sender) if flow.kind == "tcp" else None
        if word is not None:
            sentences.append(contradiction_sentence(view.run, index, flow.sender, word, RECORD))
    return tuple(dict.fromkeys(filter(None, sentences)))
