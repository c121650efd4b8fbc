"""What the RFCs say about a path whose MTU falls, and the scenarios that show what stacks do."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "RFC 2923 (black holes), RFC 8899 and RFC 9000 §14 (path MTU discovery of QUIC)"
#: The MTU that the path falls to, bytes, and when, in the scenarios.
MTU, MOMENT = 1280, "2 s"
STATED = (
    "A sender of QUIC does not need ICMP: it may notice a black hole by the loss of its large packets.",
    "It may then go back to datagrams of 1200 B, which every path of QUIC carries (RFC 8899 §4.3, RFC 9000 §14.3).",
)


@dataclass(frozen=True)
class Case:
    """One kind of path."""

    name: str
    title: str
    quic: str
    """Scenario of downloads over QUIC."""
    tcp: str
    """Scenario of a download over Linux's TCP."""


TOLD = Case("told", "with ICMP", "links/mtu-falls-icmp", "links/mtu-falls-icmp-tcp")
SILENT = Case("silent", "without ICMP", "links/mtu-falls-silent", "links/mtu-falls-silent-tcp")
CASES = (TOLD, SILENT)
