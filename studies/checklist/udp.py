"""CCPerf's UDP background traffic, experiment 93."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.numbers import number_text, percentage, span_text, unit_text
from studies.checklist.sharing import refill
from studies.checklist.verdicts import MISSING, Claim, Judge, Results, Verdict, cells, not_applicable, setting
from studies.udp_background.claims import LINK, NETWORK, TCP, UDP, Reported
from studies.udp_background.page import APART, Compared, compare

BACKGROUND = "dumbbell/udp-background"
SCENARIOS = (BACKGROUND,)
_GROUPS = {"TCP": TCP, "UDP": UDP, "link": LINK, "network": NETWORK}
_TITLES = {"TCP": "Flow metrics, flows 1-3", "UDP": "Flow metrics, flows 4-6", "link": "Link", "network": "Network"}
#: What an operating point is.
_POINT = ("mean_in_flight_l4", "mean_throughput_l4", "mean_srtt_l4")
#: The rate at which each flow of UDP sends, Mbit/s, and ours of a reasonable use of the link.
_OFFERED, _REASONABLE = 8.0, 0.9


def _compared(results: Results) -> list[Compared]:
    found = cells(results, BACKGROUND)
    return list(compare(found[0])) if found else []


def _figure(group: str, reported: Reported) -> Judge:
    """One figure of the tables, by the rule of the study."""

    def judge(results: Results) -> Verdict:
        for item in _compared(results):
            if (item.group, item.reported) == (group, reported) and item.span is not None:
                difference = "" if item.difference is None else f" ({item.difference:+.0%})"
                text = f"{span_text(item.span)} {unit_text(item.unit)}".rstrip() + difference
                if not item.is_apart:
                    return Verdict("reproduced", text)
                return Verdict("contradicted", text, reported.why or "not explained")
        return MISSING

    return judge


def _figures() -> list[Claim]:
    return [
        Claim(
            _TITLES[group],
            f"`{reported.metric}`: {' · '.join(map(number_text, reported.values))}",
            _figure(group, reported),
        )
        for group, rows in _GROUPS.items()
        for reported in rows
    ]


def _is_unresponsive(results: Results) -> Verdict:
    rates = [item for item in _compared(results) if item.group == "UDP" and item.reported.ours == "mean_sending_rate"]
    if not rates or rates[0].span is None:
        return MISSING
    span = rates[0].span
    keeps = abs(span.median / _OFFERED - 1) < APART / 2
    text = f"{span_text(span)} Mbit/s of {number_text(_OFFERED)} offered, beside a full queue"
    return Verdict("reproduced" if keeps else "contradicted", text, "" if keeps else "not explained")


def _is_used(results: Results) -> Verdict:
    found = cells(results, BACKGROUND)
    span = found[0].interval("utilisation_shared") if found else None
    if span is None:
        return MISSING
    used = span.low >= _REASONABLE
    return Verdict("reproduced" if used else "contradicted", f"{percentage(span)} of the link's rate")


def _drawn(what: str, *metrics: str) -> Judge:
    """Of a figure that is drawn from our runs: by the tables' figures of TCP that it shows."""

    def judge(results: Results) -> Verdict:
        shown = [
            item
            for item in _compared(results)
            if item.group == "TCP" and item.reported.metric in metrics and item.span is not None
        ]
        if len(shown) < len(metrics):
            return MISSING
        apart = [f"`{item.reported.metric}`" for item in shown if item.is_apart]
        text = f"{what}, [drawn](documents.md) from our runs"
        if not apart:
            return Verdict("reproduced", text)
        why = f"{' and '.join(apart)} {'differs' if len(apart) == 1 else 'differ'} as above"
        return Verdict("in part" if len(apart) < len(shown) else "contradicted", text, why)

    return judge


def claims(results: Results) -> Sequence[Claim]:
    """In the order of the document."""
    return [
        Claim("Introduction", "UDP's senders do not slow down under congestion", _is_unresponsive),
        Claim("Introduction", "what a flow that ends leaves can be used", refill),
        Claim("Introduction", "a controller should keep a reasonable utilisation beside UDP", _is_used),
        Claim(
            "Parameters",
            "3 flows of TcpNewReno of 16 Mbit/s, 3 of UDP of 8 Mbit/s, 48 Mbit/s, 15 ms, 120 packets, 15 s",
            setting(BACKGROUND, "the same, by Linux's TCP"),
        ),
        *_figures(),
        Claim(
            "Flow metrics",
            "retransmissions and timeouts of UDP: 0; windows, sRTT and the like of UDP: nan",
            not_applicable("UDP has neither"),
        ),
        Claim(
            "Flow metrics",
            "bold: flow 1 is the best of the TCP flows",
            not_applicable("three equal flows of one run: which is best is chance"),
        ),
        Claim(
            "Figure Time Series",
            "in flight, sRTT and throughput over time",
            _drawn("the operating point in time", *_POINT),
        ),
        Claim(
            "Figure Mean Operating Point Plane",
            "throughput and sRTT of each flow",
            _drawn("mean operating points", *_POINT[1:]),
        ),
        Claim(
            "Figure In Flight",
            "the joint operating point beside the optimum",
            _drawn("in flight and its optimum", *_POINT),
        ),
        Claim(
            "Figure Distribution",
            "eCDF of throughput and sRTT",
            _drawn("distributions", "mean_throughput_l4", "mean_srtt_l4", "cov_throughput_l4"),
        ),
    ]
