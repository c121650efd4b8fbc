"""The link proof: whether the emulated path behaved as requested.

Each direction is compared with an exact replay of its own arrivals (`replay`), and its packets are counted against the
kernel's counters. Outside a tolerance the run is invalid, and the problem states the figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.analysis.direction import SIDES, LinkDirection, Side, direction_faults
from harness.analysis.link_estimates import (
    busy_rate,
    coincidence_probability,
    fault_problems,
    idle_delay_ns,
    loss_probability,
    quantiles_ms,
    unqueued_delay_ns,
)
from harness.analysis.link_impairments import impairment_problems
from harness.analysis.link_replay import GUARD_REAL, GUARD_VIRTUAL, Fate, Replay, outages_of
from harness.analysis.policing import policing_problems
from harness.analysis.run_view import RunView
from harness.analysis.slots import slots_problems
from harness.analysis.tcp_split import legs_of, opened_connections, split_flows
from harness.capture.counters import count_increase
from harness.netem.bottleneck import COLD_GAP
from harness.netem.bounds import FRAME, SMALLEST_INITIAL, bucket_share, full_frame
from harness.netem.link_states import link_states
from harness.outcome import DirectionProof, LinkProof
from harness.scenario.schema import FRAME_HEADER, GilbertElliott, Link, Policer, TimedGilbertElliott
from harness.units import Percentage

#: Allowed delay above what was requested, or below it (hardly any, for rounding of µs captures and clock reads), ns.
DELAY_ABOVE, DELAY_BELOW = 1_000_000, 200_000
#: Relative error of the rate in busy periods, and allowed error of each end of a busy period, s.
RATE, RATE_EDGE = 0.01, 0.001
#: Share of packets that may vanish without reason (at least two packets: the last of a capture are uncertain).
VANISHED_SHARE, VANISHED_PACKETS = 0.001, 2
#: 99th percentile of lateness beyond a drift in a busy period, ms. Real time runs on a shared machine, so the drift of
#: a late timer and 1 % of the RTT are tolerated there too. Virtual time is exact but for clock reads. With either
#: clock, two packet times are the link's own granularity.
LATENESS_REAL, LATENESS_VIRTUAL = 5.0, 1.0
DRIFT_REAL, DRIFT_VIRTUAL = RATE, 0.0
LATENESS_SHARE = 0.01
#: Bytes that answer the readiness check of a client that begins later: over IPv4 a SYN-ACK and the ACK of its FIN. They
#: pass the queue towards the clients, and are not packets of a flow.
READY_ANSWER = 74 + 66
#: Clients that began within so long of the first one had their answers before it had the link, ns.
TOGETHER = 1_000_000
#: Above this share of the allowed lateness, a run in real time is valid, but gets a caution.
LATENESS_CAUTION = 0.5
#: From this share of the round trip or of the queue on, a token bucket that was not requested gets a caution.
BUCKET_CAUTION = 0.1
#: From this share of the packets on, packets that left too close to a change to prove anything get a caution.
UNPROVEN_CAUTION = 0.5
#: A loss rate less probable than this is not the requested one.
IMPROBABLE = 1e-6
#: How late a scheduled change may be, ms, and how long before the end it must have been due to count as missed, s.
CHANGE_LATE, CHANGE_MISSED = 100.0, 1.0
#: How far apart two looks at a packet may be in virtual time where nothing delays it: a few clock reads, ns.
CLOCK_READS = 10_000
_FOREVER = 2**62


def prove(view: RunView) -> tuple[LinkProof, tuple[str, ...]]:
    """The proof, and cautions that do not make it invalid."""
    kernel = view.run.sim_kernel or view.events.kernel
    paths = view.every_path
    if any(path.directions.get(side) is None for path in paths for side in SIDES):
        missing = "; ".join(view.problems) or "no captures"
        return LinkProof(valid=False, problems=(f"the path cannot be proven: {missing}",), kernel=kernel), ()
    proofs: dict[str, DirectionProof] = {}
    problems, cautions = _empty_problems(view), list[str]()
    late: list[float] = []
    for path in paths:
        prefix = f"{path.selected_path}: " if path.selected_path else ""
        path_problems, path_cautions = [], []
        for side in SIDES:
            direction = path.directions[side]
            figures = _proof(path, direction)
            proofs[f"{path.selected_path} {side}" if path is not paths[0] else side] = figures
            path_problems += _problems(path, direction, figures)
            path_cautions += _cautions(path, direction, figures)
        path_late, change_problems = _check_changes(path, view)
        late += path_late
        problems += [prefix + problem for problem in (*path_problems, *change_problems)]
        cautions += [prefix + caution for caution in path_cautions]
    problems += _split_problems(view)
    if view.capture_drops:
        cautions.append(f"the captures missed {view.capture_drops} packets: counts of drops are upper bounds")
    first = {side: proofs.pop(side) for side in SIDES}
    proof = LinkProof(
        valid=not problems,
        problems=tuple(problems),
        kernel=kernel,
        **first,
        further=proofs,
        capture_drops=view.capture_drops,
        changes_late_ms=tuple(late),
        steal=view.host_share("steal"),
        idle=view.host_share("idle"),
    )
    return proof, tuple(cautions)


def _proof(view: RunView, direction: LinkDirection) -> DirectionProof:
    passage, replayed, settings = direction.passage, direction.replay, direction.settings
    queue_drops, loss_drops, unasked = _count_drops(view, direction)
    first = passage.arrived & (replayed.phase == 0)
    delays = (passage.out_ns - passage.entered.t_ns - replayed.transmission_ns)[first]
    rate = busy_rate(passage, replayed, 0)
    steady = _steady(direction)
    lateness = quantiles_ms(steady.excess_ns(passage, _drift(view)), 50, 99) if direction.is_punctual else None
    return DirectionProof(
        packets=len(passage.entered),
        min_delay_ms=float(delays.min()) / 1e6 if len(delays) else None,
        asked_delay_ms=settings.delay_ns / 1e6,
        burst_bytes=settings.burst_bytes,
        rate_mbps=None if rate is None else rate.bits_per_second / 1e6,
        asked_rate_mbps=settings.rate_bps / 1e6,
        queue_drops=queue_drops,
        loss_drops=loss_drops,
        unasked_drops=unasked,
        size_drops=int((replayed.fate == Fate.TOO_LARGE).sum()),
        lateness_p50_ms=None if lateness is None else lateness[0],
        lateness_p99_ms=None if lateness is None else lateness[1],
        oversize_frames=_oversize(view, direction.name),
    )


def _count_drops(view: RunView, direction: LinkDirection) -> tuple[int, int, int]:
    """Drops of the queue, of random loss, and without cause: in = out + drops + in flight at the end.

    The kernel's counts if there are any, otherwise the replay's fate of each missing packet. Losses after the last read
    of the counters are in no count, for example when a client's time is over and its connection is reset.
    """
    fate = direction.replay.fate
    if view.counters is not None and len(view.counters):
        fate = fate[(direction.passage.entered.t_ns <= view.counters["t_ns"][-1]) & ~direction.replay.uncounted]
    fates = np.bincount(fate, minlength=len(Fate))
    lossy = any(phase.mean_loss > 0 for phase in direction.phases)
    queue = loss = None
    if view.counters is not None:
        queue = count_increase(view.counters, direction.settings.device, "drops", 0, _FOREVER)
        loss = count_increase(view.counters, direction.settings.egress, "drops", 0, _FOREVER)
    queue_drops = int(fates[Fate.QUEUE_DROP]) if queue is None else queue
    loss_drops = int(fates[Fate.LOST]) if loss is None else loss
    if direction_faults(view, direction.name) or _carries_answers(view, direction):
        loss_drops = int(fates[Fate.LOST])  # compared with the requested loss below
    elif not lossy:
        loss_drops = 0  # netem dropped for lack of room, which was not requested
    vanished = int(fates[Fate.QUEUE_DROP] + fates[Fate.LOST])
    return queue_drops, loss_drops, max(0, vanished - queue_drops - loss_drops)


def _carries_answers(view: RunView, direction: LinkDirection) -> bool:
    """Whether random loss counts ICMP messages of the simulator, too, which are no packets of a flow."""
    return any(
        phase.mtu is not None and phase.mtu.icmp
        for name, opposite in view.directions.items()
        if name != direction.name
        for phase in opposite.phases
    )


def _oversize(view: RunView, name: Side) -> int:
    """Frames above the MTU on either side."""
    sides = (side for side in (view.left, view.right) if side is not None)
    to_client, largest = name == "to_client", _largest_frame(view)
    return max(
        (
            int(((side_capture.length > largest) & (side_capture.to_client == to_client)).sum())
            for side_capture in sides
        ),
        default=0,
    )


def _largest_frame(view: RunView) -> int:
    """A full frame of the path as tc counts it, bytes."""
    return FRAME if view.lab is None else view.lab.mtu + FRAME_HEADER


def _full_frame(view: RunView) -> int:
    return FRAME if view.lab is None else full_frame(view.lab.mtu)


def _split_problems(view: RunView) -> Iterator[str]:
    """TCP connections that passed a proxy unchanged. On each side there must be another connection,
    acknowledged there.
    """
    for flow in split_flows(view):
        assert view.lab is not None
        sides = {path.simulator: view.of_path(path.path) for path in view.lab.paths}
        for proxy in view.lab.proxies:
            before, behind = sides[proxy.left].right, sides[proxy.right].left
            if before is None or behind is None:
                continue
            before_ports, behind_ports = opened_connections(before, flow.flow), opened_connections(behind, flow.flow)
            if unsplit := [port for port, number in behind_ports.items() if before_ports.get(port) == number]:
                yield (
                    f"{proxy.proxy} did not split the TCP connections of flow {flow.flow} from port "
                    f"{_join_numbers(unsplit)}"
                )
        for leg in legs_of(view, flow) if view.lab.proxies else ():
            if leg.is_split is False:
                yield (
                    f"{leg.segment}: data of flow {flow.flow} were acknowledged after {leg.ack_delay_ns / 1e6:.1f} ms "
                    f"at the soonest, and the next proxy is {leg.near_ns / 1e6:.1f} ms away: nothing was split"
                )


def _join_numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _empty_problems(view: RunView) -> list[str]:
    received = sum(transfer.received for transfer in view.run.transfers)
    passage = view.to_client
    if received and passage is not None and not len(passage.entered):
        return [f"the captures hold no datagram of the servers, but the clients received {received} B"]
    return []


def _problems(view: RunView, direction: LinkDirection, proof: DirectionProof) -> list[str]:
    name, packets = direction.name, max(proof.packets, 1)
    problems = [*_delay_problems(view, direction), *_rate_problems(view, direction)]
    asked = {item.kind for item in view.lab.series if item.direction == name} if view.lab is not None else set()
    problems += [f"{name}: the trace of its {kind} never started" for kind in asked - direction.series.kinds]
    allowed = max(VANISHED_PACKETS, VANISHED_SHARE * packets, view.capture_drops)
    if proof.unasked_drops > allowed:
        problems.append(
            f"{name}: {proof.unasked_drops} of {packets} packets ({proof.unasked_drops / packets:.2%}) vanished that "
            f"nothing was asked to drop (tolerance {VANISHED_SHARE:.1%})"
        )
    if proof.oversize_frames:
        largest = _largest_frame(view)
        problems.append(f"{name}: {proof.oversize_frames} frames above {largest} B: an offload was left on")
    tolerance_ns = round(_allowed_lateness(view, direction) * 1e6)
    return [
        *problems,
        *_lateness_problems(view, direction),
        *_loss_problems(view, direction, proof),
        *_outage_problems(view, direction),
        *impairment_problems(direction, _states(view, direction), tolerance_ns, IMPROBABLE),
        *_policing_problems(view, direction, tolerance_ns),
        *_slots_problems(view, direction, tolerance_ns),
    ]


def _slots_problems(view: RunView, direction: LinkDirection, tolerance_ns: int) -> Iterator[str]:
    if (slots := _link(view, direction).slots) is not None:
        yield from slots_problems(direction, slots, CLOCK_READS if view.run.cell.virtual_time else tolerance_ns)


def _policing_problems(view: RunView, direction: LinkDirection, tolerance_ns: int) -> Iterator[str]:
    queue = _link(view, direction).queue
    if not isinstance(queue, Policer):
        return
    if view.run.cell.virtual_time:
        yield from policing_problems(direction, queue, CLOCK_READS, GUARD_VIRTUAL)
    else:
        yield from policing_problems(direction, queue, tolerance_ns, GUARD_REAL)


def _delay_problems(view: RunView, direction: LinkDirection) -> list[str]:
    problems: list[str] = []
    if direction.series.transit is not None:
        # Each packet is compared with the delay of its own moment (`_lateness_problems`).
        return problems
    for index, phase in enumerate(direction.phases):
        jitter = phase.jitter_ns
        above = jitter + DELAY_ABOVE + _longest_gap_ns(view, direction)
        if direction.served_at_random:
            delay_ns = unqueued_delay_ns(direction.passage, direction.replay, index, phase.delay_ns)
        else:
            delay_ns = idle_delay_ns(direction.passage, direction.replay, index)
        low, high = phase.delay_ns - jitter - DELAY_BELOW, phase.delay_ns + above
        if delay_ns is not None and not low <= delay_ns <= high:
            problems.append(
                f"{direction.name}: the smallest delay{_since_text(index)} was {delay_ns / 1e6:.2f} ms, asked "
                f"{phase.delay_ns / 1e6:.2f} ms (tolerance {above / 1e6:.1f} ms)"
            )
    return problems


def _longest_gap_ns(view: RunView, direction: LinkDirection) -> int:
    """How long the only packet of a queue may wait for an opportunity; 0 if there are none.

    The gaps of a random service are at most ten times their mean (`harness.netem.bottleneck`), or those of a cold
    start.
    """
    if (slots := _link(view, direction).slots) is not None:
        return slots.gaps[1].value
    if not direction.served_at_random:
        return 0
    service = _link(view, direction).poisson
    cold = COLD_GAP.value if service is not None and service.cold_start.value else 0
    return max(cold, round(10 * _largest_frame(view) * 8e9 / direction.settings.rate_bps))


def _rate_problems(view: RunView, direction: LinkDirection) -> list[str]:
    problems: list[str] = []
    if direction.series.rate is not None:
        return problems
    # A busy period's first packet, and its last, may have waited for an opportunity.
    slots = _link(view, direction).slots
    wait_ns = _largest_jitter_ns(direction) if slots is None else slots.gaps[1].value
    for index, phase in enumerate(direction.phases):
        rate = busy_rate(direction.passage, direction.replay, index) if phase.rate_bps else None
        if rate is None:
            continue
        edge = (RATE_EDGE + 2 * wait_ns / 1e9) * rate.periods / rate.seconds
        if abs(rate.bits_per_second / phase.rate_bps - 1) > RATE + edge:
            problems.append(
                f"{direction.name}: {rate.bits_per_second / 1e6:.3f} Mbit/s in {rate.seconds:.1f} s of busy "
                f"queue{_since_text(index)}, asked {phase.rate_bps / 1e6:.3f} Mbit/s (tolerance {RATE + edge:.1%})"
            )
    return problems


def _lateness_problems(view: RunView, direction: LinkDirection) -> list[str]:
    if not direction.is_punctual:
        return []
    lateness = quantiles_ms(_steady(direction).excess_ns(direction.passage, _drift(view)), 1, 99)
    allowed = _allowed_lateness(view, direction)
    if lateness is None or max(-lateness[0], lateness[1]) <= allowed:
        return []
    share, worst, word = ("1st", -lateness[0], "early") if -lateness[0] > lateness[1] else ("99th", lateness[1], "late")
    return [
        f"{direction.name}: packets left {worst:.1f} ms {word} at the {share} percentile (tolerance {allowed:.1f} ms)"
    ]


def _steady(direction: LinkDirection) -> Replay:
    """The replay, in which only packets of phases without jitter are comparable."""
    replayed = direction.replay
    steady = np.array([phase.jitter_ns == 0 for phase in direction.phases])
    if steady.all() or direction.series.transit is not None:
        return replayed
    return replace(replayed, comparable=replayed.comparable & steady[replayed.phase])


def _largest_jitter_ns(direction: LinkDirection) -> int:
    return max(phase.jitter_ns for phase in direction.phases)


def _outage_problems(view: RunView, direction: LinkDirection) -> Iterator[str]:
    """Packets that passed while their direction was to forward nothing."""
    guard = GUARD_VIRTUAL if view.run.cell.virtual_time else GUARD_REAL
    replayed = direction.replay
    for start, end in outages_of(view, direction.name):
        leaves = replayed.departure_ns
        dark = (leaves >= start + guard) & (leaves < end - guard) & (replayed.fate == Fate.DELIVERED)
        if dark.any() and not direction.served_at_random:
            yield (
                f"{direction.name}: {int(dark.sum())} packets passed in {(end - start) / 1e6:.0f} ms in which nothing "
                "was to pass"
            )


def _drift(view: RunView) -> float:
    return DRIFT_VIRTUAL if view.run.cell.virtual_time else DRIFT_REAL


def _allowed_lateness(view: RunView, direction: LinkDirection) -> float:
    slowest = min(phase.rate_bps for phase in direction.phases if phase.rate_bps)
    share = LATENESS_SHARE * view.emulated_path.rtt.seconds * 1e3 if not view.run.cell.virtual_time else 0.0
    answers = _later_clients(view) * READY_ANSWER * 8e3 / slowest if direction.name == "to_client" else 0.0
    lateness = LATENESS_VIRTUAL if view.run.cell.virtual_time else LATENESS_REAL
    return max(lateness, share, 2 * _full_frame(view) * 8e3 / slowest) + answers + _missed_opportunity(view, direction)


def _missed_opportunity(view: RunView, direction: LinkDirection) -> float:
    """How late a packet leaves that real time brings too late for its opportunity, ms: the gap to the next one, as 99
    of 100 gaps of its packet-delivery trace are.
    """
    if view.run.cell.virtual_time or direction.series.rate is None or not direction.series.rate[0].opportunity:
        return 0.0
    return float(np.percentile(np.diff(direction.series.rate[0].times_ns, prepend=0), 99)) / 1e6


def _later_clients(view: RunView) -> int:
    """Clients whose readiness check may have been answered while others had the link already.

    Where many start together, the last of them come much later: each process takes its time to start.
    """
    began = {window.transfer.flow: window.zero_ns for window in reversed(view.windows) if window.zero_ns is not None}
    first = min(began.values(), default=0)
    return sum(
        flow.start.seconds > 0 or began.get(number, first) > first + TOGETHER
        for number, flow in enumerate(view.run.cell.scenario.flows)
    )


def _loss_problems(view: RunView, direction: LinkDirection, proof: DirectionProof) -> list[str]:
    if faults := direction_faults(view, direction.name):
        return list(fault_problems(direction.name, direction.passage, direction.replay, faults, IMPROBABLE))
    elsewhere = [Fate.QUEUE_DROP, Fate.REFUSED, Fate.TOO_LARGE]
    entering = proof.packets - proof.queue_drops - proof.size_drops
    entering -= int((direction.replay.fate == Fate.REFUSED).sum())
    losses = np.array([phase.mean_loss for phase in direction.phases])
    phase = direction.replay.phase[~np.isin(direction.replay.fate, elsewhere)]
    expected = float(losses[phase].mean()) if len(phase) else 0.0
    if direction.series.transit is not None and len(phase):
        moments = direction.replay.departure_ns[direction.replay.fate != Fate.QUEUE_DROP]
        transit = direction.series.transit_from(0)
        assert transit is not None
        expected = float(transit.losses(moments).mean())
    if entering <= 0 or expected == 0:
        return []
    problems = []
    probability = loss_probability(proof.loss_drops, entering, expected, _burstiest(view, direction))
    if probability < IMPROBABLE:
        problems.append(
            f"{direction.name}: random loss took {proof.loss_drops} of {entering} packets "
            f"({proof.loss_drops / entering:.2%}), asked {expected:.2%} (probability {probability:.0e})"
        )
    probability = coincidence_probability(_losses_by_phase(view, direction))
    if probability < IMPROBABLE:
        problems.append(
            f"{direction.name}: random loss took packets at the same places behind each change of the path "
            f"(probability {probability:.0e}): its generator began anew"
        )
    return problems


def _burstiest(view: RunView, direction: LinkDirection) -> Percentage | GilbertElliott | TimedGilbertElliott:
    """The loss model whose losses come in the longest runs, of those that the link had: the mildest test."""
    models = [state.loss for state in _states(view, direction)]
    bursty = [model for model in models if isinstance(model, GilbertElliott)]
    return min(bursty, key=lambda model: model.good_to_bad.fraction + model.bad_to_good.fraction, default=models[0])


def _losses_by_phase(view: RunView, direction: LinkDirection) -> list[npt.NDArray[np.bool_]]:
    """For each phase, which of the packets that reached the random loss were lost, in order of departure.

    A phase begins with a change of delay or loss, which is when netem is seeded, or with the end of an outage.
    """
    replayed, phases = direction.replay, direction.phases
    seeded = ("delay_ns", "mean_loss", "jitter_ns")
    starts = [
        after.start_ns
        for before, after in pairwise(phases)
        if any(getattr(before, name) != getattr(after, name) for name in seeded)
    ]
    if direction.name == "to_client":
        starts += [end for _, end in outages_of(view)]
    rows = np.flatnonzero((replayed.fate == Fate.DELIVERED) | (replayed.fate == Fate.LOST))
    rows = rows[np.argsort(replayed.departure_ns[rows], kind="stable")]
    cuts = np.searchsorted(replayed.departure_ns[rows], sorted(starts))
    return np.split(replayed.fate[rows] == Fate.LOST, cuts)


def _check_changes(path: RunView, run: RunView) -> tuple[tuple[float, ...], list[str]]:
    """How late each change of a path took effect, ms, and the problems with that, from the zero of the whole run."""
    start = min(
        [window.zero_ns for window in run.windows if window.zero_ns is not None], default=path.events.first_datagram_ns
    )
    if start is None:
        return (), []
    ends = [passage.end_ns for passage in (path.to_client, path.to_server) if passage is not None]
    end = path.events.stop_ns or max(ends, default=0)
    late, problems = [], []
    for index, at, event in _scheduled_changes(path):
        applied = path.events.applied(index, at)
        if applied is None:
            if end - start > (at + CHANGE_MISSED) * 1e9:
                problems.append(f"{event} was due at {at:.3f} s and never took effect")
            continue
        late.append((applied - start) / 1e6 - at * 1e3)
        if abs(late[-1]) > CHANGE_LATE:
            problems.append(
                f"{event} was due at {at:.3f} s and took effect {late[-1]:.0f} ms later "
                f"(tolerance {CHANGE_LATE:.0f} ms)"
            )
    return tuple(late), problems


def _scheduled_changes(path: RunView) -> Iterator[tuple[int, float, str]]:
    """The scheduled changes of a path: (number of its change, or -1; when, s; what)."""
    lab = path.lab
    assert lab is not None
    for index, change in enumerate(lab.changes):
        if change.to_client is not None or change.to_server is not None:  # otherwise nothing changes
            yield index, change.at, f"change {index}"
    for outage in lab.outages:
        whose = "the path" if outage.direction is None else outage.direction
        yield -1, outage.from_ns / 1e9, f"the loss of {whose}"
        if outage.until_ns is not None:
            yield -1, outage.until_ns / 1e9, f"the return of {whose}"
    for mapping in lab.mappings:
        yield -1, mapping.at_ns / 1e9, "the rewriting of an address"


def _cautions(view: RunView, direction: LinkDirection, proof: DirectionProof) -> list[str]:
    cautions = []
    late = proof.lateness_p99_ms
    allowed = _allowed_lateness(view, direction)
    if not view.run.cell.virtual_time and late is not None and late > LATENESS_CAUTION * allowed:
        cautions.append(f"{direction.name}: packets left {late:.1f} ms late at the 99th percentile")
    link = _link(view, direction)
    if proof.burst_bytes is not None and link.burst is None and link.queue.holds and not direction.served_at_random:
        share = bucket_share(link, proof.burst_bytes, view.emulated_path.rtt)
        if share >= BUCKET_CAUTION:
            cautions.append(
                f"{direction.name}: a token bucket of {proof.burst_bytes:,} B lets bursts through that "
                f"a serial link would queue: {share:.0%} of the round trip or the queue"
            )
    if direction.settings.discipline == "red" and proof.burst_bytes is not None:
        cautions.append(
            f"{direction.name}: RED's average does not decay while the link is idle, because a token bucket serves its "
            "queue: after a rest RED drops as if the queue were as long as before"
        )
    unproven = _unproven(direction)
    if unproven >= UNPROVEN_CAUTION:
        cautions.append(f"{direction.name}: {unproven:.0%} of the packets left too close to a change to prove anything")
    if _is_of_host(view) and len({phase.rate_bps for phase in direction.phases}) > 1:
        cautions.append(
            f"{direction.name}: at a change of the rate the host kernel's tbf fills its bucket, and a packet that "
            "waits goes on waiting at the former rate"
        )
    if view.counters is None:
        cautions.append(f"{direction.name}: without the kernel's counters, drops are what the replay takes them for")
    smallest = min((phase.mtu.size for phase in direction.phases if phase.mtu is not None), default=None)
    quic = any(flow.kind == "quic" for flow in view.run.cell.scenario.flows)
    initial = SMALLEST_INITIAL[6 if view.run.cell.scenario.ip_version == 6 else 4]
    if smallest is not None and quic and smallest < initial:
        needs = f"which needs {initial} B (RFC 9000 §14)"
        cautions.append(f"{direction.name}: at an MTU of {smallest} B no QUIC handshake passes, {needs}")
    damaged = any(fault.kind == "corrupt" for fault in direction_faults(view, direction.name))
    missed = direction.passage.missed_at_ingress + (
        0 if any(state.duplicate.value for state in _states(view, direction)) else direction.passage.copies
    )
    if missed and not damaged and not view.capture_drops:
        cautions.append(f"{direction.name}: {missed} packets left that were not seen entering")
    return cautions


def _is_of_host(view: RunView) -> bool:
    """Whether the path ran on the host's kernel, with its unmodified queueing disciplines."""
    return (view.run.sim_kernel or view.events.kernel).startswith("host")


def _unproven(direction: LinkDirection) -> float:
    """Share of the delivered packets whose departure is not checked, because it was close to a change."""
    delivered = direction.replay.fate == Fate.DELIVERED
    if direction.served_at_random or len(direction.phases) == 1 or not delivered.any():
        return 0.0
    return float((delivered & ~direction.replay.comparable).sum() / delivered.sum())


def _link(view: RunView, direction: LinkDirection) -> Link:
    """One direction as the scenario describes it."""
    path = view.emulated_path
    return path.to_client if direction.name == "to_client" else path.to_server


def _states(view: RunView, direction: LinkDirection) -> tuple[Link, ...]:
    """One direction as the scenario describes it, at first and after each change.

    A change that only lab.json has is taken for one that leaves everything else as it was.
    """
    states = link_states(view.emulated_path)[direction.name]
    count = 1 + max(phase.changes for phase in direction.phases)
    return (*states, *states[-1:] * (count - len(states)))


def _since_text(index: int) -> str:
    return f" since change {index - 1}" if index else ""
