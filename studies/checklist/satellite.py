"""N. Kuhn's slides on QUIC over a path with a satellite."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from harness.outcome import Interval
from harness.report.numbers import number_text, span_text
from harness.units import Duration
from studies import MEETING_PAIR, ONLY_PICOQUIC
from studies.checklist.verdicts import (
    MISSING,
    Claim,
    Judge,
    Results,
    Verdict,
    asked,
    cells,
    faster,
    figure,
    not_applicable,
    observed,
    only_claim,
    setting,
    spread,
)
from studies.in_sequence.claims import LARGE_LOSSY, MEDIUM, NOT_RUN, SIZES, Path
from studies.in_sequence.compared import Row, met, rows
from studies.medium_case.compared import connection_windows, middle_by_setting, neighbours
from studies.response.claims import cubic_window

CASE, LARGE, LOSSY = "satellite/medium", "satellite/large", "satellite/large-lossy"
SCENARIOS = (
    "satellite",
    "in-sequence",
    "upload/geo",
    "remembered/same-250-100mb",
    "studies/ack-delay-50-10",
    "studies/connection-window",
    "studies/medium-neighbours",
    "studies/profiles-50-10",
    "studies/profiles-250-3-lossy",
)
_SMALL = "satellite/small"
#: The metric of 100 MB.
_ALL = "milestone_100MB"
#: What the document's picoquic reached on 250 Mbit/s, Mbit/s, and the window that allows so much on 650 ms.
LIMIT, WINDOW = 50.0, "4.0625 MB"
#: The document's packets an acknowledgement.
RATIO = 10
#: Bytes of a frame with picoquic's largest datagram, and how long it holds an acknowledgement back, s.
_FRAME, _HELD = 1482, 0.01
#: Paths by the rate of their links, Mbit/s: how many datagrams come in that time.
_RATES = {_SMALL: 10, CASE: 50, LARGE: 250}
#: A rate so near the link's reaches the channel's capacity, headers left out.
_REACHED = 0.9
_H2O = f"h2o's server over QUIC is not run: {NOT_RUN['h2o']}"
#: Why 1 % loss behind the second proxy holds TCP back: CUBIC's window (RFC 9438 §5.1), whatever a short round trip is.
_ACCESS = (
    "the segment with the loss, whose round trip of 1 ms is our choice: at 1 % CUBIC has "
    f"{cubic_window(0.01, 0.001):.0f} packets on average, {cubic_window(0.01, 0.001) * 1448 * 8 / 1e3:.0f} Mbit/s"
)
#: Parameter of the document's table → (observed of the server or the client, figure, unit, factor).
_TABLE = {
    "MAX_PACKET_SIZE 1440 B": ("server", "max_udp_payload", 1440.0, "B", 1.0),
    "INITIAL_CWND 10 × 1440 B": ("server", "initial_cwnd_bytes", 14400.0, "B", 1.0),
    "INITIAL_RTT 250 ms": ("client", "first_pto", 250.0, "ms", 1e3),
    "ACK_MAX_DELAY 10 ms": ("client", "max_ack_delay", 10.0, "ms", 1e3),
}
_SAME = 0.02
#: The study of how long a client may hold an acknowledgement back.
HELD = "studies/ack-delay-50-10"


def _by_name(results: Results, path: Path) -> dict[str, Row]:
    return {row.name: row for row in rows(results, path)}


def _objectives(path: Path) -> Judge:
    """Whether the objectives are what TCP behind proxies takes, from the first byte of data on."""

    def judge(results: Results) -> Verdict:
        texts, counts = [], []
        for proxy in ("C", "D"):
            row = _by_name(results, path).get(f"TCP, proxies {proxy}")
            if row is not None:
                since = {size: row.since_data(size) for size in SIZES}
                counts.append(len(met(row, since)))
                texts.append(f"proxies {proxy}: {' / '.join(span_text(span) for span in since.values())} s")
        if not texts:
            return MISSING
        if max(counts) == len(SIZES):
            return Verdict("reproduced", "; ".join(texts), "by the larger initial windows of D, from the first byte on")
        why = f"the best has {max(counts)} of {len(SIZES)}, from the first byte on"
        return Verdict("in part" if max(counts) else "contradicted", "; ".join(texts), why)

    return judge


def _proxies(path: Path) -> Judge:
    """Whether transmission is faster with proxies, for each size."""

    def judge(results: Results) -> Verdict:
        named = _by_name(results, path)
        base, best = named.get("TCP, no proxy (cubic)"), named.get("TCP, proxies D")
        if base is None or best is None:
            return MISSING
        verdicts = [faster(base.seconds(size), best.seconds(size)) for size in SIZES]
        text = "; ".join(
            f"{size.replace('MB', ' MB')} {verdict.here}" for size, verdict in zip(SIZES, verdicts, strict=True)
        )
        count = sum(verdict.status == "reproduced" for verdict in verdicts)
        if count == len(SIZES):
            return Verdict("reproduced", text)
        return Verdict("in part" if count else "contradicted", text, f"{count} of {len(SIZES)} sizes are faster")

    return judge


def _capacity(path: Path, why: str) -> Judge:
    """Whether 90 MB behind proxies come at the line's rate, once 10 MB are there."""

    def judge(results: Results) -> Verdict:
        row = _by_name(results, path).get("TCP, proxies D")
        before, after = (None, None) if row is None else (row.seconds("10MB"), row.seconds("100MB"))
        if row is None or before is None or after is None:
            return MISSING
        line = row.result.cell.scenario.path.to_client.rate.value / 1e6
        rate = 90 * 8 / (after.median - before.median)
        text = f"{number_text(rate)} of {number_text(line)} Mbit/s from 10 MB to 100 MB (proxies D)"
        return Verdict("reproduced", text) if rate >= _REACHED * line else Verdict("contradicted", text, why)

    return judge


