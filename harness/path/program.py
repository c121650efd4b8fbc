"""The path program itself, and the pure function that makes it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from harness.model import DropTail, GilbertElliott, Link, LinkChange, Path
from harness.path.arithmetic import burst_bytes, netem_limit, queue_bytes, size_bytes
from harness.units import Duration, Percentage, Rate

#: One command as an argument vector. The interfaces are called `left` (client side) and `right`.
Command = tuple[str, ...]
Side = Literal["left", "right"]


class Record(BaseModel):
    """A frozen part of the program."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TimedCommands(Record):
    """Commands that apply `at_ns` after the client's first datagram."""

    at_ns: int
    commands: tuple[Command, ...]


class LinkProgram(Record):
    """What one direction was compiled to; the link proof compares against these figures."""

    device: str
    """The ifb that holds the bottleneck queue."""
    ingress: Side
    egress: Side
    rate_bps: int
    delay_ns: int
    jitter_ns: int
    burst_bytes: int
    limit_bytes: int | None
    limit_packets: int | None
    discipline: Literal["droptail", "red"]
    mean_loss: float


class LinkState(Record):
    """Figures of a direction from a change on; None where nothing changes."""

    rate_bps: int | None = None
    delay_ns: int | None = None
    burst_bytes: int | None = None
    mean_loss: float | None = None


class PathChange(Record):
    """Figures of a scheduled change."""

    at: float
    to_client: LinkState | None
    to_server: LinkState | None


class PathProgram(Record):
    """The commands, and the figures they stand for."""

    version: Literal[1] = 1
    setup: tuple[Command, ...]
    changes: tuple[TimedCommands, ...]
    links: dict[Literal["to_client", "to_server"], LinkProgram]
    timeline: tuple[PathChange, ...] = ()

    def lines(self) -> list[str]:
        """The program as a person would type it."""
        lines = [" ".join(command) for command in self.setup]
        for change in self.changes:
            lines.append(f"# {change.at_ns / 1e9:g} s after the client's first datagram")
            lines.extend(" ".join(command) for command in change.commands)
        return lines


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.9f}".rstrip("0").rstrip(".") + "%"


def _nanoseconds(duration: Duration) -> str:
    return f"{duration.value}ns"


def _loss(loss: Percentage | GilbertElliott, seed: int) -> list[str]:
    if isinstance(loss, Percentage):
        words = ["loss", "random", _percent(loss.fraction)] if loss.value else []
    else:
        # tc: gemodel p r 1-h 1-k, where 1-h is the loss in the bad state and 1-k in the good one.
        chances = (loss.good_to_bad, loss.bad_to_good, loss.loss_in_bad, loss.loss_in_good)
        words = ["loss", "gemodel", *(_percent(chance.fraction) for chance in chances)]
    return [*words, "seed", str(seed)] if words else []


def _netem(verb: str, link: Link, side: Side, seed: int) -> Command:
    delay = ["delay", _nanoseconds(link.delay)]
    if link.jitter.value:
        delay.append(_nanoseconds(link.jitter))
    return (
        "tc", "qdisc", verb, "dev", side, "root", "handle", "1:", "netem",
        "limit", str(netem_limit(link)), *delay, *_loss(link.loss, seed),
    )  # fmt: skip


def _tbf(verb: str, device: str, rate: Rate, burst: int, limit: int) -> Command:
    return (
        "tc", "qdisc", verb, "dev", device, "root", "handle", "1:", "tbf",
        "rate", f"{rate.value}bit", "burst", str(burst), "limit", str(limit),
    )  # fmt: skip


def red_log_weight(minimum: int, burst: int, average_packet: int) -> int | None:
    """The Wlog that iproute2 takes for these values (tc/tc_red.c, tc_red_eval_ewma), or None."""
    excess = burst + 1 - minimum / average_packet
    if excess < 1:
        return None
    weight = 0.5
    for log in range(1, 32):
        if excess <= (1 - (1 - weight) ** burst) / weight:
            return log
        weight /= 2
    return None


