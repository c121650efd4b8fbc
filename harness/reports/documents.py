"""What the documents behind the dumbbell scenarios report, beside what stored runs measured: docs/documents.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import mannwhitneyu

from harness.lab import flow_label
from harness.outcome import Interval, flow_prefix
from harness.reports import CellResult
from harness.reports.flow_metrics import number, text
from harness.reports.markdown import line
from harness.stats import harm, interval

#: Probability of such a difference by chance below which it counts as one.
SIGNIFICANT = 0.05
#: From this relative difference on a figure beside CCPerf's is explained.
APART = 0.10

#: INET's fair shares of 10 Mbit/s in the five phases of its showcase, Mbit/s for each active flow (seed 000).
SHOWCASE = (10.0, 5.0, 10 / 3, 5.0, 10.0)
#: The showcase's scenarios: name → what differs from the document.
SHARING = {
    "dumbbell/link-sharing": "NewReno, as in the document",
    "dumbbell/sharing-cubic": "CUBIC",
    "dumbbell/sharing-bbr": "BBR",
    "dumbbell/sharing-mixed": "a different stack behind each flow",
}


@dataclass(frozen=True)
class Reported:
    """One figure of CCPerf's experiment 93 beside ours."""

    metric: str
    """CCPerf's name."""
    ours: str
    """This lab's name of it."""
    values: tuple[float, ...]
    """One per flow of the kind, or one for link or network."""
    unit: str
    why: str = ""
    """What makes ours differ, where it does."""


_ALTERNATE = "what UDP leaves is shared out anew in every run"
_WINDOW = "a window spans throughput × RTT, and the queue delays by more"
_UNEXPLAINED = "not explained: another TCP, and the document is one run"
_QUEUE = "the queue delays by more: see the link"
_FULL = "at 48 Mbit/s the document's length and delay fit together only for packets of 740 bytes; here they are full"
#: Seed 003's tables; flows 1–3 are TCP, 4–6 UDP.
TCP = (
    Reported("mean_throughput_l4", "mean_throughput", (8.68, 6.59, 6.82), "Mbit/s", _ALTERNATE),
    Reported("mean_sending_rate_l4", "mean_sending_rate", (8.77, 6.68, 6.92), "Mbit/s", _ALTERNATE),
    Reported(
        "mean_sending_rate_l7", "mean_sending_rate_l7", (10.82, 8.72, 8.95), "Mbit/s",
        "what the sender's buffer swallows beyond what is sent depends on its size, which Linux tunes by itself",
    ),
    Reported(
        "mean_delivery_rate_l4", "mean_delivery_rate", (8.68, 6.58, 6.81), "Mbit/s", _ALTERNATE,
    ),
    Reported("mean_cwnd_l4", "mean_cwnd", (20.38, 17.04, 16.35), "packets", _WINDOW),
    Reported("mean_in_flight_l4", "mean_in_flight", (19.92, 16.67, 15.95), "packets", _WINDOW),
    Reported("mean_srtt_l4", "mean_srtt", (26.22, 27.08, 26.51), "ms", _QUEUE),
    Reported("mean_est_qdelay_l4", "mean_est_queue_delay", (11.22, 12.08, 11.51), "ms", _QUEUE),
    Reported(
        "mean_idt_ewma_l4", "mean_idt", (1.23, 1.93, 2.40), "ms",
        "the document does not give the weight of its moving average; ours is 1/8",
    ),
    Reported("cov_throughput_l4", "cov_throughput", (0.33, 0.46, 0.46), "", _UNEXPLAINED),
    Reported("cov_in_flight_l4", "cov_in_flight", (0.35, 0.42, 0.45), "", _UNEXPLAINED),
    Reported("total_retransmissions_l4", "retransmissions", (113.0, 129.0, 146.0), "packets", _UNEXPLAINED),
    Reported("total_rtos_l4", "timeouts", (0.0, 3.0, 1.0), "", _UNEXPLAINED),
    Reported(
        "mean_recovery_time_l4", "mean_recovery_time", (40.75, 142.12, 66.99), "ms",
        "two of the document's flows had timeouts",
    ),
    Reported("mean_network_power_l4", "network_power", (336.76, 248.82, 267.34), "Mbit/s²", _QUEUE),
    Reported("mean_utility_pf_l4", "utility_pf", (2.11, 1.75, 1.74), "", _ALTERNATE),
    Reported("mean_utility_mpdf_l4", "utility_mpdf", (-0.13, -0.21, -0.28), "", _ALTERNATE),
    Reported("mean_utilization_bdp_l4", "utilisation_bdp", (0.35, 0.29, 0.28), "", _WINDOW),
    Reported("mean_utilization_bw_l4", "utilisation_bandwidth", (0.18, 0.14, 0.14), "", _ALTERNATE),
)  # fmt: skip
UDP = (
    Reported("mean_throughput_l4", "mean_throughput", (7.90, 7.89, 7.86), "Mbit/s"),
    Reported(
        "mean_one_way_delay_l7", "mean_one_way_delay", (18.51, 18.49, 18.51), "ms",
        _QUEUE,
    ),
    Reported("cov_throughput_l4", "cov_throughput", (0.12, 0.12, 0.13), ""),
)  # fmt: skip
LINK = (
    Reported(
        "mean_qdisc_length_l2", "mean_queue_packets", (83.08,), "packets",
        "drops and windows differ",
    ),
    Reported("mean_qdisc_delay_l2", "mean_queue_delay", (10.25,), "ms", _FULL),
    Reported("mean_sending_rate_l1", "mean_link_rate", (47.97,), "Mbit/s"),
    Reported("total_qdisc_drops_l2", "queue_drops_to_client", (1617.0,), "packets", _FULL),
)  # fmt: skip
NETWORK = (
    Reported("mean_agg_throughput_l4", "agg_throughput", (45.74,), "Mbit/s"),
    Reported("mean_agg_in_flight_l4", "agg_in_flight", (52.54,), "packets", _WINDOW),
    Reported("mean_agg_utility_pf_l4", "agg_utility_pf", (11.77,), ""),
    Reported("mean_agg_utility_mpdf_l4", "agg_utility_mpdf", (-1.00,), "", _ALTERNATE),
    Reported("mean_agg_utilization_bw_l4", "agg_utilisation_bandwidth", (0.95,), ""),
    Reported("mean_agg_utilization_bdp_l4", "agg_utilisation_bdp", (0.91,), "", _WINDOW),
    Reported("mean_jains_fairness_throughput_l4", "jain_samples", (0.92,), ""),
    Reported("mean_entropy_fairness_throughput_l4", "entropy_means", (1.79,), ""),
    Reported("mean_product_fairness_throughput_l4", "product_means", (142076.76,), "", _ALTERNATE),
)  # fmt: skip