def _defined(scenario: str, metric: str, words: str) -> Judge:
    """Of a case that the slides define and show no figure of: ours over the pairs."""

    def judge(results: Results) -> Verdict:
        found = spread(result.interval(metric, 0, "first") for result in cells(results, scenario))
        if found is None:
            return MISSING
        low, high = number_text(min(found.medians)), number_text(max(found.medians))
        text = f"{words}: {low} to {high} s over {len(found.medians)} pairs"
        return Verdict("not applicable", text, "the slides define the case and show no figure of it")

    return judge


def _best_server(results: Results) -> Verdict:
    """Servers behind picoquic's client."""
    times = {
        result.cell.server.name: span
        for result in cells(results, CASE, "picoquic")
        if (span := result.interval(_ALL, 0, "first")) is not None
    }
    if len(times) < 2 or "picoquic" not in times:
        return MISSING
    text = ", ".join(
        f"{name} {span_text(span)}" for name, span in sorted(times.items(), key=lambda item: item[1].median)
    )
    best = all(times["picoquic"].high < span.low for name, span in times.items() if name != "picoquic")
    return Verdict("reproduced" if best else "contradicted", f"100 MB to picoquic's client: {text} s", "")


def _with_reno(results: Results) -> Verdict:
    """Two picoquics with Reno, beside BBR."""
    by_controller: dict[str, tuple[Interval, ...]] = {}
    passes = True
    for row in neighbours(results):
        for controller in ("reno", "bbr"):
            if f"server.congestion_control {controller}" in row.changed:
                by_controller.setdefault(controller, row.seconds)
                passes &= row.answer == "meets"
    if len(by_controller) < 2:
        return MISSING
    text = "; ".join(
        f"{controller} {' / '.join(map(span_text, seconds))} s" for controller, seconds in by_controller.items()
    )
    lossy = _reno_at_loss(results)
    text += f"; with 1 % loss on 250 Mbit/s, Reno's 100 MB: {lossy}" if lossy else ""
    return Verdict("reproduced" if passes else "contradicted", text, "not so at 1 % loss, which the slide is not about")


