"""Shares of three flows that come and go, beside those of INET's QUIC showcase."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_list
from harness.report.markdown import table_row
from harness.report.numbers import number_text, percentage, span_text
from harness.report.studies import measured_cells
from studies.link_sharing.claims import CAUSES, SHARING, SHOWCASE

#: Jain's index of the three flows below which, and share of packets dropped above which, what happened is spelt out.
FAIR, FEW = 0.95, 0.1


def sharing(results: Sequence[CellResult]) -> str:
    """Shares of each phase beside the document's."""
    lines = [
        "## Bandwidth sharing (INET's QUIC showcase)",
        "",
        "Three flows share 10 Mbit/s with UDP of 0.4 Mbit/s. They start at 5, 10 and 20 s, and stop at 30, 40 and",
        "45 s. The document reads fair shares off its figures: 10, 5, 3.3, 5 and 10 Mbit/s, less the UDP. A phase here",
        "has the payload of the UDP datagrams that arrived, per flow. It counts from its first moment, so convergence",
        "is included.",
        "",
    ]
    for scenario, what in SHARING.items():
        cell_results = measured_cells(results, scenario)
        if not cell_results:
            continue
        lines += [
            f"**{what}** (`{scenario}`)",
            "",
            table_row(["server", *(f"phase {n}" for n in range(1, 6)), "Jain, three flows", "queue, ms", "drops"]),
            table_row(["---", *["---:"] * 8]),
            table_row(["*document*", *(number_text(share) for share in SHOWCASE), "–", "–", '"minimal"']),
        ]
        lines += [table_row([_who(result), *_phases(result), *_figures(result)]) for result in cell_results]
        lines += ["", *(text for result in cell_results for text in _unfair(result))]
    return "\n".join(lines)


def finding(results: Sequence[CellResult]) -> str:
    """Jain's index of three flows of one stack, from the least to the largest of each congestion control."""
    texts = []
    for scenario, what in SHARING.items():
        spans = {
            servers: span
            for result in measured_cells(results, scenario)
            if " + " not in (servers := _servers(result)) and (span := result.interval("jain_shared")) is not None
        }
        if spans:
            least, most = (choose(spans, key=lambda name: spans[name].median) for choose in (min, max))
            to = f" to {number_text(spans[most].median)}" if most != least else ""
            texts.append(f"{span_text(spans[least])} ({least}){to} with {what.partition(',')[0]}")
    return f"INET's three flows share fairly; here Jain's index is {format_list(texts)}." if texts else ""


def _unfair(result: CellResult) -> list[str]:
    """What happened where the three flows do not share, or overrun the queue; nothing where they do neither."""
    jain, drops = result.interval("jain_shared"), result.interval("drop_rate")
    shares = [result.interval("throughput", flow, phase=3) for flow in range(3)]
    known = [share.median for share in shares if share is not None]
    if jain is None or drops is None or len(known) < len(shares) or (jain.median >= FAIR and drops.median <= FEW):
        return []
    who, control = _servers(result), str(result.cell.parameters["server.congestion_control"])
    part = known[-1] * len(known) / sum(known)
    return [
        f"{who} with {control}: the last to come has {part:.1f} times a third of what the three have together. "
        f"{drops.median:.0%} of all packets are dropped. {CAUSES.get((who, control), 'This is not explained.')}",
        "",
    ]


def _servers(result: CellResult) -> str:
    names = dict.fromkeys(
        result.cell.implementation("server", index).name
        for index, flow in enumerate(result.cell.scenario.flows)
        if flow.kind == "quic"
    )
    return " + ".join(names)


def _who(result: CellResult) -> str:
    """The servers; several of them with what the scenario varies."""
    servers, control = _servers(result), result.cell.parameters.get("server.congestion_control")
    return servers + (f" ({control})" if " + " in servers and control is not None else "")


def _phases(result: CellResult) -> list[str]:
    texts = []
    for phase in range(1, 6):
        shares = [result.interval("throughput", flow, phase=phase) for flow in range(3)]
        texts.append(" · ".join(number_text(share.median) for share in shares if share is not None) or "–")
    return texts


def _figures(result: CellResult) -> list[str]:
    return [
        span_text(result.interval("jain_shared")),
        span_text(result.interval("mean_queue_delay")),
        percentage(result.interval("drop_rate")),
    ]
