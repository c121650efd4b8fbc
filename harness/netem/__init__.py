"""Path → path program: the `ip` and `tc` commands that make a path, and the moments they apply.

The program is data and runs unchanged on the host kernel, in the lab kernel in real time, and in virtual
time. Both directions have the same layout: packets that enter on one interface are redirected to an ifb whose queueing
discipline is the bottleneck (a fifo or red, and its server). They then leave by the other interface, whose netem adds
delay, jitter and loss. So the bottleneck queue comes first, then delay and loss, and one network namespace with
NET_ADMIN is enough.

In virtual time the queue has a serial server: hfsc releases a packet when all before it have been sent, and a netem at
the egress, ahead of the delay, takes the packet's transmission time. Where the rate changes, the lab kernel's own
discipline `serial` does both. In real time timers are late, so the server is tbf, as it is where a path configures a
bucket.

With a service process the ifb has a tbf that holds nothing back, red if configured, and a netem that releases one
packet at each opportunity. Flows with access delays of their own have their own netems at the egress: a prio chooses
one by the destination address.
"""

from harness.netem.bounds import (
    Server,
    ack_limited_rate,
    ack_limited_time,
    bdp_bytes,
    burst_bytes,
    early_share,
    ideal_time,
    overtaking_share,
    queue_bytes,
    size_bytes,
    slow_start_time,
)
from harness.netem.compile import compile_path
from harness.netem.limits import find_inexpressible
from harness.netem.nftables import hit_share as fault_share
from harness.netem.patterns import draw_value, realise
from harness.netem.program import (
    AddressMapping,
    Command,
    Fault,
    LinkProgram,
    LinkSeries,
    Outage,
    PathProgram,
    TimedCommands,
)
from harness.netem.series import MODEL_PERIOD, DeliveryCourse, RateCourse, SeriesContent, series_content, transit_at
from harness.netem.timeline import PathState, Timeline, timeline

__all__ = [
    "MODEL_PERIOD",
    "AddressMapping",
    "Command",
    "DeliveryCourse",
    "Fault",
    "LinkProgram",
    "LinkSeries",
    "Outage",
    "PathProgram",
    "PathState",
    "RateCourse",
    "SeriesContent",
    "Server",
    "TimedCommands",
    "Timeline",
    "ack_limited_rate",
    "ack_limited_time",
    "bdp_bytes",
    "burst_bytes",
    "compile_path",
    "draw_value",
    "early_share",
    "fault_share",
    "find_inexpressible",
    "ideal_time",
    "overtaking_share",
    "queue_bytes",
    "realise",
    "series_content",
    "size_bytes",
    "slow_start_time",
    "timeline",
    "transit_at",
]
