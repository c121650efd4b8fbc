"""RED beside DropTail, and what the notebook says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import median

from harness.evaluation.cell_result import CellResult
from harness.report.markdown import table_row
from harness.report.numbers import span_text
from harness.report.studies import measured_cells
from harness.scenario.metric_names import MetricName
from harness.topology import flow_label
from studies.red_droptail.claims import CASES, DURATION, NOTEBOOK, QUEUES, Notebook

#: Probability of such a difference by chance below which it counts as one.
SIGNIFICANT = 0.05
#: Scenarios of a case: `queue/droptail-high-bdp` with each of these at its end.
_SUFFIXES = ("", "-tcp", "-two", "-eight")
#: From this number of flows on, the table has what they do together instead of each.
_MANY = 3


def queues(results: Sequence[CellResult]) -> str:
    """RED beside DropTail: throughput and delays with intervals, and what they can tell apart."""
    lines = [
        "## RED v DropTail (a notebook on a fork of mahimahi)",
        "",
        f"S. Shanks compares single runs of {DURATION:.0f} s; {_durations(results)}. The notebook's bytes/s count",
        "acknowledgements of small segments, so that its throughput stands beside ours as a gain in percent; its",
        "round-trip times stand there as they are. Its RED drops everything above a fixed average. It names its first",
        "sender Tahoe, which is in no stack of today; Reno stands in its rows. Its last comparison, CUBIC beside",
        "Tahoe, had DropTail on both sides (`queue_type: droptail`): what it calls a gain of RED is **how far two",
        "equal runs differ**.",
        "",
        "Service is Poisson, as in the document's traces: netem's slots let one packet go per opportunity, with gaps",
        "from an exponential table (`images/sim/exponential.py`), and the low case has the traces' cold start of ten",
        "packets a second, again after every minute. `tests/lab/test_service.py` holds the gaps against that law.",
        "",
        "RED is made for many flows (S. Floyd, V. Jacobson, 1993), and the notebook has one or two. So eight flows",
        "have a scenario, too (`queue/red-high-bdp-eight`).",
        "",
        "A seed gives the link with RED the same gaps as the link with DropTail, so that runs are compared in pairs:",
        f"*verdict* is Wilcoxon's signed-rank test over the seeds that both have (two-sided, p < {SIGNIFICANT}). Of",
        "twenty such rows, chance alone makes one differ.",
        "",
        table_row(["case", "sender", "metric", "DropTail", "RED", "change", "document", "p", "verdict"]),
        table_row(["---", "---", "---", "---:", "---:", "---:", "---:", "---:", "---"]),
    ]
    rows = (_comparison(results, case, suffix) for case in CASES for suffix in _SUFFIXES)
    return "\n".join([*lines, *map(table_row, chain.from_iterable(rows)), ""])


def _durations(results: Sequence[CellResult]) -> str:
    """How long our runs last, by what is stored."""
    names = [f"queue/{queue}-{case}-bdp{suffix}" for queue in QUEUES for case in CASES for suffix in _SUFFIXES]
    flows = [flow for name in names for cell in measured_cells(results, name) for flow in cell.cell.scenario.flows]
    stops = sorted({flow.stop.seconds for flow in flows if flow.stop is not None})
    if not stops:
        return "no runs of ours are stored"
    return "ours last as long" if stops == [DURATION] else f"ours last {' or '.join(f'{stop:g}' for stop in stops)} s"


def _comparison(results: Sequence[CellResult], case: str, suffix: str) -> Iterator[list[str]]:
    """Rows of one pair of scenarios: for each cell of one with its like of the other."""
    plain = {_like(result): result for result in measured_cells(results, f"queue/droptail-{case}-bdp{suffix}")}
    early = {_like(result): result for result in measured_cells(results, f"queue/red-{case}-bdp{suffix}")}
    for key in sorted(plain.keys() & early.keys(), key=str):
        droptail, red = plain[key], early[key]
        labels = [flow_label(droptail.cell, flow) for flow in range(len(droptail.cell.scenario.flows))]
        if len(labels) < _MANY:
            yield from _rows_of_flows(case, labels, droptail, red)
            together = " + ".join(labels)
        else:
            together = f"{len(labels)} × {labels[0]}"
            total, fairness = MetricName("agg_throughput"), MetricName("jain_means")
            yield _compared(case, together, total, "throughput together, Mbit/s", droptail, red)
            yield _compared(case, together, fairness, "Jain's index", droptail, red)
        yield _compared(case, together, MetricName("mean_queue_delay"), "queue, ms", droptail, red)


def _rows_of_flows(case: str, labels: Sequence[str], droptail: CellResult, red: CellResult) -> Iterator[list[str]]:
    for flow, label in enumerate(labels):
        others = " + ".join(other for number, other in enumerate(labels) if number != flow)
        sender = f"{label} beside {others}" if others else label
        claim = _claim(case, label, others)
        rate, rtt = MetricName("mean_throughput", flow), MetricName("mean_srtt", flow)
        yield _compared(case, sender, rate, "throughput, Mbit/s", droptail, red, _claimed_gain(claim))
        yield _compared(case, sender, rtt, "sRTT, ms", droptail, red, _claimed_times(claim))


def _like(result: CellResult) -> tuple[object, ...]:
    asked = tuple(sorted((name, value) for name, value in result.cell.parameters.items()))
    return result.cell.client.name, result.cell.server.name, asked


def _claim(case: str, label: str, others: str) -> Notebook | None:
    """The notebook's comparison of a sender of this congestion control, alone or beside another."""
    for notebook in NOTEBOOK:
        alike = notebook.case == case and f"({notebook.sender})" in label
        if alike and bool(others) == bool(notebook.beside) and (not others or f"({notebook.beside})" in others):
            return notebook
    return None


