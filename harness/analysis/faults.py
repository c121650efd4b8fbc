"""Datagrams that a path was asked to drop or to damage, and what became of them.

A damaged datagram is seen twice: one that entered and never left, and one that left and never entered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from harness.analysis.link_estimates import loss_probability
from harness.analysis.link_phases import LinkPhase
from harness.analysis.link_replay import Fate, Replay
from harness.capture.lab_file import FaultFacts
from harness.capture.matching import Passage
from harness.netem import fault_share
from harness.units import Percentage

#: What is asked for by number may be nobody's in the long run, but it is no drop of the queue's.
_SOME = 1e-9


def faulty(phases: Sequence[LinkPhase], faults: Sequence[FaultFacts]) -> tuple[LinkPhase, ...]:
    """Phases of a direction in which more is lost than netem's random loss takes."""
    if not faults:
        return tuple(phases)
    passes = float(np.prod([1 - asked_share(fault) for fault in faults]))
    return tuple(replace(phase, mean_loss=max(_SOME, 1 - (1 - phase.mean_loss) * passes)) for phase in phases)


def asked_share(fault: FaultFacts) -> float:
    """Of many datagrams the share that a fault takes by chance."""
    return 0.0 if fault.packets else fault_share(fault.rate, fault.burst)


def fault_problems(
    name: str, passage: Passage, replayed: Replay, faults: Sequence[FaultFacts], improbable: float
) -> Iterator[str]:
    """What became of datagrams otherwise than was asked. `improbable`: a share less probable than that is another.

    Numbers that are asked for are held against those that are missing among what passed the queue. Bursts that end
    make shares vary less than independent losses do, so that the test is too mild, never too strict.
    """
    # What entered behind the last that left may be under way still.
    last = int(np.flatnonzero(passage.arrived).max(initial=-1))
    passed = (replayed.fate != Fate.QUEUE_DROP) & (np.arange(len(passage.arrived)) <= last)
    lost = passed & ~passage.arrived & (replayed.fate != Fate.CUT)
    damaged = passage.appeared if any(fault.kind == "corrupt" for fault in faults) else 0
    entering = int(passed.sum())
    for fault in faults:
        if fault.packets:
            wanted = [number for number in fault.packets if number <= entering]
            missing = (np.flatnonzero(lost[passed]) + 1).tolist()[: max(len(wanted), 1)]
            if fault.kind == "drop" and len(faults) == 1 and missing[: len(wanted)] != wanted:
                yield f"{name}: datagrams {_list(wanted)} were to be dropped, and {_list(missing)} were the first to be"
            continue
        taken = damaged if fault.kind == "corrupt" else max(0, int(lost.sum()) - damaged)
        if entering and loss_probability(taken, entering, asked_share(fault), Percentage(0)) < improbable:
            verb = "damaged" if fault.kind == "corrupt" else "dropped"
            yield (
                f"{name}: {taken} of {entering} datagrams ({taken / entering:.2%}) were {verb}, "
                f"asked {asked_share(fault):.2%}"
            )


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
