"""What to build next, what to run next, and how long all of it takes. Pure.

Runs and builds share the machine: a run starts as soon as all that it needs is there, and what the other runs need
is built meanwhile, one image at a time. Until the first run has ended, nothing that could wait is built: compilers take
the cores from each other, and the first verdict is what people wait for.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

#: Builds side by side while no run is under way: while one downloads or unpacks, the other compiles.
LANES = 2
#: Seconds of building, all that is below included, that may be spent beside what everybody waits for.
SHORT = 25.0
#: How fast a build goes on beside a real-time run, against alone: cells of the satellite cases leave 0.5 to 0.7 of two
#: cores idle (`host.idle` of stored runs).
BESIDE_RUN = 0.6


@dataclass(frozen=True)
class Step:
    """One image that is not there yet."""

    reference: str
    name: str
    """For people."""
    seconds: float
    """Expected time of the build, alone on the machine, without what is below."""
    on: frozenset[str] = frozenset()
    """References of what must be there before."""


@dataclass(frozen=True)
class Work:
    """All that is left at one moment."""

    steps: Mapping[str, Step]
    """Reference → image that is not there, those that are being built included."""
    needs: Sequence[frozenset[str]]
    """Of each run that has not started, in plan order: references of all it needs. What is not in `steps` is there."""
    under_way: Mapping[str, float] = field(default_factory=dict)
    """Reference of what is being built → seconds it has been built for."""
    running: int = 0
    """Runs that are under way."""
    ended: int = 0
    """Runs that have ended."""

    def absent(self, needs: Iterable[str]) -> frozenset[str]:
        """What of these is not there, with all that is below."""
        found: set[str] = set()
        left = [reference for reference in needs if reference in self.steps]
        while left:
            reference = left.pop()
            if reference not in found:
                found.add(reference)
                left += [below for below in self.steps[reference].on if below in self.steps]
        return frozenset(found)

    def seconds(self, references: Iterable[str]) -> float:
        """Seconds that these builds still take, one after the other."""
        return sum(self.left(reference) for reference in references)

    def left(self, reference: str) -> float:
        """Seconds that a build still takes; none, where it takes longer than expected already."""
        return max(0.0, self.steps[reference].seconds - self.under_way.get(reference, 0.0))

    def startable(self, reference: str) -> bool:
        """Whether a build could start now."""
        return reference not in self.under_way and not any(below in self.steps for below in self.steps[reference].on)


def next_run(work: Work) -> int | None:
    """Index of the first run in plan order whose images are there; None when each waits for one."""
    return next(ready_runs(work), None)


def ready_runs(work: Work) -> Iterator[int]:
    """Indices of all runs whose images are there, in plan order."""
    return (index for index, needs in enumerate(work.needs) if work.steps.keys().isdisjoint(needs))


def next_step(work: Work) -> Step | None:
    """The build to start next, or None where a further one would only delay what is awaited.

    The run that needs the least building comes first; of its builds, the one with the longest way to the end. Before
    the first run, builds for other runs are started only when they are short; beside it, none.
    """
    goes_on = work.running > 0 or next_run(work) is not None
    if len(work.under_way) >= (1 if goes_on else LANES) or (goes_on and not work.ended):
        return None
    waiting = [absent for needs in dict.fromkeys(work.needs) if (absent := work.absent(needs))]
    waiting.sort(key=work.seconds)
    held = not work.ended
    for position, absent in enumerate(waiting):
        startable = [reference for reference in sorted(absent) if work.startable(reference)]
        if not startable:
            continue
        more = work.seconds(absent - waiting[0] - work.under_way.keys())
        if position and held and more > SHORT:
            continue
        return work.steps[max(startable, key=lambda reference: _way(work, absent, reference))]
    return None


def _way(work: Work, absent: frozenset[str], reference: str) -> float:
    """Seconds from the start of a build to the end of the last that is built on it."""
    above = [_way(work, absent, other) for other in absent if reference in work.steps[other].on]
    return work.left(reference) + max(above, default=0.0)


def awaited(work: Work) -> list[tuple[Step, float]]:
    """What the run that starts next waits for, with the seconds each still takes; the longest first."""
    waiting = [absent for needs in work.needs if (absent := work.absent(needs))]
    nearest = min(waiting, key=work.seconds, default=frozenset[str]())
    found = [(work.steps[reference], work.left(reference)) for reference in nearest]
    return sorted(found, key=lambda item: (-item[1], item[0].name))


def seconds_left(work: Work, runs: Sequence[float], jobs: int, current: Sequence[float] = ()) -> float:
    """Seconds until everything is done, found by going through the schedule.

    `runs`: expected seconds of each run in `work.needs`. `current`: seconds that each run under way still takes.
    `jobs`: runs side by side. Builds share the machine with each other, and with runs.
    """
    steps, needs, durations = dict(work.steps), list(work.needs), list(runs)
    builds = {reference: work.left(reference) for reference in work.under_way}
    running = [max(0.0, seconds) for seconds in current]
    now, ended = 0.0, work.ended
    while needs or running or builds:
        if not steps and not builds:
            return now + _runs_alone(running, durations, jobs)
        state = Work(steps, needs, dict.fromkeys(builds, 0.0), len(running), ended)
        while len(running) < jobs and (index := next_run(state)) is not None:
            needs.pop(index)
            running.append(durations.pop(index))
            state = Work(steps, needs, state.under_way, len(running), ended)
        while (step := next_step(state)) is not None:
            builds[step.reference] = step.seconds
            state = Work(steps, needs, dict.fromkeys(builds, 0.0), len(running), ended)
        if not builds and not running:
            # What is left needs something that nobody builds.
            return now
        rate = (BESIDE_RUN if running else 1.0) / max(1, len(builds))
        passed = min([*running, *(left / rate for left in builds.values())])
        now += passed
        ended += sum(left <= passed for left in running)
        running = [left - passed for left in running if left > passed]
        builds = {reference: left - passed * rate for reference, left in builds.items()}
        for reference in [reference for reference, left in builds.items() if left <= 1e-9]:
            del builds[reference], steps[reference]
    return now


def _runs_alone(running: Sequence[float], durations: Sequence[float], jobs: int) -> float:
    """The same where nothing is built any more: whichever run ends first makes room for the next.

    `running`: seconds that each run under way still takes; `durations`: of each run to come, in plan order.
    """
    ends = list(running)
    heapq.heapify(ends)
    for seconds in durations:
        begin = heapq.heappop(ends) if len(ends) >= jobs else 0.0
        heapq.heappush(ends, begin + seconds)
    return max(ends, default=0.0)