@dataclass(frozen=True)
class Notebook:
    """One comparison of seed 001: throughput (bytes/s) and RTT (ms) of single runs."""

    case: str
    sender: str
    droptail: tuple[float, float]
    red: tuple[float, float]


#: Seed 001. Its last "RED" ran with queue_type droptail.
NOTEBOOK = (
    Notebook("low", "reno", (10910.0, 238.67), (11496.67, 224.01)),
    Notebook("low", "cubic", (14479.33, 255.04), (17792.67, 236.58)),
    Notebook("high", "cubic", (15660.0, 444.20), (36924.67, 468.50)),
)


def _of(results: Iterable[CellResult], scenario: str) -> list[CellResult]:
    return [result for result in results if result.cell.scenario.name == scenario and result.measurements]


# --- 000


def sharing(results: Sequence[CellResult]) -> str:
    """Shares of each phase beside the document's."""
    lines = [
        "## Bandwidth sharing (INET's QUIC showcase)",
        "",
        "Three flows start at 5, 10 and 20 s and stop at 30, 40 and 45 s on 10 Mbit/s, beside UDP of 0.4 Mbit/s. The",
        "document reads fair shares off its figures: 10, 5, 3.3, 5 and 10 Mbit/s, less the UDP. A phase here has the",
        "payload of UDP datagrams that arrived, per flow; a phase counts from its first moment, convergence included.",
        "",
    ]
    for scenario, what in SHARING.items():
        found = _of(results, scenario)
        if not found:
            continue
        lines += [
            f"**{what}** (`{scenario}`)",
            "",
            line(["server", *(f"phase {n}" for n in range(1, 6)), "Jain, three flows", "queue, ms", "drops"]),
            line(["---", *["---:"] * 8]),
            line(["*document*", *(number(share) for share in SHOWCASE), "–", "–", '"minimal"']),
        ]
        lines += [line([_who(result), *_phases(result), *_figures(result)]) for result in found]
        lines.append("")
    return "\n".join(lines)


