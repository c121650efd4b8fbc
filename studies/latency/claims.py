"""The scenarios of small requests, alone and beside a load."""

from __future__ import annotations

SOURCE = "Small requests beside a load"
IDLE, LOADED = "latency/idle", "latency/loaded"
#: The parameter whose values are the queues of the loaded link.
QUEUE = "path.forward.queue"
#: Those, in the order of the scenario.
QUEUES = ("4 BDP", "codel", "fq_codel", "cake")
