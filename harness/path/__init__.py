"""Path → path program: the `ip` and `tc` commands that make a path, and the moments they apply.

The program is data and runs unchanged on the host kernel, in the lab kernel in real time, and in virtual
time. Layout, for each direction alike: what enters on one interface is redirected to an ifb whose queueing
discipline is the bottleneck (tbf over a fifo or red); it then leaves by the other interface, whose netem
adds delay, jitter and loss. So the bottleneck queue comes first, then delay and loss, and one network
namespace with NET_ADMIN is enough.

Behind a service process the ifb has a tbf that holds nothing back, red if asked for, and a netem that lets one
packet go at each opportunity. Flows with access delays of their own each find a netem of their own on the way
out: a prio chooses it by the address of the destination.
"""

from harness.path.arithmetic import (
    ack_limited_rate,
    ack_limited_time,
    bdp_bytes,
    burst_bytes,
    ideal_time,
    queue_bytes,
    slow_start_time,
)
from harness.path.program import Command, LinkProgram, PathProgram, TimedCommands, compile_path

__all__ = [
    "Command",
    "LinkProgram",
    "PathProgram",
    "TimedCommands",
    "ack_limited_rate",
    "ack_limited_time",
    "bdp_bytes",
    "burst_bytes",
    "compile_path",
    "ideal_time",
    "queue_bytes",
    "slow_start_time",
]
