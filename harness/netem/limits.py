"""The limits of tc and of the kernel's queues, which are tighter than those of the scenario format. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from harness.netem.bottleneck import COLD_GAP, find_red_mistake, poisson_rate_error
from harness.netem.bounds import FRAME, Server, queue_bytes, size_bytes
from harness.netem.compile import compile_path
from harness.scenario.schema import FRAME_HEADER, Change, Link, LinkChange, Path, Red
from harness.scenario.validation_errors import Location, Mistake
from harness.units import Duration, Percentage, Rate

#: tc counts sizes in 32 bits (tc/tc_util.c, get_size), and the rate of a service curve in as many bytes per second.
MAX_BYTES = (1 << 32) - 1
MAX_RATE = Rate(8 * MAX_BYTES)
#: The kernel cuts a jitter to what a signed 32-bit number holds, ns (net/sched/sch_netem.c, netem_change).
MAX_JITTER = Duration((1 << 31) - 1)
#: The most bytes in the queues and delay lines of a path: the lab's kernel gets three times as much memory.
MAX_BUFFERED = 1 << 30


def find_inexpressible(path: Path) -> Mistake | None:
    """The first property of a path that one of the engines cannot realise; None where both can realise the path."""
    for mistake in find_mistakes(path):
        return mistake
    for server in get_args(Server):
        try:
            compile_path(path, server)
        except (ValueError, ArithmeticError) as error:
            return Mistake((), str(error))
    return None


def find_mistakes(path: Path) -> Iterator[Mistake]:
    """The properties of a path that tc or the kernel would refuse, or silently change; located in the path."""
    link_mistakes = [
        *_link_mistakes(("forward",), path.forward, path),
        *_link_mistakes(("return",), path.return_, path),
    ]
    for index, change in enumerate(path.changes):
        for name, link, link_change in (
            ("forward", path.forward, change.forward),
            ("return", path.return_, change.return_),
        ):
            if link_change is not None:
                link_mistakes += _change_mistakes(("changes", index, name), link, link_change)
    yield from link_mistakes
    queues = sum(queue_bytes(link, path.rtt) for link in (path.forward, path.return_))
    buffered = queues + _bytes_in_flight("forward", path) + _bytes_in_flight("return", path)
    if not link_mistakes and buffered > MAX_BUFFERED:
        text = f"queues and delays hold {buffered / 1e9:.1f} GB, and a lab has room for {MAX_BUFFERED / 1e9:.1f} GB"
        yield Mistake((), text, "give it smaller queues, less delay or a lower rate")


def _link_mistakes(location: Location, link: Link, path: Path) -> Iterator[Mistake]:
    yield from _rate_mistakes((*location, "rate"), link.rate)
    if link.jitter > MAX_JITTER:
        yield Mistake(
            (*location, "jitter"), f"netem has no jitter beyond {MAX_JITTER.seconds:.1f} s", "write '10 ms', say"
        )
    if link.burst is not None and link.burst.bytes > MAX_BYTES:
        yield Mistake((*location, "burst"), f"tc has no bucket beyond {MAX_BYTES} B", "write '15 kB', say")
    if link.loss == Percentage(10**9) and not any(_changes_loss(location, change) for change in path.changes):
        yield Mistake(
            (*location, "loss"), "every packet is lost, from beginning to end", "write '1 %', say, or let it change"
        )
    service = link.service
    if service is not None and 0 < service.cold_start.value < COLD_GAP.value:
        text = f"a cold start has an opportunity every {COLD_GAP}, and this one ends before that"
        yield Mistake((*location, "service", "cold_start"), text, "write '5 s', say, or leave it out")
    if service is not None and (cause := poisson_rate_error(link, path.mtu)):
        yield Mistake((*location, "rate"), cause, "write '1 Mbit/s', say")
    yield from _queue_mistakes((*location, "queue"), link, path)


def _changes_loss(location: Location, change: Change) -> bool:
    """Whether a change ends or begins the loss of a direction."""
    new = change.forward if location == ("forward",) else change.return_
    return new is not None and new.loss is not None


def _queue_mistakes(location: Location, link: Link, path: Path) -> Iterator[Mistake]:
    limit, frame = queue_bytes(link, path.rtt), path.mtu + FRAME_HEADER
    if limit > MAX_BYTES:
        yield Mistake(
            location, f"{link.held} are {limit} B here, and tc has no queue beyond {MAX_BYTES} B", "write '1 BDP'"
        )
    elif limit < frame:
        text = f"{link.held} are {limit} B here, less than one frame ({frame} B): no full packet would pass"
        yield Mistake(location, text, f"write '{frame} B' or more")
    elif isinstance(link.queue, Red):
        low, high = (size_bytes(size, link, path.rtt) for size in (link.queue.min, link.queue.max))
        red_error = find_red_mistake(link.queue, low, high, link.rate, FRAME)
        if red_error is not None:
            key, text, hint = red_error
            yield Mistake((*location, key), text, hint)


def _rate_mistakes(location: Location, rate: Rate) -> Iterator[Mistake]:
    if rate > MAX_RATE:
        yield Mistake(location, f"tc has no rate beyond {MAX_RATE}", "write '10 Gbit/s', say")


def _change_mistakes(location: Location, link: Link, new: LinkChange) -> Iterator[Mistake]:
    if new.rate is not None:
        yield from _rate_mistakes((*location, "rate"), new.rate)
    if new.delay is not None and new.delay < link.jitter:
        yield Mistake((*location, "delay"), f"the jitter of {link.jitter} exceeds it", f"write '{link.jitter}' or more")


def _bytes_in_flight(name: str, path: Path) -> float:
    """The most bytes in flight in a direction's delay at any time."""
    link = path.forward if name == "forward" else path.return_
    changes = [
        new for change in path.changes if (new := change.forward if name == "forward" else change.return_) is not None
    ]
    rate = max([link.rate.value, *(new.rate.value for new in changes if new.rate is not None)])
    delay = max([link.delay.seconds, *(new.delay.seconds for new in changes if new.delay is not None)])
    return rate / 8 * (delay + link.jitter.seconds)
