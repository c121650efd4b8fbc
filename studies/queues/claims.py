"""What is said of queues that drop before they are full, and the scenarios that show what senders do behind them."""

from __future__ import annotations

SOURCE = "RFC 7567 (active queue management) and RFC 8290 (a queue for each flow)"
STATED = (
    "A queue that drops or marks before it is full keeps the delay low, at little cost of goodput. A queue that serves "
    "flows in turn protects them from each other."
)
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
#: The queue that others are compared with.
USUAL = "1 BDP"
EQUAL = 0.5
