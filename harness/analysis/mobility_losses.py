"""What a path does not deliver because of its clients' moves: it was gone, or had forgotten an address.

Neither is loss, which the link proof counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.capture.artefacts import Artefacts
from harness.capture.capture import Capture
from harness.capture.lab_file import FlowAddresses, MappingFacts
from harness.capture.matching import Passage

Ints = npt.NDArray[np.int64]

#: Around a move the commands apply one after the other, and their event is written some time from then, ns.
_AROUND = 50_000_000
_FOREVER = 1 << 62


@dataclass(frozen=True)
class Cuts:
    """When packets of one direction that were queued did not leave, all times in ns."""

    outages: Sequence[tuple[int, int]] = ()
    """From when to when nothing left."""
    forgotten: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """From when on nobody knew where each of n packets belongs, shape (n,), or empty where that is of no account."""

    def explain(self, index: int, queued: float, due: float, base: int) -> bool:
        """Whether they are why a packet is missing that leaves the queue and is due then, ns after `base`."""
        if any(start - _AROUND <= due + base < end + _AROUND for start, end in self.outages):
            return True
        return bool(len(self.forgotten)) and queued + base >= self.forgotten[index] - _AROUND


def outages_of(run: Artefacts) -> list[tuple[int, int]]:
    """From when to when the path was gone, by when the simulator said so; one that never was is none."""
    found = []
    for outage in run.lab.outages if run.lab is not None else ():
        start = run.events.applied(-1, outage.from_ns / 1e9)
        end = None if outage.until_ns is None else run.events.applied(-1, outage.until_ns / 1e9)
        if start is not None:
            found.append((start, _FOREVER if end is None else end))
    return found


def entering(run: Artefacts, passage: Passage) -> Passage:
    """The packets from the clients without those that came while the path was gone: they never were in it."""
    gone = np.zeros(len(passage.entered), np.bool_)
    for start, end in outages_of(run):
        gone |= (passage.entered.t_ns >= start - _AROUND) & (passage.entered.t_ns < end + _AROUND)
    return passage.where(~(gone & ~passage.arrived)) if gone.any() else passage


def cuts_to_client(run: Artefacts, passage: Passage) -> Cuts:
    """What became of packets towards the clients."""
    return Cuts(outages_of(run), _forgotten(run, passage.entered))


def _forgotten(run: Artefacts, entered: Capture) -> Ints:
    """When the mapping that each packet is addressed to was given up for another."""
    if run.lab is None or not run.lab.mappings:
        return np.zeros(0, np.int64)
    found = np.full(len(entered), _FOREVER, np.int64)
    for flow in run.lab.flows:
        mine = [one for one in run.lab.mappings if one.inner[0] in flow.client.addresses]
        applied = [run.events.applied(-1, one.at_ns / 1e9) for one in mine]
        ends = [time for time in applied if time is not None]
        if not ends:
            continue
        rows = np.flatnonzero(entered.flow == flow.flow)
        # The client's own address and port, until the first.
        found[rows] = ends[0]
        for number, one in enumerate(mine[: len(ends)]):
            addressed = rows[_is_to(entered, rows, flow, one)]
            found[addressed] = ends[number + 1] if number + 1 < len(ends) else _FOREVER
    return found


def _is_to(entered: Capture, rows: Ints, flow: FlowAddresses, mapping: MappingFacts) -> npt.NDArray[np.bool_]:
    places = [flow.client.place(address) for address in mapping.outer]
    there = np.isin(entered.client_address[rows], places)
    if mapping.port is not None:
        there &= entered.destination_port[rows] == mapping.port
    return np.asarray(there, np.bool_)