def _claimed_gain(claim: Notebook | None) -> str:
    if claim is None:
        return "–"
    return f"{claim.red[0] / claim.droptail[0] - 1:+.0%}" + (" (DropTail twice)" if claim.mislabelled else "")


def _claimed_times(claim: Notebook | None) -> str:
    if claim is None:
        return "–"
    return f"{claim.droptail[1]:.0f} → {claim.red[1]:.0f}" + (" (DropTail twice)" if claim.mislabelled else "")


def _compared(
    case: str, sender: str, name: MetricName, what: str, droptail: CellResult, red: CellResult, claimed: str = "–"
) -> list[str]:
    left, right = droptail.interval(*name), red.interval(*name)
    if left is None or right is None:
        return [case, sender, what, span_text(left), span_text(right), "–", claimed, "–", "not measured"]
    before, after = _by_repetition(droptail, name), _by_repetition(red, name)
    differences = [after[number] - before[number] for number in sorted(before.keys() & after.keys())]
    chance = _chance(differences) if len(differences) > 1 else None
    change = right.median / left.median - 1 if left.median else 0.0
    if chance is None:
        verdict = "one run tells nothing"
    elif chance >= SIGNIFICANT:
        verdict = "no difference that these runs can tell"
    else:
        verdict = f"RED has {'more' if median(differences) > 0 else 'less'}"
    return [
        case,
        sender,
        what,
        span_text(left),
        span_text(right),
        f"{change:+.1%}",
        claimed,
        "–" if chance is None else f"{chance:.2g}",
        verdict,
    ]


def _by_repetition(result: CellResult, name: MetricName) -> Mapping[int, float]:
    """Repetition, which decides the seed → value."""
    values = ((run.repetition, measured.value(*name)) for run, measured in result.runs if measured is not None)
    return {repetition: value for repetition, value in values if value is not None}


def _chance(differences: Sequence[float]) -> float:
    """Of such differences, both ways, where there is none."""
    if not any(differences):
        return 1.0
    # It takes over a second to import, and every report imports the studies.
    from scipy.stats import wilcoxon

    return float(wilcoxon(differences).pvalue)
