"""The states of a path's links: at first, and after each of its changes. Pure."""

from __future__ import annotations

from harness.netem.bounds import FRAME, queue_bytes
from harness.netem.program import Direction
from harness.scenario.schema import Cake, DropTail, Jitter, Link, LinkChange, Path, Queue, Red, Sfq, fixed
from harness.units import Duration, QueueSize, Size


def link_states(path: Path) -> dict[Direction, tuple[Link, ...]]:
    """Each direction at first, and after each change of a path whose changes are plain (`Path.is_plain`).

    A queue that a change resizes has a size in bytes or packets from then on. ValueError for ranges, and for a size
    that is nothing at the rate in force.
    """
    to_client, to_server = [path.to_client], [path.to_server]
    for change in path.changes:
        sides = path.change_to_client(change), path.change_to_server(change)
        down, up = _apply(to_client[-1], sides[0]), _apply(to_server[-1], sides[1])
        rtt = down.delay + up.delay
        to_client.append(_resize(down, sides[0], rtt))
        to_server.append(_resize(up, sides[1], rtt))
    return {"to_client": tuple(to_client), "to_server": tuple(to_server)}


def _apply(link: Link, change: LinkChange | None) -> Link:
    """The link after a change, but for its queue, which keeps its bytes."""
    if change is None:
        return link
    updates: dict[str, object] = {
        name: fixed(value)
        for name in ("rate", "delay", "loss", "duplicate", "mtu")
        if (value := getattr(change, name)) is not None
    }
    if change.jitter is not None:
        updates["jitter"] = _varied(link.variation, change)
    if change.reorder is not None:
        updates["reorder"] = None if change.reorder == "none" else change.reorder
    return link.model_copy(update=updates)


def _varied(variation: Jitter, change: LinkChange) -> Jitter:
    new = fixed(change.jitter)
    return new if isinstance(new, Jitter) else variation.model_copy(update={"deviation": new})


def _resize(link: Link, change: LinkChange | None, rtt: Duration) -> Link:
    """The link with its queue's new limit: of bytes or of packets, as the queue counts."""
    if change is None or change.queue is None:
        return link
    queue, size = link.queue, change.queue
    held = size.bytes_at(link.rate, rtt, FRAME)
    if why := unchangeable(queue):
        raise ValueError(why)
    if isinstance(queue, Cake):
        return link.model_copy(update={"queue": queue.model_copy(update={"limit": Size(held)})})
    if isinstance(queue, DropTail) and queue.size.unit != "packets":
        return link.model_copy(update={"queue": DropTail(size=QueueSize.parse(f"{held} B"))})
    packets = QueueSize.parse(f"{held // FRAME} packets")
    key = "size" if isinstance(queue, DropTail) else "limit"
    return link.model_copy(update={"queue": queue.model_copy(update={key: packets})})


def unchangeable(queue: Queue) -> str:
    """Why a queue cannot be given another limit while it is in use; empty where it can."""
    if isinstance(queue, Red):
        return "RED loses what waits when its limit changes (net/sched/sch_red.c, __red_change)"
    if isinstance(queue, Sfq):
        return "SFQ cannot be changed (net/sched/sch_sfq.c, sfq_qdisc_ops)"
    return ""


def queue_limit(link: Link, rtt: Duration) -> int:
    """The limit of a queue as tc is told it: packets, or bytes for a drop-tail queue of bytes and for CAKE."""
    queue = link.queue
    if isinstance(queue, DropTail):
        return round(queue.size.amount) if queue.size.unit == "packets" else queue_bytes(link, rtt)
    if isinstance(queue, Cake):
        return queue.limit.bytes
    return max(1, queue_bytes(link, rtt) // FRAME)
