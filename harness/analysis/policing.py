"""Whether a policer let pass what its token bucket allows and nothing else, by what the captures show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from harness.analysis.direction import LinkDirection
from harness.analysis.link_replay import Fate, Ints, LinkPhase, PolicedLink
from harness.capture.capture import Flags
from harness.scenario.schema import Policer, Remark

#: Bits of the ECN field below the DSCP (RFC 3168 §5).
_ECN_BITS = 2


def token_surplus_ns(
    arrivals_ns: Ints, lengths: Ints, passed: Flags, known: Flags, phases: Sequence[LinkPhase]
) -> npt.NDArray[np.float64]:
    """Tokens beyond those that each of n packets takes, as time at the rate, shape (n,).

    A policer lets a packet pass if this is 0 or more. `passed`: which ones did, as far as that is `known`, both of
    shape (n,): they alone take tokens. The others pass if they can.
    """
    base = int(arrivals_ns[0]) if len(arrivals_ns) else 0
    # What it may not drop it does not count: here a packet takes its tokens if it passed.
    policer = PolicedLink(
        [replace(phase, start_ns=phase.start_ns - base, limit_bytes=0) for phase in phases], lengths.tolist()
    )
    surplus = np.zeros(len(arrivals_ns))
    columns = ((arrivals_ns - base).tolist(), policer.lengths, passed.tolist(), known.tolist())
    for index, (now, length, has_passed, is_known) in enumerate(zip(*columns, strict=True)):
        policer.advance(now)
        surplus[index] = policer.surplus(length)
        if has_passed if is_known else surplus[index] >= 0:
            policer.accept(index, now)
    return surplus


def policing_problems(direction: LinkDirection, queue: Policer, tolerance_ns: int, guard_ns: int) -> Iterator[str]:
    """Packets that passed with too few tokens, or did not although there were enough.

    `tolerance_ns`: how far apart the capture's time of a packet and the policer's may be. `guard_ns`: so close to a
    change a packet proves nothing.
    """
    passage, replayed = direction.passage, direction.replay
    entered = passage.entered
    if isinstance(queue.exceed, Remark):
        codepoint = np.uint8(queue.exceed.dscp)
        if passage.out_class is None:
            return
        # What came with this codepoint proves nothing, nor does what was lost behind the policer.
        known = passage.arrived & (entered.traffic_class >> _ECN_BITS != codepoint)
        conforms = passage.out_class >> _ECN_BITS != codepoint
        verb = "given another DSCP"
    else:
        known = replayed.fate != Fate.CUT
        conforms = replayed.fate != Fate.QUEUE_DROP
        verb = "dropped"
    surplus = token_surplus_ns(entered.t_ns, entered.length, conforms, known, direction.phases)
    count = len(entered.t_ns)
    for start in (phase.start_ns for phase in direction.phases[1:]):
        known &= np.abs(entered.t_ns - start) > guard_ns
    too_many = int((known & conforms & (surplus < -tolerance_ns)).sum())
    too_few = int((known & ~conforms & (surplus >= tolerance_ns)).sum())
    if too_many:
        yield f"{direction.name}: {too_many} of {count} packets passed a policer that had too few tokens"
    if too_few:
        yield f"{direction.name}: {too_few} of {count} packets were {verb} by a policer that had enough tokens"