def _reno_at_loss(results: Results) -> str:
    for result in cells(results, "studies/profiles-250-3-lossy", *MEETING_PAIR, parameters=True):
        if asked(result).get("server.congestion_control") == "reno":
            return span_text(result.interval(_ALL, 0, "first"))
    return ""


def _curl_misses(scenario: str) -> Judge:
    def judge(results: Results) -> Verdict:
        found = cells(results, scenario, "curl")
        if not found:
            return MISSING
        missed = sum(result.verdict.status == "fail" for result in found)
        text = f"{missed} of {len(found)} servers miss an objective with curl's client"
        return Verdict("reproduced" if missed == len(found) else "in part", text)

    return judge


def _exaggerated(results: Results) -> Verdict:
    """How many times as long other servers take as picoquic's, on either path."""
    texts, ratios = [], []
    for scenario in (CASE, LOSSY):
        times = {
            result.cell.server.name: span.median
            for result in cells(results, scenario, "picoquic")
            if (span := result.interval(_ALL, 0, "first")) is not None
        }
        own = times.pop("picoquic", None)
        if own is None or not times:
            return MISSING
        ratios.append(statistics.median(times.values()) / own)
        texts.append(f"{number_text(ratios[-1])} times" if ratios[-1] < float("inf") else "never, all of them")
    text = f"100 MB from others beside picoquic's server: {texts[0]} on 50/10 Mbit/s, {texts[1]} on 250/3 with loss"
    return Verdict("reproduced" if ratios[1] > ratios[0] else "contradicted", text, "")


def _client_gap(results: Results) -> Verdict:
    """The client of curl beside picoquic's, on either path."""
    ratios = []
    for scenario in ("in-sequence/quic-medium", "in-sequence/quic-large-lossy"):
        curl, own = (figure(results, scenario, _ALL, (client, "picoquic")) for client in ("curl", "picoquic"))
        if curl is None or own is None:
            return MISSING
        ratios.append(curl.median / own.median)
    text = (
        f"from picoquic's server curl takes {number_text(ratios[0])} times picoquic's time on 50/10 Mbit/s, "
        f"{number_text(ratios[1])} times on 250/3 with loss"
    )
    if ratios[1] < ratios[0]:
        return Verdict("reproduced", text)
    window = observed(results, "in-sequence/quic-large-lossy", ("curl", "picoquic"), "client", "connection_window")
    first = f"{max(window) / 1e3:.0f} kB" if window else "not known"
    why = f"not explained; hypothesis: flow control, since curl's first window is {first}"
    return Verdict("contradicted", text, why)


def _limited(results: Results) -> Verdict:
    """The goodput on 250 Mbit/s with loss, and that with a window that allows the document's."""
    span = figure(results, LOSSY, "goodput", MEETING_PAIR)
    if span is None:
        return MISSING
    small = None
    for result in cells(results, LOSSY, *MEETING_PAIR, parameters=True):
        if asked(result) == {"client.connection_window": WINDOW}:
            small = result.interval("goodput", 0, "first")
    text = f"{span_text(span)} Mbit/s"
    text += "" if small is None else f"; {span_text(small)} with a connection window of {WINDOW}"
    if span.low <= LIMIT <= span.high:
        return Verdict("reproduced", text)
    window = observed(results, LOSSY, MEETING_PAIR, "client", "connection_window")
    granted = f"today's client grants {max(window) / 1e6:.0f} MB" if window else "its window is not known"
    return Verdict(
        "contradicted",
        text,
        f"{granted}; {LIMIT:g} Mbit/s on 650 ms are a window of {WINDOW}, which is the slide's reason",
    )


