"""What is known of the bounds that the runs miss, each note tied to its figures; and the tests without a scenario."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.outcome import Interval


@dataclass(frozen=True)
class Figures:
    """What the runs of one test showed."""

    bound: float
    """s."""
    completion: Interval
    """At the rate that the test names, s."""
    adjusted_completion: float | None
    """On frames as fast as upstream's, starting when upstream's do, s."""
    dropped: float
    """Share of the packets to the client that the queue dropped."""
    lost: float
    """Share of them that the emulated loss took."""
    queue_wait: float
    """95th percentile of their wait in the queue, ms."""
    line_rate_share: float
    """Share of the line rate that the file had from its first byte on."""

    @property
    def holds_like_for_like(self) -> bool:
        """Whether the bound holds on frames as fast as upstream's."""
        return self.adjusted_completion is not None and self.adjusted_completion <= self.bound


@dataclass(frozen=True)
class Note:
    """Why a test's bound is missed; it stands on the page only while its figures are as it says."""

    text: str
    fits: Callable[[Figures], bool]


def _far(figures: Figures) -> bool:
    """Whether some runs take much longer than the bound: by more than link and start explain."""
    return figures.completion.high > 1.2 * figures.bound


#: Upstream's test → what is known of it. One whose runs all come to hold must go: tests/unit/test_bounds.py says so.
NOTES: dict[str, Note] = {
    "satellite_cubic_loss": Note(
        "losses that come one in 64 by turns take picoquic's loss filter to 7 %, and its CUBIC gives way from 15 % on; "
        "random ones come close enough together for that every few thousand packets",
        lambda figures: 0.01 < figures.lost < 0.02 and figures.dropped < 0.001 and _far(figures),
    ),
    "satellite_jitter": Note(
        "netem's jitter lets packets overtake each other by up to 6 ms, a hundred packet times, which upstream's does "
        "not; its BBR then takes the path for slower than it is, with nothing lost and no queue",
        lambda figures: (
            figures.dropped == 0 and figures.lost == 0 and figures.queue_wait < 10 and figures.line_rate_share < 0.1
        ),
    ),
}

#: Upstream's tests of which the vocabulary of scenarios, or this lab, has no part → why.
ABSENT = {
    "satellite_preemptive": "no parameter turns picoquic's preemptive repeats on",
    "satellite_preemptive_fc": "the same, and the client's credit of half a BDP",
    "bbr_asym100_nodelay": "no parameter turns the extension ack_frequency off, with which it differs from bbr_asym100",
    "bdp_ip": "a client keeps its address between its connections",
    "bdp_delay": "the queues are sampled ten times a second, and 24 hours between two connections are 864,000 samples",
}
