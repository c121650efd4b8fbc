"""RED beside DropTail, and what the notebook says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
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
_RTT, _WINDOW = "mean_srtt", "mean_cwnd"
_THROUGHPUTS = ("mean_throughput", "agg_throughput")


def queues(results: Sequence[CellResult]) -> str:
    """RED beside DropTail: throughput and delays with intervals, and what they can tell apart."""
    lines = [
        "## RED v DropTail (a notebook on a fork of mahimahi)",
        "",
        f"S. Shanks compares single runs of {DURATION:.0f} s. {_durations(results)}. The notebook's bytes/s count",
        "acknowledgements of small segments. So you find its throughput beside ours as a gain in percent. Its",
        "round-trip times stand there as they are. Its RED drops everything above a fixed average. It names its first",
        "sender Tahoe, which no stack of today has. Reno stands in its rows. Its last comparison, CUBIC beside Tahoe,",
        "had DropTail on both sides (`queue_type: droptail`). The gain that it sees in RED is **how far two equal runs",
        "differ**.",
        "",
        "Service is Poisson, as in the document's traces. netem's slots let one packet go per opportunity, with gaps",
        "from an exponential table (`images/sim/exponential.py`). The low case has the traces' cold start of ten",
        "packets a second, again after every minute. `tests/lab/test_service.py` holds the gaps against that law.",
        "",
        "RED is made for many flows (S. Floyd, V. Jacobson, 1993), and the notebook has one or two. So eight flows",
        "have a scenario, too (`queue/red-high-bdp-eight`).",
        "",
        "A seed gives the link with RED the same gaps as the link with DropTail. So runs are compared in pairs. The",
        f"*verdict* is Wilcoxon's signed-rank test over the seeds that both have (two-sided, p < {SIGNIFICANT}). In",
        "twenty such rows, chance alone makes one differ.",
        "",
        table_row(["case", "sender", "metric", "DropTail", "RED", "change", "document", "p", "verdict"]),
        table_row(["---", "---", "---", "---:", "---:", "---:", "---:", "---:", "---"]),
    ]
    return "\n".join([*lines, *(table_row(_row(compared)) for compared in comparisons(results)), ""])


def finding(results: Sequence[CellResult]) -> str:
    """The notebook's gains of throughput, and in how many rows RED has less or more here, in a sentence."""
    rows = [row for row in comparisons(results) if row.metric.metric in _THROUGHPUTS]
    changes = [row.change for row in rows if row.change is not None and row.chance is not None]
    if not changes:
        return ""
    gains = [claim.red[0] / claim.droptail[0] - 1 for claim in NOTEBOOK if not claim.mislabelled]
    less, more = (sum(row.verdict == f"RED has {word}" for row in rows) for word in ("less", "more"))
    return (
        f"S. Shanks sees {min(gains):.0%} to {max(gains):.0%} more throughput with RED; here RED has less in {less} of "
        f"{len(changes)} rows and more in {more}, with changes of {min(changes):+.1%} to {max(changes):+.1%}."
    )


def _durations(results: Sequence[CellResult]) -> str:
    """How long our runs last, by what is stored."""
    names = [f"queue/{queue}-{case}-bdp{suffix}" for queue in QUEUES for case in CASES for suffix in _SUFFIXES]
    flows = [flow for name in names for cell in measured_cells(results, name) for flow in cell.cell.scenario.flows]
    stops = sorted({flow.stop.seconds for flow in flows if flow.stop is not None})
    if not stops:
        return "No runs of ours are stored"
    return "Ours last as long" if stops == [DURATION] else f"Ours last {' or '.join(f'{stop:g}' for stop in stops)} s"


