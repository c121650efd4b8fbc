"""What is said of queues that drop before they are full, and the scenarios that show what senders do behind them."""

from __future__ import annotations

SOURCE = "RFC 7567 (active queue management) and RFC 8290 (a queue for each flow)"
STATED = (
    "They say that a queue that drops or marks before it is full keeps the delay low, at little cost of goodput. They "
    "say that a queue that serves flows in turn protects them from each other."
)
#: The path of both scenarios, for people.
PATH = "20 Mbit/s with a round trip of 40 ms"
#: One flow alone, and beside a flow of Linux's TCP CUBIC.
ALONE, BESIDE = "links/queues-alone", "links/queues"
#: The client of all servers.
CLIENT = "quinn"
#: A queue as the scenarios write it → its title. Those that drop what does not fit come first, by length.
QUEUES = {
    "0.25 BDP": "DropTail, 0.25 BDP",
    "1 BDP": "DropTail, 1 BDP",
    "4 BDP": "DropTail, 4 BDP",
    "codel": "CoDel",
    "pie": "PIE",
    "dualpi2": "DualPI2",
    "fq_codel": "FQ-CoDel",
    "fq_pie": "FQ-PIE",
    "cake": "CAKE",
    "sfq": "SFQ",
}
#: Those that give each flow a queue of its own.
FAIR = ("fq_codel", "fq_pie", "cake", "sfq")
#: Those that drop or mark before they are full.
EARLY = ("codel", "pie", "dualpi2", "fq_codel", "fq_pie", "cake")
#: The queue that others are compared with.
USUAL = "1 BDP"
EQUAL = 0.5
#: A sender that has so much less behind an early queue pays for it.
COST = 0.1