def red_burst(wq: float, minimum: int, average_packet: int) -> int:
    """The burst for which iproute2 takes the power of two nearest to `wq`; ValueError if there is none."""
    wanted = min(range(1, 32), key=lambda log: abs(wq - 2.0**-log) / wq)
    first = max(1, minimum // average_packet)
    fitting = [
        burst for burst in range(first, first + 100_000) if red_log_weight(minimum, burst, average_packet) == wanted
    ]
    if not fitting:
        raise ValueError(f"tc has no burst for wq {wq} with min {minimum} B and avpkt {average_packet} B")
    return fitting[len(fitting) // 2]


def _queue(link: Link, device: str, rtt: Duration) -> tuple[Command, ...]:
    """Commands for a queue that tbf's own byte-limited fifo is not."""
    child = ("tc", "qdisc", "add", "dev", device, "parent", "1:", "handle", "10:")
    queue = link.queue
    if isinstance(queue, DropTail):
        if queue.size.unit != "packets":
            return ()
        return ((*child, "pfifo", "limit", str(round(queue.size.amount))),)
    limit, low, high = (size_bytes(size, link, rtt) for size in (queue.limit, queue.min, queue.max))
    average = queue.average_packet.bytes
    burst = queue.burst if queue.burst is not None else red_burst(queue.wq or 0.002, low, average)
    words = [
        "red", "limit", str(limit), "min", str(low), "max", str(high), "avpkt", str(average),
        "burst", str(burst), "bandwidth", f"{link.rate.value}bit", "probability", f"{queue.probability.fraction:g}",
    ]  # fmt: skip
    return ((*child, *words, *(["ecn"] if queue.ecn else [])),)


def _redirect(side: Side, device: str) -> tuple[Command, ...]:
    rules = (
        ("tc", "filter", "add", "dev", side, "parent", "ffff:", "protocol", protocol, "prio", prio,
         "u32", "match", "u32", "0", "0", "action", "mirred", "egress", "redirect", "dev", device)
        for protocol, prio in (("ip", "1"), ("ipv6", "2"))
    )  # fmt: skip
    return (
        ("ip", "link", "add", device, "type", "ifb"),
        ("ip", "link", "set", "dev", device, "up"),
        ("tc", "qdisc", "add", "dev", side, "handle", "ffff:", "ingress"),
        *rules,
    )


def _direction(link: Link, device: str, ingress: Side, egress: Side, rtt: Duration, seed: int) -> tuple[Command, ...]:
    return (
        *_redirect(ingress, device),
        _tbf("add", device, link.rate, burst_bytes(link), queue_bytes(link, rtt)),
        *_queue(link, device, rtt),
        _netem("add", link, egress, seed),
    )


def _figures(link: Link, device: str, ingress: Side, egress: Side, rtt: Duration) -> LinkProgram:
    packets = isinstance(link.queue, DropTail) and link.queue.size.unit == "packets"
    return LinkProgram(
        device=device,
        ingress=ingress,
        egress=egress,
        rate_bps=link.rate.value,
        delay_ns=link.delay.value,
        jitter_ns=link.jitter.value,
        burst_bytes=burst_bytes(link),
        limit_bytes=None if packets else queue_bytes(link, rtt),
        limit_packets=round(link.queue.size.amount) if packets and isinstance(link.queue, DropTail) else None,
        discipline=link.queue.discipline,
        mean_loss=link.mean_loss,
    )


def _apply(link: Link, change: LinkChange | None) -> Link:
    """The link after a change. Its queue keeps the bytes it had."""
    if change is None:
        return link
    new: dict[str, object] = {
        name: value
        for name in ("rate", "delay", "loss")
        if (value := getattr(change, name)) is not None
    }  # fmt: skip
    return link.model_copy(update=new)


def _changed(before: Link, after: Link, device: str, egress: Side, limit: int, seed: int) -> list[Command]:
    commands: list[Command] = []
    if after.rate != before.rate:
        commands.append(_tbf("change", device, after.rate, burst_bytes(after), limit))
    if after.delay != before.delay or after.loss != before.loss:
        commands.append(_netem("change", after, egress, seed))
    return commands


def _state(before: Link, after: Link) -> LinkState | None:
    if before == after:
        return None
    return LinkState(
        rate_bps=after.rate.value if after.rate != before.rate else None,
        delay_ns=after.delay.value if after.delay != before.delay else None,
        burst_bytes=burst_bytes(after) if after.rate != before.rate else None,
        mean_loss=after.mean_loss if after.loss != before.loss else None,
    )


_DIRECTIONS: tuple[tuple[Literal["to_client", "to_server"], Side, Side], ...] = (
    ("to_client", "right", "left"),
    ("to_server", "left", "right"),
)


def compile_path(path: Path, seed: int = 1) -> PathProgram:
    """The program of a path. `seed` makes netem's loss repeat, packet for packet.

    ValueError for a queue that tc cannot express.
    """
    rtt = path.rtt
    links = {"to_client": path.to_client, "to_server": path.to_server}
    # Queues are sized once: a change of rate keeps the bytes.
    limits = {name: queue_bytes(link, rtt) for name, link in links.items()}
    seeds = {"to_client": seed, "to_server": seed + 1}
    setup: list[Command] = []
    for name, ingress, egress in _DIRECTIONS:
        setup.extend(_direction(links[name], name, ingress, egress, rtt, seeds[name]))
    figures = {name: _figures(links[name], name, ingress, egress, rtt) for name, ingress, egress in _DIRECTIONS}
    changes, timeline = [], []
    for change in path.changes:
        commands: list[Command] = []
        states: dict[str, LinkState | None] = {}
        for name, _, egress in _DIRECTIONS:
            towards_terminal = (name == "to_client") == (path.terminal == "client")
            before = links[name]
            after = _apply(before, change.forward if towards_terminal else change.return_)
            commands.extend(_changed(before, after, name, egress, limits[name], seeds[name]))
            states[name] = _state(before, after)
            links[name] = after
        changes.append(TimedCommands(at_ns=change.at.value, commands=tuple(commands)))
        timeline.append(PathChange(at=change.at.seconds, to_client=states["to_client"], to_server=states["to_server"]))
    return PathProgram(setup=tuple(setup), changes=tuple(changes), links=figures, timeline=tuple(timeline))