@dataclass(frozen=True)
class Comparison:
    """A figure of a link with RED beside that of the same link with DropTail."""

    case: str
    """`low` or `high` bandwidth-delay product."""
    sender: str
    what: str
    """The figure with its unit, for people."""
    metric: MetricName
    droptail: Interval | None
    red: Interval | None
    chance: float | None
    """Of such differences between equal queues, by Wilcoxon's signed-rank test; None of fewer than two pairs."""
    difference: float
    """RED's figure less DropTail's, the median over the pairs."""
    claim: Notebook | None = None
    """What the notebook has of this sender."""

    @property
    def change(self) -> float | None:
        """RED's median, less DropTail's, as a part of DropTail's."""
        if self.droptail is None or self.red is None:
            return None
        return self.red.median / self.droptail.median - 1 if self.droptail.median else 0.0

    @property
    def verdict(self) -> str:
        """What the runs can tell."""
        if self.change is None:
            return "not measured"
        if self.chance is None:
            return "one run tells nothing"
        if self.chance >= SIGNIFICANT:
            return "no difference that these runs can tell"
        return f"RED has {'more' if self.difference > 0 else 'less'}"

    @property
    def claimed(self) -> str:
        """The notebook's figure: a gain of throughput, or both round-trip times."""
        if self.claim is None or self.metric.metric == _WINDOW:
            return "–"
        droptail, red = self.claim.droptail, self.claim.red
        text = f"{droptail[1]:.0f} → {red[1]:.0f}" if self.metric.metric == _RTT else f"{red[0] / droptail[0] - 1:+.0%}"
        return text + (" (DropTail twice)" if self.claim.mislabelled else "")


def comparisons(results: Sequence[CellResult]) -> Iterator[Comparison]:
    """Every figure of every pair of cells, one with RED and its like with DropTail."""
    for case in CASES:
        for suffix in _SUFFIXES:
            yield from _of_scenarios(results, case, suffix)


def _of_scenarios(results: Sequence[CellResult], case: str, suffix: str) -> Iterator[Comparison]:
    """Those of one pair of scenarios."""
    plain = {_like(result): result for result in measured_cells(results, f"queue/droptail-{case}-bdp{suffix}")}
    early = {_like(result): result for result in measured_cells(results, f"queue/red-{case}-bdp{suffix}")}
    for key in sorted(plain.keys() & early.keys(), key=str):
        droptail, red = plain[key], early[key]
        labels = [flow_label(droptail.cell, flow) for flow in range(len(droptail.cell.scenario.flows))]
        if len(labels) < _MANY:
            yield from _of_flows(case, labels, droptail, red)
            together = " + ".join(labels)
        else:
            together = f"{len(labels)} × {labels[0]}"
            total, fairness = MetricName("agg_throughput"), MetricName("jain_means")
            yield _compare(case, together, total, "throughput together, Mbit/s", droptail, red)
            yield _compare(case, together, fairness, "Jain's index", droptail, red)
        yield _compare(case, together, MetricName("mean_queue_delay"), "queue, ms", droptail, red)


def _of_flows(case: str, labels: Sequence[str], droptail: CellResult, red: CellResult) -> Iterator[Comparison]:
    for flow, label in enumerate(labels):
        others = " + ".join(other for number, other in enumerate(labels) if number != flow)
        sender = f"{label} beside {others}" if others else label
        claim = _claim(case, label, others)
        yield _compare(case, sender, MetricName("mean_throughput", flow), "throughput, Mbit/s", droptail, red, claim)
        yield _compare(case, sender, MetricName(_RTT, flow), "sRTT, ms", droptail, red, claim)
        window = MetricName(_WINDOW, flow)
        if droptail.interval(*window) is not None:
            yield _compare(case, sender, window, "window, packets", droptail, red, claim)


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


def _compare(
    case: str,
    sender: str,
    name: MetricName,
    what: str,
    droptail: CellResult,
    red: CellResult,
    claim: Notebook | None = None,
) -> Comparison:
    left, right = droptail.interval(*name), red.interval(*name)
    before, after = _by_repetition(droptail, name), _by_repetition(red, name)
    differences = [after[number] - before[number] for number in sorted(before.keys() & after.keys())]
    has_both = left is not None and right is not None
    chance = _chance(differences) if has_both and len(differences) > 1 else None
    difference = median(differences) if differences else 0.0
    return Comparison(case, sender, what, name, left, right, chance, difference, claim)


def _row(compared: Comparison) -> list[str]:
    return [
        compared.case,
        compared.sender,
        compared.what,
        span_text(compared.droptail),
        span_text(compared.red),
        "–" if compared.change is None else f"{compared.change:+.1%}",
        compared.claimed,
        "–" if compared.chance is None else f"{compared.chance:.2g}",
        compared.verdict,
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
