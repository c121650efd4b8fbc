"""What a packet meets on its way out: its own time at a serial link, then delay, jitter and loss."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from harness.netem.bottleneck import READY_PORT
from harness.netem.bounds import Server, burst_bytes, netem_limit
from harness.netem.program import Command, Side
from harness.scenario.schema import GilbertElliott, Link
from harness.units import Duration, Percentage

Access = Mapping[str, Duration]
"""Addresses of endpoints with an access delay of their own → the delay."""

#: How long the answer of the simulator's gate may take, and what loss it may meet, before it is spared both. A client
#: gives each attempt to reach the gate 10 s, and the gate itself 60 s (images/endpoint/wait-for-sim).
_GATE_DELAY, _GATE_LOSS = Duration.parse("8 s"), 0.5


def spares_gate(states: Sequence[Link], side: Side, access: Access) -> bool:
    """Whether an egress lets the answers of the simulator's gate past its delay and loss: that of any state, and the
    loss that it begins with.

    These are no packets of the emulated path: a client asks the gate whether the path is up. On most paths they are
    delayed all the same, and a program says what it always said.
    """
    more = max([Duration(0), *access.values()])
    slow = max(link.delay + link.jitter + more for link in states) > _GATE_DELAY
    return side == "left" and (slow or states[0].mean_loss >= _GATE_LOSS)


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


def netem(verb: str, link: Link, side: Side, place: Command, more: Duration, seed: int, room: int = 0) -> Command:
    """Delay and loss at one place of the egress.

    `more`: an access delay on top of the link's own. `room`: packets that it must be able to hold at least.
    """
    delay = ["delay", _nanoseconds(link.delay + more)]
    if link.jitter.value:
        delay.append(_nanoseconds(link.jitter))
    return (
        "tc", "qdisc", verb, "dev", side, *place, "netem",
        "limit", str(max(room, netem_limit(link.model_copy(update={"delay": link.delay + more})))), *delay,
        *_loss(link.loss, seed),
    )  # fmt: skip


def is_serial(link: Link, server: Server) -> bool:
    """Whether the link sends packets one after the other, each in its own time."""
    return link.service is None and burst_bytes(link, server) is None


def phase_seed(seed: int, phase: int) -> int:
    """The seed of a netem from its direction's change (or outage) number `phase` on, counted from 1; 0 is the start.

    tc can change a netem only by seeding it anew (net/sched/sch_netem.c, netem_change): with the same seed each phase
    would lose the same packets, counted from its beginning.
    """
    if not phase:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} {phase}".encode()).digest()[:8], "big") >> 1


def _top(serial: bool) -> tuple[Command, str]:
    """Place and handle of what delays: the egress's root, or below the netem that takes a packet's time."""
    return (("parent", "1:", "handle", "2:"), "2:") if serial else (("root", "handle", "1:"), "1:")


def netem_places(access: Access, serial: bool, gate: bool = False) -> list[tuple[Command, Duration]]:
    """Where the netems of an egress are, and their access delays: the top alone, or the classes of a prio.

    `gate`: whether the prio has one class more, without a netem, for the answers of the simulator's gate.
    """
    delays = sorted(set(access.values()))
    place, top = _top(serial)
    if not delays and not gate:
        return [(place, Duration(0))]
    return [
        (("parent", f"{top}{band:x}", "handle", f"{band + 0x10:x}:"), delay)
        for band, delay in enumerate((Duration(0), *delays), 1)
    ]


def transmission(verb: str, link: Link, side: Side, limit: int) -> Command:
    """The second half of a serial server: a packet leaves after its own time, and behind the one before.

    net/sched/sch_netem.c, netem_enqueue: max(now, when the last leaves) + length/rate, in ns. It keeps the order of
    packets, which jitter and a falling delay do not, so that it is no part of the netem that delays.
    """
    return (
        "tc", "qdisc", verb, "dev", side, "root", "handle", "1:", "netem", "limit", str(limit),
        "rate", f"{link.rate.value}bit",
    )  # fmt: skip


def egress_room(states: Sequence[Link], access: Access) -> int:
    """Packets that the egress of one direction may hold in any state of the path; a netem counts those inside it."""
    more = max([Duration(0), *access.values()])
    most = {"rate": max(link.rate for link in states), "delay": max(link.delay for link in states) + more}
    return netem_limit(states[0].model_copy(update=most))


def egress_of(
    link: Link, side: Side, access: Access, seed: int, room: int, serial: bool, gate: bool = False, *, varies: bool
) -> tuple[Command, ...]:
    """A serial server's transmission; then delay, jitter and loss of one direction, with its flows' access delays.

    `room`: packets that it may hold in any state of the path. `varies`: there are several. `gate`: whether the answers
    of the simulator's gate meet nothing of that but the transmission.
    """
    ahead = (transmission("add", link, side, room),) if serial else ()
    places = netem_places(access, serial, gate)
    netems = tuple(
        netem("add", link, side, place, more, seed + 2 * band, room if varies else 0)
        for band, (place, more) in enumerate(places)
    )
    if len(places) == 1 and not gate:
        return (*ahead, *netems)
    bands = {delay: band for band, (_, delay) in enumerate(places, 1)}
    place, top = _top(serial)
    classes = ("prio", "bands", str(len(places) + gate), "priomap", *["0"] * 16)
    prio = ("tc", "qdisc", "add", "dev", side, *place, *classes)
    filters: list[Command] = []
    if gate:
        filters.append(
            ("tc", "filter", "add", "dev", side, "parent", top, "protocol", "ip", "prio", "1", "u32",
             "match", "ip", "protocol", "6", "0xff", "match", "ip", "sport", str(READY_PORT), "0xffff",
             "flowid", f"{top}{len(places) + 1:x}")
        )  # fmt: skip
    for address, delay in access.items():
        version = ip_address(address).version
        protocol, order, match, bits = ("ip", "1", "ip", "32") if version == 4 else ("ipv6", "2", "ip6", "128")
        filters.append(
            ("tc", "filter", "add", "dev", side, "parent", top, "protocol", protocol, "prio", order, "u32",
             "match", match, "dst", f"{address}/{bits}", "flowid", f"{top}{bands[delay]:x}")
        )  # fmt: skip
    return (*ahead, prio, *netems, *filters)
