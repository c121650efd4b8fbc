"""The scenarios in which a sender shares a link with TCP."""

from __future__ import annotations

SOURCE = "RFC 9743 §5 (a congestion controller beside standard ones)"
#: Scenario → its path, for people.
PATHS = {"dumbbell/beside-tcp": "10 Mbit/s, 20 ms", "satellite/beside-tcp": "50/10 Mbit/s, 650 ms"}
#: The queue of every path, for people.
QUEUE = "DropTail of 1 BDP"
SCENARIOS = tuple(PATHS)
#: The server over TCP, whose row is what others are held against.
TCP = "https"
#: The congestion control of the TCP beside which the page's senders run.
TCP_CONTROLLER = "cubic"
#: From this share of what TCP leaves to TCP on, a sender harms it no more than TCP does. RFC 9743 §5.1 has no number.
HARMLESS = 0.8
