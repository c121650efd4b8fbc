"""The cost of a client's move, and the reaction of the server's stack.

Times count from the requested time of the move; for the client's own actions, from the time when it was to act. Data
for the client count on any path. A move that came after the end of its transfer has none of these metrics.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.handover import ClientMove, client_moves
from harness.analysis.handover.handover import delivered_bytes, delivery_gap_ns, spurious_packets, validation
from harness.analysis.handover.window import OFF_SHARE
from harness.analysis.metric_registry import Caution, Finding, measures
from harness.analysis.metrics.kinds import Absent, MetricResult, Value, move_metric
from harness.analysis.run_view import RunView, Unavailable
from harness.capture.key_log import Sender
from harness.outcome import Handover
from harness.scenario.metric_names import MetricName

_LEFT, _RIGHT, _BOTH, _OPENED, _QLOG = (
    "left capture",
    "right capture",
    "both captures",
    "left capture, decrypted",
    "qlog",
)
#: The interval of the paper's handover throughput (S.-Y. Kim, S.-J. Koh, Adaptive Control of Congestion Window in QUIC,
#: §III.C), ns.
HANDOVER_NS = 100_000_000
_SOURCE = "the server's qlog, and the captures' clock"


def handovers(view: RunView) -> tuple[Handover, ...]:
    """Every move with the reaction of the server's stack, as a record."""
    return tuple(moved.handover for moved in client_moves(view))


@measures
def unseen_moves(view: RunView) -> Iterator[Finding]:
    """Yield a caution for each move that cannot be measured."""
    for moved in client_moves(view):
        if moved.why_unmeasurable:
            name = MetricName("", moved.facts.flow, moved.window.name, move=moved.number).text(len(view.flows))
            yield Caution(
                f"{name.rstrip('_')}: {moved.move.how} at {moved.move.at:g} s is not observed: {moved.why_unmeasurable}"
            )


@move_metric(
    unit="ms",
    better="lower",
    title="until the client's first datagram from its new address left it",
    formula="moment - when the client was to move, or its path to rewrite its address",
    source="left capture",
)
def address_used(moved: ClientMove) -> MetricResult:
    """When the client used its new address."""
    if moved.sent_ns is None:
        return Absent("the first datagram from the new address was not captured at the client")
    return Value((moved.sent_ns - moved.due_ns) / 1e6, _LEFT)


@move_metric(
    unit="ms",
    better="lower",
    title="until the first datagram from the new address came to the server",
    formula="moment - when the client was to move, or its path to rewrite its address",
    source="right capture",
)
def address_seen(moved: ClientMove) -> MetricResult:
    """When the server could know of the move."""
    assert moved.arrived_ns is not None, "moves with nothing to measure are left out"
    return Value((moved.arrived_ns - moved.due_ns) / 1e6, _RIGHT)


@move_metric(
    unit="ms",
    better="lower",
    title="until the server's first data for the new address left it",
    formula="moment - when the first datagram from there came",
    source="right capture, decrypted where there are keys; RFC 9000 §9.3",
)
def address_answered(moved: ClientMove) -> MetricResult:
    """When the server switched to the new address."""
    assert moved.arrived_ns is not None, "moves with nothing to measure are left out"
    if moved.switched_ns is None:
        return Absent("the server sent no data to the new address")
    return Value((moved.switched_ns - moved.arrived_ns) / 1e6, _RIGHT)


@move_metric(
    unit="ms",
    better="lower",
    title="time in which the server validated the new path",
    formula="its first PATH_CHALLENGE there that was answered → the matching PATH_RESPONSE",
    source="both captures, decrypted; RFC 9000 §8.2, §9.3",
)
def path_validation(moved: ClientMove) -> MetricResult:
    """The server's path validation."""
    return _validation(moved, "server")


