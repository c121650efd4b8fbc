"""TCP and QUIC beside UDP, and the figures of CCPerf's experiment 93."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.analysis.metric_registry import declared_metrics, unit_of
from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from harness.report.markdown import table_row
from harness.report.numbers import number_text, percentage, span_text, unit_text
from harness.report.studies import measured_cells
from harness.scenario.metric_names import MetricName
from harness.stats.intervals import interval
from studies import extremes_text
from studies.udp_background.claims import LINK, NETWORK, TCP, UDP, Reported

#: From this relative difference on a figure beside CCPerf's is explained.
APART = 0.10


#: Group of the experiment's tables → its flows, none where it is no flow's, and its figures.
_GROUPS = {
    "TCP": ((0, 1, 2), TCP),
    "UDP": ((3, 4, 5), UDP),
    "link": ((), LINK),
    "network": ((), NETWORK),
}


@dataclass(frozen=True)
class Compared:
    """A figure of CCPerf's beside ours."""

    group: str
    """TCP, UDP, link or network."""
    reported: Reported
    span: Interval | None
    """Ours, the mean over the group's flows; None where it is not measured."""
    unit: str

    @property
    def difference(self) -> float | None:
        """Of ours to the mean of theirs, as a part of theirs; None without either."""
        theirs = sum(self.reported.values) / len(self.reported.values)
        return None if self.span is None or not theirs else self.span.median / theirs - 1

    @property
    def is_apart(self) -> bool:
        """Whether they differ so much that it takes a reason."""
        return self.difference is not None and abs(self.difference) > APART


def compare(result: CellResult) -> Iterator[Compared]:
    """Every figure of the experiment beside that of a cell of `dumbbell/udp-background`."""
    for group, (flows, reported) in _GROUPS.items():
        for figure in reported:
            names = [MetricName(figure.ours, flow) for flow in flows] or [MetricName(figure.ours)]
            yield Compared(group, figure, _mean_interval(result, names), _unit(result, names[0]))


def background(results: Sequence[CellResult]) -> str:
    """CCPerf's experiment 93 beside ours, metric by metric."""
    cell_results = measured_cells(results, "dumbbell/udp-background")
    lines = [
        "## UDP background traffic (CCPerf, experiment 93)",
        "",
        "Six flows share 48 Mbit/s and 15 ms. Three flows of TCP NewReno have 16 Mbit/s each to send, and three of UDP",
        "8 Mbit/s each. The document is one run of ns-3. Ours are medians and intervals of this kernel's TCP over all",
        "runs. A row compares the mean of its flows with the document's. A difference of more than a tenth has a",
        "reason.",
        "",
        "The document does not say how large its UDP datagrams are. Two of its figures point to 512 B, ns-3's default:",
        "UDP loses 1.4 % of its 45 MB in 1,229 drops, and 83 packets wait 10.25 ms. With 1448 B you cannot get its",
        "delays.",
        "",
    ]
    if not cell_results:
        return "\n".join(lines)
    lines += [table_row(["", "metric", "unit", "CCPerf", "here", "difference", "why"]), table_row(["---"] * 7)]
    lines += [table_row(_row(compared)) for compared in compare(cell_results[0])]
    return "\n".join([*lines, "", *_quic_beside_udp(results)])


def finding(results: Sequence[CellResult]) -> str:
    """How many of the experiment's figures ours are near, and what QUIC leaves to UDP, in a sentence."""
    cells = measured_cells(results, "dumbbell/udp-background")
    known = [compared for compared in compare(cells[0]) if compared.difference is not None] if cells else []
    if not known:
        return ""
    near = sum(not compared.is_apart for compared in known)
    left = {
        f"{result.cell.server.name}, {result.cell.parameters['server.congestion_control']}": span
        for result in measured_cells(results, "dumbbell/udp-background-quic")
        if (span := _udp_throughput(result)) is not None
    }
    quic = f"; QUIC leaves UDP {extremes_text(left)} Mbit/s" if left else ""
    return f"CCPerf has {len(known)} figures of TCP beside UDP, and {near} of ours are within a tenth of them{quic}."


def _quic_beside_udp(results: Sequence[CellResult]) -> list[str]:
    """The same with QUIC: a row a server and congestion control; the mean over the three flows."""
    cell_results = measured_cells(results, "dumbbell/udp-background-quic")
    if not cell_results:
        return []
    columns = (
        ("Mbit/s", "mean_throughput"),
        ("sRTT, ms", "mean_srtt"),
        ("in flight", "mean_in_flight"),
        ("retransmitted", "retransmissions"),
        ("timeouts", "timeouts"),
        ("CoV", "cov_throughput"),
    )
    lines = [
        "**QUIC in place of TCP** (`dumbbell/udp-background-quic`): three bulk downloads with each congestion control",
        "that a server has. The table has the mean of the three flows, and what is left for UDP and the link.",
        "",
        table_row(["server", *(what for what, _ in columns), "Jain, three flows", "UDP, Mbit/s", "queue, ms", "drops"]),
        table_row(["---", *["---:"] * (len(columns) + 4)]),
    ]
    for result in cell_results:
        names = [[MetricName(name, flow) for flow in range(3)] for _, name in columns]
        lines.append(
            table_row(
                [
                    f"{result.cell.server.name} ({result.cell.parameters['server.congestion_control']})",
                    *(span_text(_mean_interval(result, flows)) for flows in names),
                    span_text(result.interval("jain_shared")),
                    span_text(_udp_throughput(result)),
                    span_text(result.interval("mean_queue_delay")),
                    percentage(result.interval("drop_rate")),
                ]
            )
        )
    return [*lines, ""]


def _udp_throughput(result: CellResult) -> Interval | None:
    """The mean of the three flows of UDP, Mbit/s."""
    return _mean_interval(result, [MetricName("mean_throughput", flow) for flow in range(3, 6)])


def _row(compared: Compared) -> list[str]:
    return [
        compared.group,
        f"`{compared.reported.metric}`",
        unit_text(compared.unit),
        " · ".join(number_text(value) for value in compared.reported.values),
        span_text(compared.span),
        "–" if compared.difference is None else f"{compared.difference:+.0%}",
        (compared.reported.why or "not explained") if compared.is_apart else "",
    ]


def _unit(result: CellResult, name: MetricName) -> str:
    """As measured, else as declared."""
    measurement = next(
        (measurements[0] for one, measurements in result.measurements.items() if one.key == name.key), None
    )
    return declared_metrics()[name.metric].unit if measurement is None else unit_of(measurement)


def _mean_interval(result: CellResult, names: Sequence[MetricName]) -> Interval | None:
    """Median and interval over the runs of the mean over some flows."""
    columns = [result.values(*name) for name in names]
    rows = list(zip(*columns, strict=False))
    return interval([sum(row) / len(row) for row in rows]) if rows else None