def _more_window(results: Results) -> Verdict:
    """What a larger window of the client is worth, by the study of connection windows."""
    middle = {bdps: times[-1] for bdps, times in middle_by_setting(connection_windows(results)).items()}
    if len(middle) < 2:
        return MISSING
    text = ", ".join(f"{number_text(seconds)} s with {bdps:g}" for bdps, seconds in middle.items())
    least, most = middle[min(middle)], middle[max(middle)]
    text = f"100 MB by bandwidth-delay products of the client's window: {text}"
    return Verdict(
        "reproduced" if most < least else "contradicted", text, "no gain beyond two bandwidth-delay products"
    )


def _default(name: str) -> Judge:
    role, parameter, theirs, unit, factor = _TABLE[name]

    def judge(results: Results) -> Verdict:
        seen = [value * factor for value in observed(results, CASE, MEETING_PAIR, role, parameter)]
        if not seen:
            return MISSING
        nearest = min(seen, key=lambda value: abs(value - theirs))
        text = f"{number_text(nearest)} {unit}"
        if abs(nearest / theirs - 1) <= _SAME:
            return Verdict("reproduced", text)
        return Verdict("contradicted", text, f"picoquic of today: ten times {number_text(nearest / 10)} {unit}")

    return judge


def _exponent(results: Results) -> Verdict:
    """What a client's transport parameters say; 3 by default (RFC 9000 §18.2)."""
    if not cells(results, CASE, *MEETING_PAIR):
        return MISSING
    seen = observed(results, CASE, MEETING_PAIR, "client", "ack_delay_exponent")
    text = f"{seen[0]:g}" if seen else "not among its transport parameters, which means 3 (RFC 9000 §18.2)"
    return Verdict("reproduced" if not seen or seen[0] == 3 else "contradicted", text)


def _controller(results: Results) -> Verdict:
    found = cells(results, CASE, *MEETING_PAIR)
    if not found:
        return MISSING
    known = found[0].cell.server.setting("server", "congestion_control")
    default = "" if known is None or known.default is None else str(known.default)
    return Verdict("reproduced" if default == "bbr" else "contradicted", default or "not known")


def _curl_delays(results: Results) -> Verdict:
    pair = ("curl", "picoquic")
    delay = observed(results, "in-sequence/quic-medium", pair, "client", "max_ack_delay")
    ratio = observed(results, "in-sequence/quic-medium", pair, "client", "ack_ratio")
    if not delay or not ratio:
        return MISSING
    text = f"{1e3 * delay[0]:.0f} ms, {number_text(ratio[0])} packets an acknowledgement"
    same = abs(delay[0] / 0.025 - 1) <= _SAME and abs(ratio[0] / 2 - 1) <= _SAME
    return Verdict("reproduced" if same else "contradicted", text)


def _coalesces(results: Results) -> Verdict:
    """Packets an acknowledgement of picoquic's client, by rate and by how long it may hold one back."""
    own = figure(results, CASE, "ack_ratio", MEETING_PAIR)
    if own is None:
        return MISSING
    texts = [
        f"{span_text(ratio)} on {rate} Mbit/s"
        for scenario, rate in _RATES.items()
        if (ratio := figure(results, scenario, "ack_ratio", MEETING_PAIR)) is not None
    ]
    text = f"{', '.join(texts)} on average"
    if own.low <= 2 * RATIO and own.high >= RATIO / 2:
        return Verdict("reproduced", text)
    return Verdict("contradicted", text, "; ".join(filter(None, [_held_back(results), _by_goodput(results)])))


def _held_back(results: Results) -> str:
    """Packets an acknowledgement where picoquic's client announces another delay than its 10 ms."""
    seen = {}
    for result in cells(results, HELD, "picoquic", "ngtcp2", parameters=True):
        ratio = result.interval("ack_ratio", 0, "first")
        if ratio is not None:
            seen[Duration.parse(asked(result)["client.max_ack_delay"]).seconds] = ratio
    if len(seen) < 2:
        return "not explained"
    listed = ", ".join(f"{span_text(ratio)} with {1e3 * delay:g} ms" for delay, ratio in sorted(seen.items()))
    counts = [ratio.median for ratio in seen.values()]
    follows = max(counts) > 2 * min(counts)
    return f"{'it waits for' if follows else 'it does not wait for'} the max_ack_delay that it announces ({listed})"


