"""Path → path program: the `ip` and `tc` commands that make a path, and the moments they apply.

The program is data and runs unchanged on the host kernel, in the lab kernel in real time, and in virtual
time. Layout, for each direction alike: what enters on one interface is redirected to an ifb whose queueing
discipline is the bottleneck (a fifo or red, and what serves it); it then leaves by the other interface, whose netem
adds delay, jitter and loss. So the bottleneck queue comes first, then delay and loss, and one network
namespace with NET_ADMIN is enough.

What serves the queue is a serial server in virtual time: hfsc lets a packet go when all before it have been sent, and
a netem on the way out, ahead of the delay, takes the packet's own time. Where the rate changes, the lab kernel's own
discipline `serial` does both. Real time has late timers, and a path may ask for a bucket: then it is tbf.

Behind a service process the ifb has a tbf that holds nothing back, red if asked for, and a netem that lets one
packet go at each opportunity. Flows with access delays of their own each find a netem of their own on the way
out: a prio chooses it by the address of the destination.
"""

from harness.netem.bounds import (
    Server,
    ack_limited_rate,
    ack_limited_time,
    bdp_bytes,
    burst_bytes,
    ideal_time,
    queue_bytes,
    size_bytes,
    slow_start_time,
)
from harness.netem.compile import compile_path
from harness.netem.limits import inexpressible
from harness.netem.nftables import share as fault_share
from harness.netem.program import AddressMapping, Command, Fault, LinkProgram, Outage, PathProgram, TimedCommands
from harness.netem.timeline import PathState, Timeline, timeline

__all__ = [
    "AddressMapping",
    "Command",
    "Fault",
    "LinkProgram",
    "Outage",
    "PathProgram",
    "PathState",
    "Server",
    "TimedCommands",
    "Timeline",
    "ack_limited_rate",
    "ack_limited_time",
    "bdp_bytes",
    "burst_bytes",
    "compile_path",
    "fault_share",
    "ideal_time",
    "inexpressible",
    "queue_bytes",
    "size_bytes",
    "slow_start_time",
    "timeline",
]
