"""How soon a link is filled again after a change, and what a dark direction explains in the link proof."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.analysis.link_replay import Cuts, Fate, LinkPhase
from harness.analysis.metrics import link_proof
from harness.analysis.metrics.path_changes import _recoveries

MS = 1_000_000
#: 1250 bytes a ms are 10 Mbit/s.
BYTES, RATE = 1250, 10_000_000


def recoveries(came_ms: list[float], changes: list[tuple[int, int]], end_ms: int = 3000) -> tuple[list[float], int]:
    """`changes`: (when, ms; the rate from then on, bit/s)."""
    came = np.array(came_ms)
    passage = SimpleNamespace(
        arrived=np.ones(len(came), np.bool_),
        out_ns=(came * MS).astype(np.int64),
        entered=SimpleNamespace(flow=np.zeros(len(came), np.int64), length=np.full(len(came), BYTES)),
    )
    phases = [LinkPhase(at * MS, rate, 0, 0.0, None, None, None) for at, rate in [(0, RATE), *changes]]
    direction: Any = SimpleNamespace(passage=passage, phases=phases)
    window: Any = SimpleNamespace(transfer=SimpleNamespace(flow=0), end_ns=end_ms * MS)
    times, unfilled = _recoveries(direction, window, [at * MS for at, _ in changes])
    return [time / MS for time in times], unfilled


def test_a_link_that_stays_full_is_filled_after_one_window() -> None:
    times, unfilled = recoveries([*range(3000)], [(1000, RATE)])
    assert times == [pytest.approx(100, abs=1)] and not unfilled


def test_a_pause_counts_until_enough_has_come_again() -> None:
    came = [*range(1000), *range(1300, 3000)]
    times, unfilled = recoveries(came, [(1000, RATE)])
    # 300 ms of nothing, and 80 packets.
    assert times == [pytest.approx(379, abs=1)] and not unfilled


def test_a_sender_that_does_not_find_the_new_rate() -> None:
    """Half of it is not enough: the change counts with the time until the next one."""
    came = [*range(1000), *range(1000, 2000, 2), *np.arange(2000, 3000, 0.5)]
    times, unfilled = recoveries(came, [(1000, RATE), (2000, 2 * RATE)])
    assert times == [1000, pytest.approx(100, abs=1)] and unfilled == 1


def test_a_rate_of_zero_is_nothing_to_be_filled() -> None:
    came = [*range(1000), *range(1200, 3000)]
    times, _ = recoveries(came, [(1000, 0), (1200, RATE)])
    assert times == [pytest.approx(100, abs=1)]


# --- the link proof


def test_what_left_the_queue_of_a_dark_direction_is_explained() -> None:
    cuts = Cuts(silences=[(1000 * MS, 1200 * MS)])
    assert cuts.explain(0, 1100 * MS, 1150 * MS, 0)
    # What left before arrives in that time, and what leaves later is no longer dropped.
    assert not cuts.explain(0, 990 * MS, 1010 * MS, 0)
    assert not cuts.explain(0, 1200 * MS, 1250 * MS, 0)


def test_packets_that_pass_a_dark_direction_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_proof, "outages_of", lambda view, name: [(1000 * MS, 1200 * MS)])
    view: Any = SimpleNamespace(run=SimpleNamespace(cell=SimpleNamespace(virtual_time=True)))

    def problems(fates: list[Fate]) -> list[str]:
        replay = SimpleNamespace(departure_ns=np.array([900, 1100, 1199.5, 1300]) * MS, fate=np.array(fates))
        direction: Any = SimpleNamespace(name="to_client", replay=replay, served_at_random=False)
        return list(link_proof._outage_problems(view, direction))

    assert problems([Fate.DELIVERED, Fate.CUT, Fate.DELIVERED, Fate.DELIVERED]) == []
    assert problems([Fate.DELIVERED] * 4) == [
        "to_client: 1 packets passed in 200 ms in which nothing was to pass"
    ]  # fmt: skip