def _who(result: CellResult) -> str:
    names = dict.fromkeys(
        result.cell.implementation("server", index).name
        for index, flow in enumerate(result.cell.scenario.flows)
        if flow.kind == "quic"
    )
    varied = [str(value) for name, value in result.cell.parameters.items() if name in result.cell.scenario.vary]
    control = result.cell.parameters.get("server.congestion_control")
    return " + ".join(names) + (f" ({control})" if len(names) > 1 and control is not None and not varied else "")


def _phases(result: CellResult) -> list[str]:
    texts = []
    for phase in range(1, 6):
        shares = [result.interval(f"phase{phase}_flow{flow}_throughput") for flow in range(3)]
        texts.append(" · ".join(number(share.median) for share in shares if share is not None) or "–")
    return texts


def _figures(result: CellResult) -> list[str]:
    drops = result.interval("drop_rate")
    return [
        text(result.interval("jain_shared")),
        text(result.interval("mean_queue_delay")),
        "–" if drops is None else f"{drops.median:.1%}",
    ]


# --- 003


def background(results: Sequence[CellResult]) -> str:
    """CCPerf's experiment 93 beside ours, metric by metric."""
    found = _of(results, "dumbbell/udp-background")
    lines = [
        "## UDP background traffic (CCPerf, experiment 93)",
        "",
        "Three flows of TCP NewReno with 16 Mbit/s to send, three of UDP with 8 Mbit/s each, on 48 Mbit/s and 15 ms.",
        "The document is one run of ns-3; ours are medians and intervals of this kernel's TCP over all runs. A row's",
        "flows are compared by their mean; what differs by more than a tenth has a reason.",
        "",
    ]
    if not found:
        return "\n".join(lines)
    (result,) = found[:1]
    lines += [line(["", "metric", "unit", "CCPerf", "here", "difference", "why"]), line(["---"] * 7)]
    for what, flows, reported in (
        ("TCP", (0, 1, 2), TCP), ("UDP", (3, 4, 5), UDP), ("link", (), LINK), ("network", (), NETWORK),
    ):  # fmt: skip
        lines += [line(_row(result, what, flows, one)) for one in reported]
    return "\n".join([*lines, ""])


def _row(result: CellResult, what: str, flows: tuple[int, ...], one: Reported) -> list[str]:
    names = [f"flow{flow}_{one.ours}" for flow in flows] or [one.ours]
    theirs = sum(one.values) / len(one.values)
    span = _mean_interval(result, names)
    difference = None if span is None or not theirs else span.median / theirs - 1
    apart = difference is not None and abs(difference) > APART
    return [
        what,
        f"`{one.metric}`",
        one.unit,
        " · ".join(number(value) for value in one.values),
        text(span),
        "–" if difference is None else f"{difference:+.0%}",
        one.why if apart else "",
    ]


def _mean_interval(result: CellResult, names: Sequence[str]) -> Interval | None:
    """Median and interval over the runs of the mean over some flows."""
    columns = [[item.value for item in result.measurements.get(name, [])] for name in names]
    rows = list(zip(*columns, strict=False))
    return interval([sum(row) / len(row) for row in rows]) if rows else None


# --- 001


def queues(results: Sequence[CellResult]) -> str:
    """RED beside DropTail: throughput and delays with intervals, and what they can tell apart."""
    lines = [
        "## RED v DropTail (a notebook on a fork of mahimahi)",
        "",
        'The document compares single runs. Its bytes/s count acknowledgements of small segments, its "RED" drops',
        "everything above a fixed average, and the last of its comparisons had DropTail on both sides: its figures",
        "stand beside ours as what it claims, a gain in percent. Ours are from ten seeds each; *verdict* says whether",
        f"the runs can tell RED from DropTail (Mann-Whitney U, two-sided, p < {SIGNIFICANT}).",
        "",
        line(["case", "sender", "metric", "DropTail", "RED", "change", "document", "p", "verdict"]),
        line(["---", "---", "---", "---:", "---:", "---:", "---:", "---:", "---"]),
    ]
    rows = [
        row for case in ("low", "high") for suffix in ("", "-tcp", "-two") for row in _comparison(results, case, suffix)
    ]
    return "\n".join([*lines, *map(line, rows), ""])


