"""INET's showcase of three QUIC flows that share a bottleneck."""

from __future__ import annotations

from collections.abc import Sequence

from harness.outcome import Interval
from harness.report.numbers import number_text, span_text
from harness.report.studies import controller_of, shared_throughputs
from harness.stats.intervals import jain_index
from studies.checklist.verdicts import (
    MISSING,
    Claim,
    Judge,
    Results,
    Spread,
    Status,
    Verdict,
    cells,
    not_applicable,
    setting,
    spread,
    within,
)
from studies.link_sharing.claims import SHOWCASE
from studies.link_sharing.page import FAIR
from studies.response.claims import WHY

SHARING, BESIDE_TCP = "dumbbell/link-sharing", "dumbbell/beside-tcp"
SCENARIOS = (SHARING, BESIDE_TCP, "satellite/medium")
#: What the background traffic takes, and what all have, Mbit/s.
UDP, RATE = 0.4, 10.0
#: The flow of UDP, and the phases that the document names, as seconds.
UDP_FLOW, PHASES = 3, ("5-10s", "10-20s", "20-30s", "30-40s", "40-45s")
#: Ours: a share so near the fair one, a link so full, and so few drops are as the document words them; and UDP's rate
#: is constant, where it stays within this part of itself.
NEAR, FULL, FEW, CONSTANT = 0.1, 0.95, 0.02, 0.05
#: Flows converge, or the link is full again, soon: s, a tenth of the shortest phase.
SOON = 0.5
#: What the queue holds, ms.
HOLDS = 20


def _over(results: Results, metric: str, phase: int | None = None, flow: int | None = None) -> Spread | None:
    return spread(result.interval(metric, flow, phase=phase) for result in cells(results, SHARING, parameters=True))


def _share(phase: int) -> Judge:
    """What the flows of a phase have in the middle, beside a fair share of what UDP leaves."""

    def judge(results: Results) -> Verdict:
        shares = []
        for result in cells(results, SHARING, parameters=True):
            flows = [result.interval("throughput", flow, phase=phase) for flow in range(UDP_FLOW)]
            shares += [span for span in flows if span is not None]
        found = spread(shares)
        if found is None:
            return MISSING
        count = round(RATE / SHOWCASE[phase - 1])
        fair = (RATE - UDP) / count
        verdict = abs(found.middle / fair - 1) <= NEAR
        ends = f"[{number_text(found.low)}, {number_text(found.high)}]"
        text = f"{number_text(found.middle)} {ends} Mbit/s a flow; {number_text(fair)} are a fair share beside UDP"
        return Verdict("reproduced" if verdict else "contradicted", text, "" if verdict else "not explained")

    return judge


def _spike(phase: int) -> Judge:
    """Drops of the first two seconds of a phase beside those of its rest."""

    def judge(results: Results) -> Verdict:
        both: list[tuple[Interval, Interval]] = []
        for result in cells(results, SHARING, parameters=True):
            onset, settled = (result.interval(f"{when}_drop_rate", phase=phase) for when in ("onset", "settled"))
            if onset is not None and settled is not None:
                both.append((onset, settled))
        if not both:
            return MISSING
        onsets, rest = spread(onset for onset, _ in both), spread(settled for _, settled in both)
        assert onsets is not None and rest is not None
        higher = sum(onset.median > settled.median for onset, settled in both)
        text = f"{onsets.text('%', 0.01)} in its first 2 s, {rest.text('%', 0.01)} in the rest of the phase"
        if higher == len(both):
            return Verdict("reproduced", text)
        why = f"{higher} of {len(both)} stacks have more drops at the start than afterwards"
        return Verdict("in part" if higher else "contradicted", text, why)

    return judge


def _overshoot(phase: int) -> Judge:
    return lambda results: within(
        _over(results, "onset_peak_rate", phase),
        "Mbit/s of all senders in the fullest 0.1 s,",
        RATE,
        float("inf"),
        "not explained",
    )


def _soon(metric: str, phases: Sequence[int]) -> Judge:
    """Times in s of some phases, which the document calls quick; who takes longer is named."""

    def judge(results: Results) -> Verdict:
        texts, late, total = [], [], 0
        for phase in phases:
            found = _over(results, metric, phase)
            if found is None:
                continue
            at = f"{PHASES[phase - 1].split('-')[0]} s"
            texts.append(f"{found.text('s')} after {at}")
            total += len(found.medians)
            for result in cells(results, SHARING, parameters=True):
                span = result.interval(metric, phase=phase)
                if span is not None and span.median > SOON:
                    late.append(f"{result.cell.implementation('server', 0).name} {span_text(span)} s after {at}")
        if not total:
            return MISSING
        if not late:
            return Verdict("reproduced", "; ".join(texts))
        why = f"longer than {SOON:g} s: {', '.join(late)}"
        return Verdict("in part" if len(late) < total else "contradicted", "; ".join(texts), why)

    return judge