def _by_goodput(results: Results) -> str:
    """What comes in 10 ms at each path's mean rate."""
    texts = []
    for scenario, rate in _RATES.items():
        goodput = figure(results, scenario, "goodput", MEETING_PAIR)
        if goodput is not None:
            texts.append(f"{number_text(goodput.median * 1e6 * _HELD / 8 / _FRAME)} on {rate} Mbit/s")
    return f"hypothesis: 10 ms of its own, in which {', '.join(texts)} come at the mean rate" if texts else ""


def _ratio_of_two(results: Results) -> Verdict:
    """Two picoquics, of which the client is told to acknowledge every second packet."""
    own = figure(results, CASE, _ALL, MEETING_PAIR)
    for result in cells(results, "studies/profiles-50-10", *MEETING_PAIR, parameters=True):
        settings = asked(result)
        if settings.get("client.ack_ratio") == "2" and not any(name.startswith("server.") for name in settings):
            told, ratio = result.interval(_ALL, 0, "first"), result.interval("ack_ratio", 0, "first")
            if told is None or own is None:
                return MISSING
            text = f"100 MB in {span_text(told)} s with {span_text(ratio)} packets an acknowledgement, "
            text += f"{span_text(own)} s as it is"
            decides = abs(told.median / own.median - 1) > 0.1
            why = "" if decides else "told 2:1 it takes as long: what makes it fast is [its own start](studies.md)"
            return Verdict("reproduced" if decides else "contradicted", text, why)
    return MISSING


def _remembered(results: Results) -> Verdict:
    """A second connection of picoquic that remembers the path, beside the first."""
    wanted = {"client.zero_rtt": "off", "server.bdp_seed": "jump-start"}
    for result in cells(results, "remembered/same-250-100mb", *MEETING_PAIR, parameters=True):
        if asked(result) == wanted:
            first, repeat = result.interval("completion", 0, "first"), result.interval("completion", 0, "repeat")
            verdict = faster(first, repeat)
            return replace(verdict, here=f"100 MB on 250/3 Mbit/s, first connection and second: {verdict.here}")
    return MISSING