@move_metric(
    unit="ms",
    better="lower",
    title="time in which the client validated the new path",
    formula="its first PATH_CHALLENGE there that was answered → the matching PATH_RESPONSE",
    source="both captures, decrypted; RFC 9000 §8.2, §9.1",
)
def path_probe(moved: ClientMove) -> MetricResult:
    """The client's path validation, if it is told to probe."""
    return _validation(moved, "client") if moved.move.how == "migrate" else None


def _validation(moved: ClientMove, by: Sender) -> MetricResult:
    if not moved.view.decrypted_packets(moved.window, by):
        return Absent("there are no keys to read packets with")
    exchange = validation(moved, by)
    if exchange is None:
        return Absent(f"no PATH_CHALLENGE of the {by}'s that was answered could be read on the new path")
    return Value(exchange.seconds * 1e3, _OPENED)


@move_metric(
    unit="ms",
    better="lower",
    title="silence at the client between data for its old address and for the new one",
    formula="first datagram for the new address - last one for the old; 0 where they overlap; datagrams from 1000 B on",
    source="both captures",
)
def delivery_gap(moved: ClientMove) -> MetricResult:
    """For how long no data arrived."""
    gap = delivery_gap_ns(moved)
    return Absent(gap.text) if isinstance(gap, Unavailable) else Value(gap / 1e6, _BOTH)


@move_metric(
    unit="B",
    better="higher",
    title="payload of UDP that came to the client within 100 ms of the move",
    formula="Σ payload of the datagrams that came then, by whatever path",
    source="both captures",
)
def delivered_100ms(moved: ClientMove) -> MetricResult:
    """Bytes received in 100 ms."""
    return _delivered(moved, HANDOVER_NS)


@move_metric(
    unit="B",
    better="higher",
    title="payload of UDP that came to the client within 500 ms of the move",
    formula="as delivered_100ms",
    source="both captures",
)
def delivered_500ms(moved: ClientMove) -> MetricResult:
    """Bytes received in 500 ms."""
    return _delivered(moved, 500_000_000)


@move_metric(
    unit="B",
    better="higher",
    title="payload of UDP that came to the client within 2 s of the move",
    formula="as delivered_100ms",
    source="both captures",
)
def delivered_2s(moved: ClientMove) -> MetricResult:
    """Bytes received in 2 s."""
    return _delivered(moved, 2_000_000_000)


def _delivered(moved: ClientMove, span_ns: int) -> MetricResult:
    size = delivered_bytes(moved, span_ns)
    return Absent(size.text) if isinstance(size, Unavailable) else Value(size, _BOTH)


@move_metric(
    unit="Mbit/s",
    better="higher",
    title="rate at which data came in the first 100 ms from the move on",
    formula="8·delivered_100ms / 100 ms",
    source="both captures; S.-Y. Kim, S.-J. Koh, Adaptive Control of Congestion Window in QUIC, §III.C",
)
def handover_throughput(moved: ClientMove) -> MetricResult:
    """The paper's figure of merit."""
    size = delivered_bytes(moved, HANDOVER_NS)
    return Absent(size.text) if isinstance(size, Unavailable) else Value(8e3 * size / HANDOVER_NS, _BOTH)


@move_metric(
    unit="1",
    better="lower",
    title="packets that brought the client nothing but data it had, within 2 s of the move",
    formula="packets of which all STREAM frames that could be read had come before",
    source="left capture, decrypted",
)
def spurious_retransmissions(moved: ClientMove) -> MetricResult:
    """Packets that were sent again without need."""
    count = spurious_packets(moved)
    return Absent(count.text) if isinstance(count, Unavailable) else Value(count, _OPENED)


@move_metric(
    unit="B",
    better="neutral",
    title="congestion window when the first datagram from the new address came",
    formula="the last value before",
    source=_SOURCE,
)
def cwnd_before(moved: ClientMove) -> MetricResult:
    """The congestion window of the old path."""
    return _value_or_absent(moved.window_answer.before, moved.window_answer.evidence)


