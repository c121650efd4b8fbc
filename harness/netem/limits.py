"""The limits of tc and of the kernel's queues, which are tighter than those of the scenario format. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from pydantic import ValidationError

from harness.netem import patterns
from harness.netem.bottleneck import COLD_GAP, MAX_BUCKET_TICKS, bucket_ticks, find_red_mistake, poisson_rate_error
from harness.netem.bounds import FRAME, Server, queue_bytes, size_bytes
from harness.netem.compile import compile_path
from harness.netem.link_states import link_states, unchangeable
from harness.scenario import validation_errors
from harness.scenario.schema import (
    FRAME_HEADER,
    Change,
    Jitter,
    Link,
    LinkChange,
    Path,
    Policer,
    Red,
    Reorder,
    fixed,
    largest,
    smallest,
)
from harness.scenario.validation_errors import Location, Mistake
from harness.units import Duration, Percentage, Rate

#: tc counts sizes in 32 bits (tc/tc_util.c, get_size), and the rate of a service curve in as many bytes per second.
MAX_BYTES = (1 << 32) - 1
MAX_RATE = Rate(8 * MAX_BYTES)
#: The kernel cuts a jitter to what a signed 32-bit number holds, ns (net/sched/sch_netem.c, netem_change).
MAX_JITTER = Duration((1 << 31) - 1)
#: The most bytes in the queues and delay lines of a path: the lab's kernel gets three times as much memory.
MAX_BUFFERED = 1 << 30


def find_inexpressible(path: Path, horizon: Duration) -> Mistake | None:
    """The first property of a path that one of the engines cannot realise; None where both can realise the path.

    `horizon`: by when no flow can still be running, so that no change comes again.
    """
    for mistake in (*find_mistakes(path), *patterns.find_mistakes(path, horizon)):
        return mistake
    for realised in patterns.extremes(path, horizon):
        for mistake in _state_mistakes(path, realised):
            return mistake
        for server in get_args(Server):
            try:
                compile_path(realised, server)
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
        for name, link_change in change.sides:
            link = path.forward if name == "forward" else path.return_
            link_mistakes += _change_mistakes(("changes", index, name), link, link_change)
    yield from link_mistakes
    queues = sum(queue_bytes(link, path.rtt) for link in (path.forward, path.return_))
    buffered = queues + _bytes_in_flight("forward", path) + _bytes_in_flight("return", path)
    if not link_mistakes and buffered > MAX_BUFFERED:
        text = f"queues and delays hold {buffered / 1e9:.1f} GB, and a lab has room for {MAX_BUFFERED / 1e9:.1f} GB"
        yield Mistake((), text, "give it smaller queues, less delay or a lower rate")


def _link_mistakes(location: Location, link: Link, path: Path) -> Iterator[Mistake]:
    yield from _rate_mistakes((*location, "rate"), link.rate)
    if link.variation.deviation > MAX_JITTER:
        yield Mistake(
            (*location, "jitter"), f"netem has no jitter beyond {MAX_JITTER.seconds:.1f} s", "write '10 ms', say"
        )
    if link.burst is not None and link.burst.bytes > MAX_BYTES:
        yield Mistake((*location, "burst"), f"tc has no bucket beyond {MAX_BYTES} B", "write '15 kB', say")
    if link.loss == Percentage(10**9) and not any(_changes_loss(location, change) for change in path.changes):
        yield Mistake(
            (*location, "loss"), "every packet is lost, from beginning to end", "write '1 %', say, or let it change"
        )
    service = link.poisson
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


def _queue_mistakes(location: Location, link: Link, path: Path, rtt: Duration | None = None) -> Iterator[Mistake]:
    limit, frame = queue_bytes(link, rtt or path.rtt), path.mtu + FRAME_HEADER
    if isinstance(link.queue, Policer):
        yield from _policer_mistakes((*location, "burst"), link.queue, link.rate, frame)
    elif limit > MAX_BYTES:
        yield Mistake(
            location,
            f"{link.queue.capacity} are {limit} B here, and tc has no queue beyond {MAX_BYTES} B",
            "write '1 BDP'",
        )
    elif limit < frame:
        text = f"{link.queue.capacity} are {limit} B here, less than one frame ({frame} B): no full packet would pass"
        yield Mistake(location, text, f"write '{frame} B' or more")
    elif isinstance(link.queue, Red):
        low, high = (size_bytes(size, link, path.rtt) for size in (link.queue.min, link.queue.max))
        red_error = find_red_mistake(link.queue, low, high, link.rate, FRAME)
        if red_error is not None:
            key, text, hint = red_error
            yield Mistake((*location, key), text, hint)


def _policer_mistakes(location: Location, queue: Policer, rate: Rate, frame: int) -> Iterator[Mistake]:
    burst = queue.burst
    if burst.bytes < frame:
        text = f"a bucket of {burst} holds less than one frame ({frame} B): no full packet would pass"
        yield Mistake(location, text, f"write '{frame} B' or more")
    elif burst.bytes > MAX_BYTES or bucket_ticks(burst.bytes, rate) > MAX_BUCKET_TICKS:
        seconds, most = rate.time_for(burst.bytes), MAX_BUCKET_TICKS * 64 / 1e9
        text = f"a bucket of {burst} takes {seconds:.0f} s to fill at {rate}, and tc has {most:.0f} s"
        yield Mistake(location, text, "write '100 kB', say")


def _rate_mistakes(location: Location, rate: Rate) -> Iterator[Mistake]:
    if rate > MAX_RATE:
        yield Mistake(location, f"tc has no rate beyond {MAX_RATE}", "write '10 Gbit/s', say")


def _change_mistakes(location: Location, link: Link, new: LinkChange) -> Iterator[Mistake]:
    if new.rate is not None:
        yield from _rate_mistakes((*location, "rate"), largest(new.rate))
        if isinstance(link.queue, Policer) and _bucket_is_too_slow(link.queue, smallest(new.rate)):
            text = f"at {smallest(new.rate)} a bucket of {link.queue.burst} takes longer to fill than tc can say"
            yield Mistake((*location, "rate"), text, "write a higher rate, or a smaller burst")
    if new.reorder is not None and _is_ahead(link.reorder, new.reorder):
        text = "packets that are some time ahead stay so: no change can begin or end that"
        yield Mistake((*location, "reorder"), text, "leave out ahead")
    if isinstance(new.jitter, Jitter) and link.variation.deviation.value:
        for name in ("distribution", "order", "correlation"):
            if (had := getattr(link.variation, name)) != getattr(new.jitter, name):
                text = f"netem keeps the {name} of its jitter, and that is {had}"
                yield Mistake((*location, "jitter"), text, f"write {name}: {had}, or a time alone")
    if new.queue is not None and link.service is not None:
        yield Mistake((*location, "queue"), "a service process keeps its queue", "leave out the queue of the change")
    elif new.queue is not None and (why := unchangeable(link.queue)):
        yield Mistake((*location, "queue"), why, "leave out the queue of the change, or write another discipline")


def _is_ahead(*values: Reorder | str | None) -> bool:
    return any(isinstance(value, Reorder) and value.ahead is not None for value in values)


def _state_mistakes(path: Path, realised: Path) -> Iterator[Mistake]:
    """States that no link can have, at the first change of `path` that leads to one.

    `realised`: the path with its changes as they come in a run.
    """
    for index, change in enumerate(realised.changes):
        for name, new in change.sides:
            if (
                new.queue is not None
                and new.queue.unit not in ("B", "packets")
                and not _rate_then(realised, index, name)
            ):
                text = f"{new.queue} of a rate of 0 bit/s are nothing"
                yield Mistake(_origin(path, change, name, "queue"), text, "write bytes or packets")
                return
    checked: set[tuple[object, ...]] = set()
    states = link_states(realised)
    for index, change in enumerate(realised.changes, 1):
        for name in ("forward", "return"):
            first = realised.forward if name == "forward" else realised.return_
            state = states[realised.direction(name)][index]
            facts = (name, state.delay, state.jitter, state.reorder, state.queue)
            if facts in checked:
                continue
            checked.add(facts)
            try:
                # Of a rate of 0, which no link has from the start, nothing else depends.
                Link.model_validate({**dict(state), "rate": first.rate})
            except ValidationError as errors:
                (problem, *_) = validation_errors.find_mistakes(errors, {})
                keys = ("delay", "jitter", "reorder")
                yield Mistake(_origin(path, change, name, *keys), problem.text, problem.hint)
                return
            if state.queue != first.queue:
                rtt = states["to_client"][index].delay + states["to_server"][index].delay
                for mistake in _queue_mistakes((), state, realised, rtt):
                    yield Mistake(_origin(path, change, name, "queue"), mistake.text, mistake.hint)
                    return


def _rate_then(realised: Path, index: int, name: str) -> int:
    """The rate of a direction from a change on, bit/s."""
    rate = (realised.forward if name == "forward" else realised.return_).rate
    for change in realised.changes[: index + 1]:
        for side, new in change.sides:
            if side == name and new.rate is not None:
                rate = fixed(new.rate)
    return rate.value


def _origin(path: Path, change: Change, name: str, *keys: str) -> Location:
    """The entry of a path that a realised change comes of: the last one whose time fits, and that names a key."""
    fitting: Location = ()
    for index, entry in enumerate(path.changes):
        since = change.at.value - entry.at.value
        if since < 0 or (since % entry.every.value if entry.every is not None else since):
            continue
        for side, new in entry.sides:
            for key in keys:
                if side == name and key in new.named:
                    fitting = ("changes", index, side, key)
    return fitting


def _bucket_is_too_slow(queue: Policer, rate: Rate) -> bool:
    return bucket_ticks(queue.burst.bytes, rate) > MAX_BUCKET_TICKS


def _bytes_in_flight(name: str, path: Path) -> float:
    """The most bytes in flight in a direction's delay at any time."""
    link = path.forward if name == "forward" else path.return_
    changes = [
        new for change in path.changes if (new := change.forward if name == "forward" else change.return_) is not None
    ]
    rate = max([link.rate.value, *(largest(new.rate).value for new in changes if new.rate is not None)])
    delay = max([link.delay.seconds, *(largest(new.delay).seconds for new in changes if new.delay is not None)])
    jitter = max([link.variation.largest.seconds, *(_most_jitter(link, new) for new in changes)])
    return rate / 8 * (delay + jitter)


def _most_jitter(link: Link, new: LinkChange) -> float:
    """The most by which delays may differ from their mean after a change, s; 0 where it names no jitter."""
    if new.jitter is None:
        return 0.0
    jitter = largest(new.jitter)
    variation = jitter if isinstance(jitter, Jitter) else link.variation.model_copy(update={"deviation": jitter})
    return variation.largest.seconds
