"""Schedule of builds and runs: what to build next, what to run next, and how long all of it takes. Pure.

Runs and builds share the machine. A run starts as soon as all images that it needs are there. Images for the other runs
are built meanwhile, one at a time. Until the first run has ended, builds that can wait do wait: compilers compete for
the cores, and people wait for the first verdict.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

#: Builds side by side while no run is under way: one downloads or unpacks while the other compiles.
LANES = 2
#: Builds of at most so many seconds, with the images below, may go on beside the build that the first run needs.
SHORT = 25.0
#: Speed of a build beside a real-time run, relative to one alone. Cells of the satellite cases leave 0.5 to 0.7 of two
#: cores idle (`host.idle` of stored runs).
BESIDE_RUN = 0.6


@dataclass(frozen=True)
class Step:
    """One image that is not there yet."""

    reference: str
    name: str
    """For people."""
    seconds: float
    """Expected seconds of the build, alone on the machine, without the images below."""
    bases: frozenset[str] = frozenset()
    """References of the images that must be there before."""


@dataclass(frozen=True)
class Work:
    """All builds and runs that are left at one moment."""

    steps: Mapping[str, Step]
    """Reference → image that is not there; includes those that are being built."""
    needs: Sequence[frozenset[str]]
    """References of all images of each run that has not started, in plan order. Those not in `steps` are there."""
    under_way: Mapping[str, float] = field(default_factory=dict)
    """Reference of an image that is being built → seconds since the start of its build."""
    running: int = 0
    """Runs that are under way."""
    ended: int = 0
    """Runs that have ended."""

    def missing(self, needs: Iterable[str]) -> frozenset[str]:
        """Those of these images that are not there, with all missing images below them."""
        missing: set[str] = set()
        pending = [reference for reference in needs if reference in self.steps]
        while pending:
            reference = pending.pop()
            if reference not in missing:
                missing.add(reference)
                pending += [below for below in self.steps[reference].bases if below in self.steps]
        return frozenset(missing)

    def seconds(self, references: Iterable[str]) -> float:
        """Seconds that these builds still take, one after the other."""
        return sum(self.seconds_left(reference) for reference in references)

    def seconds_left(self, reference: str) -> float:
        """Seconds that a build still takes; 0 where it already takes longer than expected."""
        return max(0.0, self.steps[reference].seconds - self.under_way.get(reference, 0.0))

    def startable(self, reference: str) -> bool:
        """Whether a build could start now."""
        return reference not in self.under_way and not any(below in self.steps for below in self.steps[reference].bases)


def next_run(work: Work) -> int | None:
    """Index of the first run in plan order whose images are there; None when each waits for one."""
    return next(ready_runs(work), None)


def ready_runs(work: Work) -> Iterator[int]:
    """Indices of all runs whose images are there, in plan order."""
    return (index for index, needs in enumerate(work.needs) if work.steps.keys().isdisjoint(needs))


def next_step(work: Work) -> Step | None:
    """The build to start next, or None where another one would only delay what people wait for.

    The run that needs the least building comes first; of its builds, the one with the longest critical path. Before the
    first run, builds for other runs start only if they are short. Beside the first run none starts.
    """
    goes_on = work.running > 0 or next_run(work) is not None
    if len(work.under_way) >= (1 if goes_on else LANES) or (goes_on and not work.ended):
        return None
    waiting = [absent for needs in dict.fromkeys(work.needs) if (absent := work.missing(needs))]
    waiting.sort(key=work.seconds)
    before_first_run = not work.ended
    for position, absent in enumerate(waiting):
        startable = [reference for reference in sorted(absent) if work.startable(reference)]
        if not startable:
            continue
        extra_seconds = work.seconds(absent - waiting[0] - work.under_way.keys())
        if position and before_first_run and extra_seconds > SHORT:
            continue
        return work.steps[max(startable, key=lambda reference: _critical_path(work, absent, reference))]
    return None


def _critical_path(work: Work, absent: frozenset[str], reference: str) -> float:
    """Critical path: seconds from the start of a build to the end of the last build on top of it."""
    above = [
        _critical_path(work, absent, dependent) for dependent in absent if reference in work.steps[dependent].bases
    ]
    return work.seconds_left(reference) + max(above, default=0.0)


def awaited_builds(work: Work) -> list[tuple[Step, float]]:
    """Builds that the next run waits for, with the seconds that each still takes; the longest first."""
    waiting = [absent for needs in work.needs if (absent := work.missing(needs))]
    nearest = min(waiting, key=work.seconds, default=frozenset[str]())
    remaining = [(work.steps[reference], work.seconds_left(reference)) for reference in nearest]
    return sorted(remaining, key=lambda item: (-item[1], item[0].name))


def seconds_left(work: Work, runs: Sequence[float], jobs: int, current: Sequence[float] = ()) -> float:
    """Seconds until everything is done, from a simulation of the schedule.

    `runs`: expected seconds of each run in `work.needs`. `current`: seconds that each run under way still takes.
    `jobs`: runs side by side. Builds share the machine with each other, and with runs.
    """
    steps, needs, durations = dict(work.steps), list(work.needs), list(runs)
    builds = {reference: work.seconds_left(reference) for reference in work.under_way}
    running = [max(0.0, seconds) for seconds in current]
    now, ended = 0.0, work.ended
    while needs or running or builds:
        if not steps and not builds:
            return now + _seconds_of_runs(running, durations, jobs)
        state = Work(steps, needs, dict.fromkeys(builds, 0.0), len(running), ended)
        while len(running) < jobs and (index := next_run(state)) is not None:
            needs.pop(index)
            running.append(durations.pop(index))
            state = Work(steps, needs, state.under_way, len(running), ended)
        while (step := next_step(state)) is not None:
            builds[step.reference] = step.seconds
            state = Work(steps, needs, dict.fromkeys(builds, 0.0), len(running), ended)
        if not builds and not running:
            # The remaining runs need an image that nobody builds.
            return now
        rate = (BESIDE_RUN if running else 1.0) / max(1, len(builds))
        elapsed = min([*running, *(left / rate for left in builds.values())])
        now += elapsed
        ended += sum(left <= elapsed for left in running)
        running = [left - elapsed for left in running if left > elapsed]
        builds = {reference: left - elapsed * rate for reference, left in builds.items()}
        for reference in [reference for reference, left in builds.items() if left <= 1e-9]:
            del builds[reference], steps[reference]
    return now


def _seconds_of_runs(running: Sequence[float], durations: Sequence[float], jobs: int) -> float:
    """The same when all builds are done: whichever run ends first makes room for the next.

    `running`: seconds that each run under way still takes; `durations`: seconds of each later run, in plan order.
    """
    ends = list(running)
    heapq.heapify(ends)
    for seconds in durations:
        begin = heapq.heappop(ends) if len(ends) >= jobs else 0.0
        heapq.heappush(ends, begin + seconds)
    return max(ends, default=0.0)
