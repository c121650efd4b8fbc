"""How much of a transfer the endpoints and the simulator waited for a processor; too long a wait is starvation.

In real time only: in virtual time a process that waits does so while the lab's clock stands still.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from harness.analysis.metric_registry import Finding, declare, measures
from harness.analysis.metrics.kinds import transfer_measurement
from harness.analysis.run_view import RunView
from harness.capture.artefacts import TransferWindow
from harness.capture.counters import MACHINE, Kind, WaitTime, cores_during_wait, cumulative_increase, wait_time
from harness.outcome import Absence
from harness.scenario.parameters import ROLES

#: From the first share of a transfer on, a process that waited that long for a processor was starved, and the run
#: measures the machine. From the second share on, it gets a caution (docs/limits.md has the runs both rest on).
STARVED, CAUTION = 0.18, 0.10
#: Samples must span at least this share of a transfer to represent it.
SPANNED = 0.5
_HINT = "end what else runs on this machine, or use --engine virtual, where nobody waits"
#: If the lab's use and idle time are at least this share of the processors, its containers waited for each other. The
#: rest of the machine then had too little to matter, and a quieter machine would change nothing.
OWN_LOAD = 0.8
_OWN_HINT = "a quieter machine changes nothing; use one with more processors, or --engine virtual, where nobody waits"
#: How long servers may take to answer, in the simulator's words; and up to what share of idle time a machine is full.
_LIMIT, _IDLE = re.compile(r"within ([\d.]+) s"), 0.1
#: The kinds of wait that a container is judged by: the first one available.
_WAITS: tuple[Kind, ...] = ("longest", "pressure")
_SUBJECTS = {"client": "client", "server": "server", "sim": "simulator, which serves all flows,"}
_SOURCE = "run_delay of /proc/TID/schedstat (Documentation/scheduler/sched-stats.rst), every 0.1 s"
_PRESSURE_SOURCE = "cpu.pressure of the control group (Documentation/accounting/psi.rst), every 0.1 s"
WAITING = {
    role: declare(
        f"waiting_{role}",
        layer="flow",
        unit="1",
        better="lower",
        title=f"share of the transfer in which a thread of the {subject} could run and had no processor",
        formula="Σ over samples of the wait of the thread that waited most / time sampled: threads that wait for each "
        "other count once, those that come and go between two samples not at all; without what the hypervisor took",
        source=_SOURCE,
    )
    for role, subject in _SUBJECTS.items()
}
PRESSURE = {
    role: declare(
        f"pressure_{role}",
        layer="flow",
        unit="1",
        better="lower",
        title=f"share of the transfer in which at least one thread of the {subject} had no processor",
        formula='growth of the total of "some" / time sampled, where the control group has it (v2)',
        source=_PRESSURE_SOURCE,
    )
    for role, subject in _SUBJECTS.items()
}
STEAL = declare(
    "steal",
    layer="flow",
    unit="1",
    better="lower",
    title="share of the processors' time that the hypervisor gave to others during the transfer",
    formula="growth of stolen time / (time sampled · processors)",
    source="/proc/stat, every 0.1 s",
)


@dataclass(frozen=True)
class Starvation:
    """The starved containers of a run, and the nearly starved ones, in a sentence each."""

    starved: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()


@measures
def waiting(view: RunView) -> Iterator[Finding]:
    """Yield waiting and pressure, with several simulators those of the one that waited most, and steal."""
    if view.waits is None:
        return
    for window in view.windows:
        for role, names in containers(view, window).items():
            waits = [_wait_over(view, window, name, "longest") for name in names]
            shares = [wait.share for wait in waits if wait is not None]
            if len(shares) < len(names):
                why = "samples of who waits for a processor span too little of the transfer"
                yield Absence(metric=WAITING[role].name, flows=(window.transfer.flow,), transfer=window.name, why=why)
                continue
            yield transfer_measurement(WAITING[role], window, max(shares), "schedstat")
            pressures = [_wait_over(view, window, name, "pressure") for name in names]
            pressure_shares = [wait.share for wait in pressures if wait is not None]
            if pressure_shares:
                yield transfer_measurement(PRESSURE[role], window, max(pressure_shares), "cgroup")
        stolen = _steal(view, window)
        if stolen is not None:
            yield transfer_measurement(STEAL, window, stolen, "/proc/stat")


def starvation(view: RunView) -> Starvation:
    """The containers that waited too long for the processor in a run in real time, to be judged like its link."""
    if view.waits is None:
        return Starvation()
    if view.run.outcome.reason == "no_answer":
        return _starvation_of_start(view)
    delays = [delay for window in view.windows for delay in _run_delays(view, window) if delay.share >= CAUTION]
    starved = tuple(delay.sentence for delay in delays if delay.share >= STARVED)
    cautions = (
        f"{delay.text} (from {STARVED:.0%} on the run counts for nothing)" for delay in delays if delay.share < STARVED
    )
    return Starvation(starved, tuple(cautions))


def _starvation_of_start(view: RunView) -> Starvation:
    """The same where no server answered. Judged by the waits, where they were sampled for long enough of its start.

    Else by the machine: a server that had less than half a processor, while the machine had none idle, was starved.
    """
    assert view.waits is not None
    limit = _LIMIT.search(view.run.outcome.detail)
    start, end = view.waits["t_ns"].min(), view.waits["t_ns"].max()
    if limit is None or not (isinstance(start, int) and isinstance(end, int)):
        return Starvation()
    servers = [f"server{flow}" for flow in range(len(view.run.cell.scenario.flows))]
    wait_ns = float(limit[1]) * 1e9
    if end - start >= SPANNED * wait_ns:
        delays = _delays_between(view, (*servers, *view.simulators), start, end, "of the wait for the servers")
        return Starvation(tuple(delay.sentence for delay in delays if delay.share >= STARVED))
    used = [None if view.cpu is None else cumulative_increase(view.cpu, name, "cpu_ns", -1, end) for name in servers]
    idle, least = view.host_share("idle"), min((ns for ns in used if ns is not None), default=None)
    if least is None or least >= wait_ns / 2 or idle is None or idle >= _IDLE:
        return Starvation()
    text = f"a server had {least / 1e9:.2g} s of CPU time, while the processors were idle for {idle:.0%} of the run"
    return Starvation((f"{text}: {_HINT}",))


@dataclass(frozen=True)
class _Delay:
    """For how long a container could not run."""

    share: float
    """Of the transfer."""
    text: str
    """Which container, for how long and why, as a sentence."""
    load: str = ""
    """Who had the processors meanwhile, in words; empty where the samples do not say."""
    own: bool = False
    """Whether that was the lab itself."""

    @property
    def sentence(self) -> str:
        """All that is known of it, and what to do."""
        load = f", while {self.load}" if self.load else ""
        return f"{self.text}{load} (tolerance {STARVED:.0%}): {_OWN_HINT if self.own else _HINT}"


def _run_delays(view: RunView, window: TransferWindow) -> Iterator[_Delay]:
    """The delays of a transfer's containers."""
    names = chain.from_iterable(containers(view, window).values())
    yield from _delays_between(view, names, *_span(window), f"of {_transfer_name(window)}")


