"""The shares of INET's showcase, the scenarios that repeat it, and why flows do not share where they do not."""

from __future__ import annotations

SOURCE = "INET 4.6, showcase QUIC Bandwidth Sharing on a Bottleneck Link"
#: INET's fair shares of 10 Mbit/s in the five phases of its showcase, Mbit/s for each active flow.
SHOWCASE = (10.0, 5.0, 10 / 3, 5.0, 10.0)
#: The showcase's scenarios: name → what differs from the document.
SHARING = {
    "dumbbell/link-sharing": "NewReno, as in the document",
    "dumbbell/sharing-cubic": "CUBIC",
    "dumbbell/sharing-bbr": "BBR",
    "dumbbell/sharing-mixed": "a different stack behind each flow",
}
#: A sentence on a server's congestion control where its flows do not share.
CAUSES = {
    ("quinn", "bbr"): "BBR version 1 keeps two bandwidth-delay products in flight a flow, whatever is lost.",
    ("msquic", "bbr"): "BBR version 1 keeps two bandwidth-delay products in flight a flow, whatever is lost.",
    ("msquic", "cubic"): (
        "A count of its CUBIC wraps around ([response](response.md)). From then on its window grows by a packet for "
        "each acknowledgement, which is by half in a round trip, until the queue overflows."
    ),
    ("ngtcp2 + quiche + quinn", "bbr"): "quinn's BBR (version 1) does not answer the loss that the others give way to.",
}
