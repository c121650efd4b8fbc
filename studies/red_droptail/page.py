"""RED beside DropTail, and what the notebook says of them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.report.markdown import table_row
from harness.report.numbers import span_text
from harness.report.studies import measured_cells
from harness.scenario.metric_names import MetricName
from harness.topology import flow_label
from studies.red_droptail.claims import NOTEBOOK

#: Probability of such a difference by chance below which it counts as one.
SIGNIFICANT = 0.05


def queues(results: Sequence[CellResult]) -> str:
    """RED beside DropTail: throughput and delays with intervals, and what they can tell apart."""
    lines = [
        "## RED v DropTail (a notebook on a fork of mahimahi)",
        "",
        'The document compares single runs. Its bytes/s count acknowledgements of small segments, its "RED" drops',
        "everything above a fixed average, and the last of its comparisons had DropTail on both sides: its figures",
        "stand beside ours as what it claims, a gain in percent. It names its first sender Tahoe, which is in no stack",
        "of today; Reno stands in its rows.",
        "",
        "Service is Poisson, as in the document's traces: netem's slots let one packet go per opportunity, with gaps",
        "from an exponential table (`images/sim/exponential.py`), and the low case has the traces' cold start of ten",
        "packets a second, again after every minute. `tests/lab/test_service.py` holds the gaps against that law.",
        "",
        "*verdict* says whether the runs can tell RED from DropTail (Mann-Whitney U over seeds, two-sided,",
        f"p < {SIGNIFICANT}); of twenty such rows one would differ by chance alone.",
        "",
        table_row(["case", "sender", "metric", "DropTail", "RED", "change", "document", "p", "verdict"]),
        table_row(["---", "---", "---", "---:", "---:", "---:", "---:", "---:", "---"]),
    ]
    rows = [
        row for case in ("low", "high") for suffix in ("", "-tcp", "-two") for row in _comparison(results, case, suffix)
    ]
    return "\n".join([*lines, *map(table_row, rows), ""])


def _comparison(results: Sequence[CellResult], case: str, suffix: str) -> list[list[str]]:
    """Rows of one pair of scenarios: for each cell of one with its like of the other."""
    plain = {_like(result): result for result in measured_cells(results, f"queue/droptail-{case}-bdp{suffix}")}
    early = {_like(result): result for result in measured_cells(results, f"queue/red-{case}-bdp{suffix}")}
    rows = []
    for key in sorted(plain.keys() & early.keys(), key=str):
        cell_result, other = plain[key], early[key]
        labels = [flow_label(cell_result.cell, flow) for flow in range(len(cell_result.cell.scenario.flows))]
        for flow, label in enumerate(labels):
            others = " + ".join(labels[:flow] + labels[flow + 1 :])
            who = f"{label} beside {others}" if others else label
            claimed = _claimed(case, label) if len(labels) == 1 else None
            rate, rtt = MetricName("mean_throughput", flow), MetricName("mean_srtt", flow)
            rows.append(_compared(case, who, rate, "throughput, Mbit/s", cell_result, other, claimed))
            rows.append(_compared(case, who, rtt, "sRTT, ms", cell_result, other, None))
        queue = MetricName("mean_queue_delay")
        rows.append(_compared(case, " + ".join(labels), queue, "queue, ms", cell_result, other, None))
    return rows


def _like(result: CellResult) -> tuple[object, ...]:
    asked = tuple(sorted((name, value) for name, value in result.cell.parameters.items()))
    return result.cell.client.name, result.cell.server.name, asked


def _claimed(case: str, label: str) -> float | None:
    """The document's gain of RED in throughput, for a sender of this congestion control."""
    for notebook in NOTEBOOK:
        if notebook.case == case and f"({notebook.sender})" in label:
            return notebook.red[0] / notebook.droptail[0] - 1
    return None


def _compared(
    case: str, who: str, name: MetricName, what: str, one: CellResult, other: CellResult, claimed: float | None
) -> list[str]:
    a, b = one.values(*name), other.values(*name)
    left, right = one.interval(*name), other.interval(*name)
    if left is None or right is None:
        return [case, who, what, span_text(left), span_text(right), "–", "–", "–", "not measured"]
    chance = _chance(a, b) if len(a) > 1 and len(b) > 1 else None
    change = right.median / left.median - 1 if left.median else 0.0
    if chance is None:
        verdict = "one run tells nothing"
    elif chance >= SIGNIFICANT:
        verdict = "no difference that these runs can tell"
    else:
        verdict = f"RED has {'more' if change > 0 else 'less'}"
    return [
        case,
        who,
        what,
        span_text(left),
        span_text(right),
        f"{change:+.1%}",
        "–" if claimed is None else f"{claimed:+.0%}",
        "–" if chance is None else f"{chance:.2g}",
        verdict,
    ]


def _chance(one: Sequence[float], other: Sequence[float]) -> float:
    """Of the rank sum, both ways, where the two do not differ."""
    # It takes over a second to import, and every report imports the studies.
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(one, other, alternative="two-sided").pvalue)