def _converges(results: Results) -> Verdict:
    """Whether flows that join come to share evenly at all."""
    texts, never = [], 0
    for phase, seconds in ((2, 10.0), (3, 10.0)):
        found = _over(results, "convergence_time", phase)
        if found is None:
            return MISSING
        texts.append(f"{found.text('s')} after {PHASES[phase - 1].split('-')[0]} s")
        never += sum(median >= seconds for median in found.medians)
    why = "" if not never else f"{never} do not within their phase"
    return Verdict("reproduced" if not never else "in part", "; ".join(texts), why)


def refill(results: Results) -> Verdict:
    """How soon the flows that stay fill the link after one has left."""
    return _soon("fill_time", (4, 5))(results)


def _constant_udp(results: Results) -> Verdict:
    rates = [_over(results, "throughput", phase, UDP_FLOW) for phase in range(1, len(PHASES) + 1)]
    known = [rate.middle for rate in rates if rate is not None]
    if not known:
        return MISSING
    text = f"{number_text(min(known))} to {number_text(max(known))} Mbit/s over the phases (medians over the stacks)"
    is_constant = max(known) - min(known) <= CONSTANT * max(known)
    return Verdict("reproduced" if is_constant else "contradicted", text, "" if is_constant else "not explained")


def _fair(results: Results) -> Verdict:
    indices = [_over(results, "jain", phase) for phase in (2, 3, 4)]
    known = [index for index in indices if index is not None]
    if not known:
        return MISSING
    low, high = min(index.low for index in known), max(index.high for index in known)
    text = (
        f"Jain's index {number_text(min(index.middle for index in known))} [{low:.3f}, {high:.3f}] in the worst phase"
    )
    is_fair = all(median >= FAIR for index in known for median in index.medians)
    return Verdict("reproduced" if is_fair else "in part", text, "" if is_fair else "not explained")


def _reaction(results: Results) -> Verdict:
    """What a window falls to at a loss, as captures and logs show it."""
    seen = {
        result.cell.implementation("server", 0).name: float(item.value)
        for result in cells(results, SHARING, parameters=True)
        for _, measured in result.runs[:1]
        if measured is not None
        for item in measured.observed
        if (item.role, item.parameter) == ("server", "congestion_reaction") and isinstance(item.value, int | float)
    }
    if not seen:
        return MISSING
    text = "to " + ", ".join(f"{number_text(value)} ({name})" for name, value in sorted(seen.items()))
    falls = all(value < 1 for value in seen.values())
    return Verdict("reproduced" if falls else "in part", text, "" if falls else "not every window falls")


def _beside_tcp(results: Results) -> Verdict:
    """QUIC's Reno beside TCP's Reno on the same bottleneck."""
    texts, unfair = [], []
    for result in cells(results, BESIDE_TCP, parameters=True):
        name, both = result.cell.server.name, shared_throughputs(result)
        is_reno = all(controller_of(result.cell, flow) == "reno" for flow in (0, 1))
        if both is None or not is_reno or not result.cell.server.speaks_quic:
            continue
        own, tcp = both
        texts.append(f"{name} {span_text(own)} : {span_text(tcp)}")
        if jain_index([own.median, tcp.median]) < FAIR:
            known = WHY.get((name, "reno"), "not explained").rstrip(".")
            unfair.append(f"not {name} ({'more' if own.median > tcp.median else 'less'} than TCP): {known}")
    if not texts:
        return MISSING
    text = f"Reno beside Linux's Reno: {', '.join(texts)} Mbit/s (QUIC : TCP)"
    status: Status = "reproduced" if not unfair else "in part" if len(unfair) < len(texts) else "contradicted"
    return Verdict(status, text, "; ".join(unfair))


def _full(results: Results) -> Verdict:
    return within(_over(results, "utilisation_shared"), "of the link's rate", FULL, 1.0, "not explained")


def _few(results: Results) -> Verdict:
    return within(_over(results, "drop_rate"), "% of all packets", 0, FEW, "not explained", 0.01)


def _queue(results: Results) -> Verdict:
    """The mean wait, beside what the queue holds."""
    return within(
        _over(results, "mean_queue_delay"), f"ms in the queue, of the {HOLDS} that it holds,", 0, HOLDS, "not explained"
    )