def _comparison(results: Sequence[CellResult], case: str, suffix: str) -> list[list[str]]:
    """Rows of one pair of scenarios: for each cell of one with its like of the other."""
    plain = {_like(result): result for result in _of(results, f"queue/droptail-{case}-bdp{suffix}")}
    early = {_like(result): result for result in _of(results, f"queue/red-{case}-bdp{suffix}")}
    rows = []
    for key in sorted(plain.keys() & early.keys(), key=str):
        one, other = plain[key], early[key]
        labels = [flow_label(one.cell, flow) for flow in range(len(one.cell.scenario.flows))]
        for flow, label in enumerate(labels):
            prefix = flow_prefix(flow, len(labels))
            claimed = _claimed(case, label) if len(labels) == 1 else None
            rate = f"{prefix}mean_throughput", "throughput, Mbit/s"
            rows.append(_compared(case, label, *rate, one, other, claimed))
            rows.append(_compared(case, label, f"{prefix}mean_srtt", "sRTT, ms", one, other, None))
        rows.append(_compared(case, " + ".join(labels), "mean_queue_delay", "queue, ms", one, other, None))
    return rows


def _like(result: CellResult) -> tuple[object, ...]:
    asked = tuple(sorted((name, value) for name, value in result.cell.parameters.items()))
    return result.cell.client.name, result.cell.server.name, asked


def _claimed(case: str, label: str) -> float | None:
    """The document's gain of RED in throughput, for a sender of this congestion control."""
    for one in NOTEBOOK:
        if one.case == case and f"({one.sender})" in label:
            return one.red[0] / one.droptail[0] - 1
    return None


def _compared(
    case: str, who: str, metric: str, what: str, one: CellResult, other: CellResult, claimed: float | None
) -> list[str]:
    a, b = ([item.value for item in result.measurements.get(metric, [])] for result in (one, other))
    left, right = one.interval(metric), other.interval(metric)
    if left is None or right is None:
        return [case, who, what, text(left), text(right), "–", "–", "–", "not measured"]
    chance = float(mannwhitneyu(a, b, alternative="two-sided").pvalue) if len(a) > 1 and len(b) > 1 else None
    change = right.median / left.median - 1 if left.median else 0.0
    if chance is None:
        verdict = "one run tells nothing"
    elif chance >= SIGNIFICANT:
        verdict = "no difference that these runs can tell"
    else:
        verdict = f"RED has {'more' if change > 0 else 'less'}"
    return [
        case, who, what, text(left), text(right), f"{change:+.1%}", "–" if claimed is None else f"{claimed:+.0%}",
        "–" if chance is None else f"{chance:.2g}", verdict,
    ]  # fmt: skip


# --- fairness


def fairness(results: Sequence[CellResult]) -> str:
    """Shares and harm of every server against every other."""
    found = {_pair(result): result for result in _of(results, "dumbbell/fairness")}
    alone = {
        result.cell.implementation("server", 0).name: span.median
        for result in _of(results, "dumbbell/alone")
        if (span := result.interval("mean_throughput")) is not None
    }
    names = sorted({name for pair in found for name in pair})
    lines = [
        "## Every server against every other",
        "",
        "Both CUBIC, both from the start, 30 s on 10 Mbit/s, 20 ms, a queue of one bandwidth-delay product.",
        "",
    ]
    if not names:
        return "\n".join(lines)

    def table(title: str, cell: Callable[[CellResult, str, str], str]) -> list[str]:
        head = line([title, *names]), line(["---", *["---:"] * len(names)])
        body = [
            line([mine, *(cell(found[mine, other], mine, other) if (mine, other) in found else "–" for other in names)])
            for mine in names
        ]
        return [*head, *body, ""]

    lines += table("Mbit/s of ↓ beside →", lambda result, *_: text(result.interval("flow0_mean_throughput")))
    lines += table("Jain's index", lambda result, *_: text(result.interval("jain_shared")))
    lines += [
        "Harm is what a competitor costs: (alone - beside) / alone of the throughput (Ware et al., HotNets 2019). A",
        "competitor is acceptable by that paper if it does no more than the other does to itself, the diagonal.",
        "",
    ]
    lines += table("harm to ↓ by →", lambda result, mine, _: _harm(result, alone.get(mine)))
    return "\n".join(lines)


def _pair(result: CellResult) -> tuple[str, str]:
    return result.cell.implementation("server", 0).name, result.cell.implementation("server", 1).name


def _harm(result: CellResult, alone: float | None) -> str:
    beside = result.interval("flow0_mean_throughput")
    if beside is None or not alone:
        return "–"
    return f"{harm(alone, beside.median, more_is_better=True):.2f}"


