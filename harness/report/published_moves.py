"""What a published survey says that stacks do to their congestion window when a client moves.

sivaahari, quic-congestion-control (GitHub, commit d398288): an audit of sources and five live runs, from 20 Mbit/s and
20 ms to 20 Mbit/s and 40 ms; by a student, not reviewed.
"""

from __future__ import annotations

from dataclasses import dataclass

SURVEY = "sivaahari, quic-congestion-control, d398288"


@dataclass(frozen=True)
class Published:
    """What the survey says of one stack's server."""

    resets: bool
    """Whether it begins anew at another IP address."""
    resets_for_port: bool | None
    """Whether it does where only the port changes; None where the survey does not say."""
    says: str


PUBLISHED: dict[str, Published] = {
    "picoquic": Published(False, None, "no reset: 87–89 kB, then losses, down to 2.8–8.6 kB; RTT carried over"),
    "quic-go": Published(True, True, "reset, for a port too: 274–280 kB → 40,960 B"),
    "quiche": Published(True, None, "reset, a recovery per path: 654,900 B → 12,000 B"),
    "msquic": Published(True, False, "reset, not for a port: 1.48 MB → 12,200 B; srtt 333 ms for some 20 s"),
    "ngtcp2": Published(True, None, "reset: 532–573 kB → 12,000 B"),
}