def _handshake(results: Results) -> Verdict:
    """The first byte of a download: QUIC's, and TLS over TCP's."""
    quic = spread(
        result.interval("first_byte", 0, "first")
        for result in cells(results, "satellite/medium")
        if result.cell.server.speaks_quic
    )
    tcp = spread(
        result.interval("first_byte", 0, "first")
        for result in cells(results, "satellite/medium", "https", "https", parameters=True)
    )
    if quic is None or tcp is None:
        return MISSING
    text = (
        f"first byte after {quic.text('s')} by QUIC, {number_text(tcp.low)} s by TLS over TCP, of 650 ms a round trip"
    )
    return Verdict("reproduced" if quic.high < tcp.low else "contradicted", text)


def claims(results: Results) -> list[Claim]:
    """In the order of the document."""
    shares = (
        "one flow has about 10 Mbit/s",
        "two flows have about 5 Mbit/s each",
        "three flows have about 3.3 Mbit/s each",
        "two flows have about 5 Mbit/s each again",
        "one flow has all of the link again",
    )
    return [
        Claim("About QUIC", "handshake and TLS in one: much less latency than TCP", _handshake),
        Claim(
            "About QUIC",
            "a third of all web traffic is QUIC; streams end head-of-line blocking; connections migrate",
            not_applicable("about the Internet and the protocol; nothing in the showcase measures it"),
        ),
        Claim("About QUIC", "QUIC was made to coexist fairly with TCP, with a controller like TCP's", _beside_tcp),
        Claim(
            "The Network",
            "10 Mbit/s, 10 ms, MTU 1280 B, a queue of 25 kB, DropTail; other links 1 Gbit/s",
            setting(SHARING, "the same; the other links have no rate"),
        ),
        Claim(
            "Configuration",
            "flows from 5 to 30 s, 10 to 40 s and 20 to 45 s, with NewReno",
            setting(SHARING, "the same times, Reno of five servers"),
        ),
        Claim(
            "Configuration",
            "flow control is out of the way: windows of 4 GB",
            setting(SHARING, "the clients' own windows, from 0.5 MB on, twenty bandwidth-delay products"),
        ),
        Claim(
            "Configuration",
            "UDP of 500 to 1000 B every 10 to 20 ms",
            setting(SHARING, "the same law"),
        ),
        Claim("Figure receiver_throughput", "the sum comes close to 10 Mbit/s whenever QUIC sends", _full),
        Claim("Figure receiver_throughput", "active flows share fairly", _fair),
        Claim("Figure sender_throughput", "the first sender overshoots 10 Mbit/s for a short time", _overshoot(1)),
        Claim("Figure sender_throughput", "similar overshoots when the second begins (10 s)", _overshoot(2)),
        Claim("Figure sender_throughput", "similar overshoots when the third begins (20 s)", _overshoot(3)),
        Claim("Figure sender_throughput", "UDP's rate is about constant throughout", _constant_udp),
        *(
            Claim("Figure sender_throughput_smoothed", f"{when}: {says}", _share(number))
            for number, (when, says) in enumerate(zip(PHASES, shares, strict=True), 1)
        ),
        Claim(
            "Figure sender_throughput_smoothed",
            "0-5s and 45-50s: no QUIC",
            setting(SHARING, "no flow of QUIC is active then"),
        ),
        Claim(
            "Results, note",
            "throughput is counted in intervals of 0.5 s",
            not_applicable("how it is counted; ours has bins of 0.1 s and means of phases"),
        ),
        Claim("Figure packet_drop_rate", "loss at the bottleneck is minimal", _few),
        Claim("Figure packet_drop_rate", "a spike when the first flow begins (5 s)", _spike(1)),
        Claim("Figure packet_drop_rate", "a spike when the second begins (10 s)", _spike(2)),
        Claim("Figure packet_drop_rate", "a spike when the third begins (20 s)", _spike(3)),
        Claim(
            "Figure congestion_window",
            "slow start grows exponentially until it has the link's capacity",
            _soon("fill_time", (1,)),
        ),
        Claim("Figure congestion_window", "a sawtooth: the window falls whenever a packet is dropped", _reaction),
        Claim("Figure cwnd_queue_drops", "the windows soon grow again and use the bandwidth", _full),
        Claim(
            "Conclusions, 1",
            "flows converge to 1/N of the capacity by themselves",
            _converges,
        ),
        Claim(
            "Conclusions, 2",
            "bandwidth is quickly redistributed when flows join",
            _soon("convergence_time", (2, 3)),
        ),
        Claim(
            "Conclusions, 2",
            "bandwidth is quickly redistributed when flows leave",
            refill,
        ),
        Claim(
            "Conclusions, 3",
            "the link is well used with a stable queue",
            _queue,
        ),
        Claim("Conclusions, 4", "the UDP does not harm fairness", _fair),
    ]