def claims(results: Results) -> Sequence[Claim]:
    """In the order of the slides."""
    focus, lossy = "50/10 Mbit/s", "250/3 Mbit/s, 1 % loss"
    return [
        Claim(
            "In-sequence paths",
            "which segment has high and low rates, delays and losses",
            not_applicable("words without figures; [paths in sequence](in-sequence.md) has one of each"),
        ),
        Claim("Definition of scenarios", "50/10 Mbit/s: download 100 MB", setting(CASE, "the same")),
        Claim("Definition of scenarios", "50/10 Mbit/s: upload 100 MB", _defined("upload/geo", _ALL, "100 MB up")),
        Claim(
            "Definition of scenarios",
            "50/0.5 Mbit/s: download 100 MB",
            _defined("satellite/medium-congested", _ALL, "100 MB"),
        ),
        Claim(
            "Definition of scenarios",
            "50 → 10 Mbit/s after 5 s: download 100 MB",
            _defined("satellite/medium-variable", _ALL, "100 MB"),
        ),
        Claim(
            "Definition of scenarios",
            "250/3 Mbit/s: 100 MB, a wait of 10 s, 100 MB",
            _defined(LARGE, _ALL, "the first 100 MB"),
        ),
        Claim("Definition of scenarios", "250/3 Mbit/s, 1 % lost: download 100 MB", setting(LOSSY, "the same")),
        Claim(
            "Platform",
            "proxies A to D: buffers of 4 to 33 MB, initial windows of 10 and 100",
            setting(MEDIUM.tcp_split, "the same four"),
        ),
        Claim(
            f"{focus}, with split", "with a proxy the channel's capacity is reached", _capacity(MEDIUM, "not explained")
        ),
        Claim(f"{focus}, with split", "with a proxy transmission is shorter", _proxies(MEDIUM)),
        Claim(f"{focus}, with split", "objectives from there: 2 MB 3 s, 10 MB 5 s, 100 MB 20 s", _objectives(MEDIUM)),
        Claim(
            f"{focus}, without split",
            "h2o's server with picoquic's client: too many retransmits of a packet",
            not_applicable(_H2O),
        ),
        Claim(f"{focus}, without split", "picoquic's server performs better", _best_server),
        Claim(f"{focus}, without split", "its controller is BBR, and the trend is confirmed with Reno", _with_reno),
        Claim(
            f"{focus}, without split",
            "do INITIAL_CWND or INITIAL_RTT matter?",
            not_applicable("a question; [game changers](studies.md) answers it"),
        ),
        Claim(
            f"{focus}, without split",
            "picoquic with picoquic meets the objectives, and no other pair",
            only_claim(ONLY_PICOQUIC["medium"], ""),
        ),
        Claim(f"{focus}, without split", "picoquic's client with h2o's server misses them", not_applicable(_H2O)),
        Claim(
            f"{focus}, without split",
            "curl's client misses them with any server",
            _curl_misses("in-sequence/quic-medium"),
        ),
        Claim(
            f"{lossy}, with split", "with a proxy the channel's capacity is reached", _capacity(LARGE_LOSSY, _ACCESS)
        ),
        Claim(
            f"{lossy}, with split",
            "with a proxy transmission is shorter, losses are recovered locally",
            _proxies(LARGE_LOSSY),
        ),
        Claim(
            f"{lossy}, with split", "objectives from there: 2 MB 3 s, 10 MB 6 s, 100 MB 10 s", _objectives(LARGE_LOSSY)
        ),
        Claim(f"{lossy}, without split", "the trends of 50/10 Mbit/s are exaggerated", _exaggerated),
        Claim(f"{lossy}, without split", "picoquic with picoquic is limited to 50 Mbit/s, by flow control", _limited),
        Claim(f"{lossy}, without split", "picoquic's and curl's client differ less than on 50/10 Mbit/s", _client_gap),
        Claim(
            f"{lossy}, without split",
            "picoquic with picoquic alone meets the objectives",
            only_claim(ONLY_PICOQUIC["large-lossy"], "about as many runs meet the objective of 2 MB as miss it"),
        ),
        Claim("Solution 2", "tuning flow control (MAX_STREAM_DATA) can help", _more_window),
        Claim("Solution 2", "knowing the path (0-RTT BDP) can help: a jump to the capacity", _remembered),
        *(Claim("Table of parameters, picoquic", name, _default(name)) for name in _TABLE),
        Claim("Table of parameters, picoquic", "ACK_DELAY_EXPONENT 3", _exponent),
        Claim("Table of parameters, picoquic", "congestion control: BBR", _controller),
        Claim("Table of parameters, curl", "ACK_MAX_DELAY 25 ms, ACK ratio 2:1", _curl_delays),
        Claim(
            "Table of parameters, h2o",
            "1280 B, 10 packets, 100 ms, 2:1, 25 ms, exponent 10, Reno",
            not_applicable(f"{_H2O}; the column is tried on other stacks ([profiles](studies.md))"),
        ),
        Claim(
            "Table of parameters",
            "which parameters are game changers?",
            not_applicable("a question; [game changers](studies.md) answers it"),
        ),
        Claim("ACK strategy", "picoquic begins with ratio 2:1 and soon has 10:1", _coalesces),
        Claim("ACK strategy", "why picoquic meets the objectives: its acknowledgements", _ratio_of_two),
        Claim("Next steps", "picoquic can do better with larger flow control limits on large products", _more_window),
        Claim(
            "Next steps",
            "are its ACKs relevant elsewhere?",
            not_applicable("a question; [game changers](studies.md) answers it"),
        ),
    ]