@move_metric(
    unit="B",
    better="neutral",
    title="congestion window as the server's answer to the move left it",
    formula="the initial value that it was set back to, what a step made of it, its least value after losses, or what "
    "it was",
    source=_SOURCE,
)
def cwnd_after(moved: ClientMove) -> MetricResult:
    """The congestion window of the new path."""
    return _value_or_absent(moved.window_answer.after, moved.window_answer.evidence)


@move_metric(
    unit="1",
    better="neutral",
    title="share of the congestion window that was kept",
    formula="cwnd_after / cwnd_before",
    source=_SOURCE,
)
def cwnd_kept(moved: ClientMove) -> MetricResult:
    """How much of the window remained after the move."""
    answer = moved.window_answer
    if answer.before is None or answer.after is None:
        return Absent(answer.evidence)
    return Value(answer.after / answer.before, _QLOG)


@move_metric(
    unit="B",
    better="neutral",
    title="slow start threshold before the move",
    formula="the last value before",
    source="the server's qlog; RFC 9002 §7.3",
)
def ssthresh_before(moved: ClientMove) -> MetricResult:
    """The slow start threshold of the old path."""
    return _ssthresh(moved, moved.arrived_ns)


@move_metric(
    unit="B",
    better="neutral",
    title="slow start threshold after the move",
    formula="the value when the congestion window was cwnd_after",
    source="the server's qlog; RFC 9002 §7.3",
)
def ssthresh_after(moved: ClientMove) -> MetricResult:
    """The slow start threshold of the new path."""
    answer_ns = moved.window_answer.reaction_ns
    return _ssthresh(moved, None if answer_ns is None else answer_ns + 1)


def _ssthresh(moved: ClientMove, moment_ns: int | None) -> MetricResult:
    state = moved.state
    if isinstance(state, Unavailable):
        return Absent(state.text)
    value = None if moment_ns is None else state.figure("ssthresh").before(moment_ns)
    return _value_or_absent(value, "the server's qlog tells no slow start threshold by then")


@move_metric(
    unit="ms",
    better="neutral",
    title="smoothed round-trip time when the first datagram from the new address came",
    formula="the last value before",
    source=_SOURCE,
)
def srtt_before(moved: ClientMove) -> MetricResult:
    """The estimate of the old path."""
    return _value_or_absent(moved.rtt_answer.before, moved.rtt_answer.evidence)


@move_metric(
    unit="ms",
    better="neutral",
    title="smoothed round-trip time once the server sent to the new address",
    formula="the first value after address_answered",
    source=_SOURCE,
)
def srtt_after(moved: ClientMove) -> MetricResult:
    """The estimate of the new path."""
    return _value_or_absent(moved.rtt_answer.after, f"no value is told after the move ({moved.rtt_answer.evidence})")


@move_metric(
    unit="ms",
    better="lower",
    title=f"how long the smoothed round-trip time was off by more than {OFF_SHARE:.0%}",
    formula="first value within that of the round trip of the last packets by the new path - address_seen",
    source=f"{_SOURCE}; RFC 9002 §5",
)
def rtt_estimate_off(moved: ClientMove) -> MetricResult:
    """How long the sender's timers were those of another path."""
    off, evidence = moved.rtt_answer.settling_ns, moved.rtt_answer.evidence
    return Absent(f"no value is right by then ({evidence})") if off is None else Value(off / 1e6, _QLOG)


@move_metric(
    unit="1",
    better="lower",
    title="round-trip times of the old path's packets after the server's switch",
    formula="samples r at t with t - r before the server's first data for the new address",
    source=f"{_SOURCE}; RFC 9000 §9.4 forbids them to count for the new path",
)
def old_path_samples(moved: ClientMove) -> MetricResult:
    """Whether ACKs of the old path updated the new path's estimate."""
    count = moved.rtt_answer.old_samples
    return Absent("the server's qlog tells no samples of the round-trip time") if count is None else Value(count, _QLOG)


def _value_or_absent(value: float | None, why: str) -> MetricResult:
    return Absent(why or "the server's qlog does not tell") if value is None else Value(value, _QLOG)
