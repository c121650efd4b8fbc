"""The guard set: the cheapest reference runs that together have all features of the reference. Pure.

It serves to prove that two versions of the code are equivalent. If a change matters at all, it matters to some stack,
some key of a scenario or some parameter, and the set has each of these.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from harness.outcome import Cell, Run
from harness.scenario.parameters import ROLES
from harness.store.identity import scenario_keys

#: A feature of a run: its kind and its name, and a value where it has one.
Feature = tuple[str, ...]
#: Seconds that a run takes beside its own time: to look up images, and to measure captures.
OVERHEAD = 1.0


def features(cell: Cell) -> frozenset[Feature]:
    """Features of the runs of a cell.

    These are the stacks in their roles, the keys of the scenario, the values of all parameters, the IP version, the
    test case, moves of the client, and the numbers of flows, paths and certificates.
    """
    scenario = cell.scenario
    touched: set[Feature] = {("key", key) for key in scenario_keys(cell)}
    names = ("ip_version", "testcase", "server_testcase")
    touched |= {(name, str(getattr(scenario, name))) for name in names}
    touched |= {("paths", str(len(scenario.every_path))), ("certificates", str(scenario.certificates))}
    touched.add(("flows", "several" if len(scenario.flows) > 1 else "one"))
    values = [cell.parameters, scenario.parameters, *(flow.parameters for flow in scenario.flows)]
    touched |= {("value", name, str(value)) for parameters in values for name, value in parameters.items()}
    for number, flow in enumerate(scenario.flows):
        touched |= {(role, cell.implementation(role, number).name) for role in ROLES}
        touched |= {("move", move.how) for move in flow.moves}
    return frozenset(touched)


def guard_set(runs: Iterable[Run]) -> list[Run]:
    """Runs that together have every feature of all of them, with the least time that a greedy choice finds.

    The choice is Chvátal's for weighted set cover (1979): repeatedly the run with the most new features per second.
    Runs that later choices made superfluous are removed. The same runs give the same set.
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
    remaining = []
    # The longest runs are removed first.
    for touched, run in sorted(chosen, key=lambda item: (-item[1].wall, item[1].name)):
        if all(counts[feature] > 1 for feature in touched):
            counts.subtract(touched)
        else:
            remaining.append(run)
    return sorted(remaining, key=lambda run: run.name)


def sample(runs: Sequence[Run], share: float, seed: int) -> list[Run]:
    """A random share of runs, each cell once; `share`: from 0 to 1."""
    first = list({run.cell.key: run for run in sorted(runs, key=lambda run: (run.cell.key, -run.repetition))}.values())
    return random.Random(seed).sample(first, round(share * len(first)))