def links(results: Sequence[CellResult]) -> str:
    """Shares over rates, delays and queues."""
    found = _of(results, "dumbbell/fairness-links")
    lines = ["## Rates, delays and queues", ""]
    if not found:
        return "\n".join(lines)
    names = [
        name for name in found[0].cell.scenario.vary or found[0].cell.parameters if name in found[0].cell.parameters
    ]
    head = [*(f"`{name}`" for name in names), "first, Mbit/s", "second, Mbit/s", "Jain", "utilisation", "queue, ms"]
    lines += [line(head), line(["---"] * len(names) + ["---:"] * 5)]
    for result in found:
        metrics = (
            "flow0_mean_throughput",
            "flow1_mean_throughput",
            "jain_shared",
            "utilisation_shared",
            "mean_queue_delay",
        )
        lines.append(
            line(
                [
                    *(str(result.cell.parameters[name]) for name in names),
                    *(text(result.interval(one)) for one in metrics),
                ]
            )
        )
    return "\n".join([*lines, ""])


@dataclass(frozen=True)
class Shown:
    """A figure on the page: one plot of one cell's first run."""

    section: str
    scenario: str
    server: str
    """Who serves the first flow."""
    parameters: Mapping[str, str]
    plot: str
    caption: str

    @property
    def file(self) -> str:
        """Its file below docs/figures."""
        words = [self.scenario.rpartition("/")[2], self.server, *self.parameters.values(), self.plot]
        return "-".join(words) + ".svg"

    def is_of(self, result: CellResult) -> bool:
        """Whether it shows this cell."""
        cell = result.cell
        return (
            cell.scenario.name == self.scenario
            and cell.engine == "virtual"
            and cell.implementation("server", 0).name == self.server
            and all(str(cell.parameters.get(name)) == value for name, value in self.parameters.items())
        )


_RENO, _CUBIC = {"server.congestion_control": "reno"}, {"server.congestion_control": "cubic"}
FIGURES = (
    Shown("sharing", "dumbbell/link-sharing", "ngtcp2", _RENO, "sender_throughput_smoothed", "ngtcp2 with itself"),
    Shown("sharing", "dumbbell/link-sharing", "ngtcp2", _RENO, "receiver_throughput", "the same at the receivers"),
    Shown("sharing", "dumbbell/link-sharing", "ngtcp2", _RENO, "congestion_window", "congestion windows"),
    Shown(
        "sharing", "dumbbell/link-sharing", "ngtcp2", _RENO, "window_queue_drops", "three seconds of the three flows"
    ),
    Shown("sharing", "dumbbell/link-sharing", "ngtcp2", _RENO, "drop_rate", "drops at the bottleneck"),
    Shown("background", "dumbbell/udp-background", "linux", {}, "operating_point_time", "the operating point in time"),
    Shown("background", "dumbbell/udp-background", "linux", {}, "operating_point_plane", "mean operating points"),
    Shown(
        "background", "dumbbell/udp-background", "linux", {}, "in_flight_operating_point", "in flight and its optimum"
    ),
    Shown("background", "dumbbell/udp-background", "linux", {}, "distribution", "distributions"),
    Shown(
        "queues", "queue/red-high-bdp", "ngtcp2", _CUBIC, "red_beside_droptail", "RED beside DropTail, high BDP, CUBIC"
    ),
    Shown("queues", "queue/red-low-bdp", "ngtcp2", _RENO, "red_beside_droptail", "RED beside DropTail, low BDP, Reno"),
)


def figures_markdown(there: Iterable[str]) -> dict[str, str]:
    """Section → its figures, of those whose files are there."""
    known = set(there)
    made: dict[str, list[str]] = {}
    for one in FIGURES:
        if one.file in known:
            made.setdefault(one.section, []).append(f"![{one.caption}](figures/{one.file})\n")
    return {section: "\n".join(items) + "\n" for section, items in made.items()}


def page(results: Sequence[CellResult], figures: Mapping[str, str]) -> str:
    """The whole page. `figures`: a section's name → Markdown of its figures."""
    head = (
        "# What the documents report, and what this lab measures\n\n"
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md); the "
        "figures are made\nfrom the same store (`harness plot`).\n"
    )
    parts = [
        ("sharing", sharing),
        ("background", background),
        ("queues", queues),
        ("fairness", fairness),
        ("links", links),
    ]
    return "\n".join([head, *(f"{part(results)}\n{figures.get(name, '')}" for name, part in parts)]).rstrip() + "\n"