def _delays_between(view: RunView, names: Iterable[str], start: int, end: int, during: str) -> Iterator[_Delay]:
    """The same of any time. `during`: what of, as the end of a sentence."""
    for container in names:
        for kind in _WAITS:
            if (longest := _wait_between(view, container, kind, start, end)) is not None:
                text = f"{container} waited for a processor for {longest.share:.0%} {during}"
                yield _Delay(longest.share, text, *_load(view, container, kind, start, end))
                break
        stop = _wait_between(view, container, "stopped", start, end)
        if stop is not None:
            yield _Delay(stop.share, f"{container} was stopped (SIGSTOP) for {stop.share:.0%} {during}")
    stolen = _stolen_between(view, start, end)
    if stolen is not None:
        text = f"the hypervisor gave {stolen:.0%} of the processors' time to others in the course {during}"
        yield _Delay(stolen, text)


def _load(view: RunView, container: str, kind: Kind, start: int, end: int) -> tuple[str, bool]:
    """Who had the processors while a container waited, in words, and whether that was the lab itself."""
    assert view.waits is not None
    processors = view.run.host.get("cpus")
    used = {} if view.cpu is None else cores_during_wait(view.waits, view.cpu, container, kind, start, end)
    if not isinstance(processors, int) or not used:
        return "", False
    greatest, total = max(used, key=lambda name: used[name]), min(sum(used.values()), processors)
    itself = f"{greatest} itself" if greatest == container else greatest
    if used[greatest] >= OWN_LOAD * processors:
        both = {1: "the only processor", 2: "both processors"}.get(processors, f"all {processors} processors")
        return f"{itself} used {both} ({min(used[greatest], processors):.1f} of {processors})", True
    words = f"the lab used {total:.1f} of {processors} processors, {itself} {used[greatest]:.1f} of them"
    idle = view.host_share("idle") or 0.0
    free = idle if idle >= _IDLE else 0.0
    words += f", and they were idle for {free:.0%} of the run" if free else ""
    own = total + free * processors >= OWN_LOAD * processors
    return words if own else f"{words}, and others on this machine had the rest", own


def _span(window: TransferWindow) -> tuple[int, int]:
    """A transfer from its first datagram on, ns since the epoch."""
    return window.start_ns if window.zero_ns is None else window.zero_ns, window.transfer.ended_ns


def _wait_over(view: RunView, window: TransferWindow, container: str, kind: Kind) -> WaitTime | None:
    """The growth of a sum over a transfer."""
    return _wait_between(view, container, kind, *_span(window))


def _wait_between(view: RunView, container: str, kind: Kind, start: int, end: int) -> WaitTime | None:
    """The growth of a sum over a time; None if samples do not span enough of it."""
    assert view.waits is not None
    wait = wait_time(view.waits, container, kind, start, end)
    return wait if wait is not None and wait.sampled_ns >= SPANNED * (end - start) else None


def _steal(view: RunView, window: TransferWindow) -> float | None:
    return _stolen_between(view, *_span(window))


def _stolen_between(view: RunView, start: int, end: int) -> float | None:
    stolen, processors = _wait_between(view, MACHINE, "steal", start, end), view.run.host.get("cpus")
    return stolen.share / processors if stolen is not None and isinstance(processors, int) else None


def containers(view: RunView, window: TransferWindow) -> dict[str, tuple[str, ...]]:
    """Role → the containers of a transfer's figures. The simulators serve all flows: they count for the first flow."""
    flow = window.transfer.flow
    ends: dict[str, tuple[str, ...]] = {role: (f"{role}{flow}",) for role in ROLES}
    return ends if flow else {**ends, "sim": view.simulators}


def _transfer_name(window: TransferWindow) -> str:
    """A transfer's name in a sentence."""
    ordinal = "the second transfer" if window.transfer.index else "the transfer"
    return ordinal if window.is_only_flow else f"{ordinal} of flow {window.transfer.flow}"
