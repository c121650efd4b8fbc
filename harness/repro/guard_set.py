"""The guard set: the cheapest reference runs that together touch everything that the reference touches. Pure.

An equivalence of two versions of the code is proven on it: where a change matters at all, it matters to some stack,
some key of a scenario or some parameter, and each of these is in the set.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from harness.outcome import Cell, Run
from harness.scenario.parameters import ROLES
from harness.store.identity import scenario_keys

#: A thing that a run touches: its kind, and what it is called.
Feature = tuple[str, ...]
#: Seconds that a run takes beside its own time: images are looked up, captures measured.
OVERHEAD = 1.0


def features(cell: Cell) -> frozenset[Feature]:
    """What the runs of a cell touch.

    These are the stacks in their roles, the keys of the scenario, the values of all parameters, the IP version, the
    test case, and how many flows, paths and certificates there are.
    """
    scenario = cell.scenario
    found: set[Feature] = {("key", key) for key in scenario_keys(cell)}
    found |= {("ip_version", str(scenario.ip_version)), ("testcase", str(scenario.testcase))}
    found |= {("paths", str(len(scenario.every_path))), ("certificates", str(scenario.certificates))}
    found.add(("flows", "several" if len(scenario.flows) > 1 else "one"))
    values = [cell.parameters, scenario.parameters, *(flow.parameters for flow in scenario.flows)]
    found |= {("value", name, str(value)) for asked in values for name, value in asked.items()}
    for number, flow in enumerate(scenario.flows):
        found |= {(role, cell.implementation(role, number).name) for role in ROLES}
        found |= {("move", move.how) for move in flow.moves}
    return frozenset(found)


def guard_set(runs: Iterable[Run]) -> list[Run]:
    """Runs that together touch every feature of all of them, for as little time as a greedy choice finds.

    The choice is Chvátal's for weighted set cover (1979): in turn the run with most new features a second. A run that
    those after it made superfluous is left out. The same runs give the same set.
    """
    cheapest: dict[frozenset[Feature], Run] = {}
    for run in sorted(runs, key=lambda run: (run.wall, run.name)):
        cheapest.setdefault(features(run.cell), run)
    missing: set[Feature] = set().union(*cheapest)
    chosen: list[tuple[frozenset[Feature], Run]] = []
    while missing:
        touched = max(cheapest, key=lambda touched: len(touched & missing) / (cheapest[touched].wall + OVERHEAD))
        chosen.append((touched, cheapest[touched]))
        missing -= touched
    counts = Counter(feature for touched, _ in chosen for feature in touched)
    kept = []
    # The dearest go first.
    for touched, run in sorted(chosen, key=lambda item: (-item[1].wall, item[1].name)):
        if all(counts[feature] > 1 for feature in touched):
            counts.subtract(touched)
        else:
            kept.append(run)
    return sorted(kept, key=lambda run: run.name)


def sample(runs: Sequence[Run], share: float, seed: int) -> list[Run]:
    """A random share of runs, each cell once; `share`: from 0 to 1."""
    first = list({run.cell.key: run for run in sorted(runs, key=lambda run: (run.cell.key, -run.repetition))}.values())
    return random.Random(seed).sample(first, round(share * len(first)))
