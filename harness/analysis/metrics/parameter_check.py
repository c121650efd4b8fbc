"""Whether a run is what its cell is called: what endpoints wrote of themselves, against what they were told."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.metrics.observed.kernel import RECORD, recorded_algorithm
from harness.analysis.run_view import RunView
from harness.outcome import Observation
from harness.outcome.deviations import contradiction, contradictions


def contradicted(view: RunView, observed: Sequence[Observation]) -> tuple[str, ...]:
    """What endpoints' own records say against what they were told, a sentence each. Raises OSError.

    Of every flow of TCP it is the congestion control in its generator's report; of the pair's flow over QUIC the one
    that a qlog names (`observed`).
    """
    sentences = list(contradictions(view.run, observed))
    for index, flow in enumerate(view.run.cell.scenario.flows):
        word = recorded_algorithm(view, index, flow.sender) if flow.kind == "tcp" else None
        if word is not None:
            sentences.append(contradiction(view.run, index, flow.sender, word, RECORD))
    return tuple(dict.fromkeys(filter(None, sentences)))
