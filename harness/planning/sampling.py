"""Values that are drawn at random for each repetition: a scenario with ranges and a run's seed → one without. Pure.

The drawn values are stored with the run, under the names that the scenario gives its ranges.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from harness.errors import UnfitError
from harness.netem import draw_value, find_inexpressible, realise
from harness.outcome import Cell
from harness.planning.link_properties import NESTED_QUANTITIES, set_property
from harness.planning.sweep import SweepError, find_place, property_of
from harness.scenario.parameters import ParameterValue
from harness.scenario.schema import FORMS, MAXIMUM_DRAWN, Path, Scenario
from harness.scenario.validation_errors import Location, Mistake, find_mistakes
from harness.units import Duration, Percentage, Quantity, Rate, Size

#: Properties that can be drawn → their quantity.
_KINDS: dict[str, type[Quantity]] = {
    "rate": Rate,
    "delay": Duration,
    "jitter": Duration,
    "loss": Percentage,
    "burst": Size,
    "reorder": Percentage,
    "duplicate": Percentage,
    **NESTED_QUANTITIES,
}
#: Name of the seed that values of changes were drawn by, among the values of a run.
CHANGES_SEED = "changes.seed"


def sample_values(scenario: Scenario, seed: int) -> dict[str, str]:
    """The values of a run with this seed, by name, in written form. Raises ValueError for an invalid range."""
    values = {name: _draw_value(name, limits, seed) for name, limits in scenario.draw.items()}
    if any(path.draws for path in scenario.every_path.values()):
        values[CHANGES_SEED] = str(seed)
    return values


def _draw_value(name: str, limits: tuple[object, object], seed: int) -> str:
    kind, low, high = _limits(name, limits)
    return str(draw_value(kind, low, high, f"{seed} {name}"))


def _limits(name: str, limits: tuple[object, object]) -> tuple[type[Quantity], int, int]:
    kind = _KINDS[property_of(name)]
    low, high = (kind.parse(str(limit)).value for limit in limits)
    return kind, low, high


def with_drawn_values(scenario: Scenario, values: Mapping[str, ParameterValue]) -> Scenario:
    """The scenario of one run, with the drawn value in place of each range, and each change where it comes.

    Raises ValidationError.
    """
    return with_plain_changes(_with_properties(scenario, values), int(values.get(CHANGES_SEED, 0)))


def with_plain_changes(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with every change of its paths as it comes in a run with this seed."""
    paths = scenario.every_path
    if all(path.is_plain for path in paths.values()):
        return scenario
    return scenario.with_paths({name: realise(path, seed, scenario.horizon, name) for name, path in paths.items()})


def _with_properties(scenario: Scenario, values: Mapping[str, ParameterValue]) -> Scenario:
    if not scenario.draw:
        return scenario
    contents = _contents(scenario, {name: values[name] for name in scenario.draw})
    paths = {name: type(scenario.every_path[name]).model_validate(content) for name, content in contents.items()}
    return scenario.with_paths({**scenario.every_path, **paths}).model_copy(update={"draw": {}})


def _contents(scenario: Scenario, values: Mapping[str, ParameterValue]) -> dict[str, dict[str, Any]]:
    """The paths with drawn properties, as plain data that contains the drawn values."""
    contents: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        path, direction, prop = find_place(scenario, name)
        content = contents.setdefault(path, scenario.every_path[path].model_dump(mode="json", by_alias=True))
        set_property(content[direction], prop, value)
    return contents


def range_mistakes(scenario: Scenario) -> Iterator[Mistake]:
    """Errors in the ranges of a scenario: names, values, order, and corners that are no valid path."""
    errors = list(itertools.chain.from_iterable(_name_mistakes(scenario, name) for name in scenario.draw))
    yield from errors
    if errors:
        return
    by_path: dict[str, list[str]] = {}
    places: dict[tuple[str, str, str], str] = {}
    for name in scenario.draw:
        place = find_place(scenario, name)
        if (synonym := places.setdefault(place, name)) != name:
            yield Mistake(("draw", name), f"that is {synonym} by another name", "leave one of the two out", of_key=True)
        if any(_is_same_place(scenario, name, varied) for varied in scenario.vary):
            yield Mistake(("draw", name), f"{name} is both drawn and varied", "leave one of the two out", of_key=True)
        by_path.setdefault(place[0], []).append(name)
    for names in by_path.values():
        yield from _corner_mistakes(scenario, names)


def _name_mistakes(scenario: Scenario, name: str) -> Iterator[Mistake]:
    location: Location = ("draw", name)
    try:
        _, _, prop = find_place(scenario, name)
    except SweepError as error:
        yield Mistake(location, error.reason, error.hint, of_key=True)
        return
    if prop not in _KINDS:
        text = f"a {prop} is not drawn: it is no quantity with a unit"
        plain = [kind for kind in _KINDS if "." not in kind]
        yield Mistake(location, text, f"draw one of {', '.join(plain)}", of_key=True)
        return
    kind = _KINDS[prop]
    for index, limit in enumerate(scenario.draw[name]):
        try:
            kind.parse(str(limit))
        except ValueError as error:
            yield Mistake((*location, index), str(error), getattr(error, "hint", ""))
            return
    _, low, high = _limits(name, scenario.draw[name])
    if low > high:
        yield Mistake(location, "a range goes from the least to the most", "exchange the two")


def _is_same_place(scenario: Scenario, name: str, varied: str) -> bool:
    try:
        (*drawn_link, drawn), (*varied_link, prop) = find_place(scenario, name), find_place(scenario, varied)
    except SweepError:
        return False
    # A key of what is varied as a whole is the same place, too.
    return drawn_link == varied_link and (drawn == prop or drawn.startswith(f"{prop}.") or prop.startswith(f"{drawn}."))


def _corner_mistakes(scenario: Scenario, names: list[str]) -> Iterator[Mistake]:
    """Every combination of the limits of one path's ranges must be a path that can be emulated."""
    if len(names) > MAXIMUM_DRAWN:
        text = f"{len(names)} values of one path are drawn, and {MAXIMUM_DRAWN} are the most"
        yield Mistake(("draw", names[MAXIMUM_DRAWN]), text, "leave some out", of_key=True)
        return
    for corner in itertools.product(*(scenario.draw[name] for name in names)):
        try:
            ((path, content),) = _contents(scenario, dict(zip(names, map(str, corner), strict=True))).items()
        except UnfitError as error:
            yield Mistake(("draw", names[0]), str(error), error.hint, of_key=True)
            return
        try:
            mistake = find_inexpressible(type(scenario.every_path[path]).model_validate(content), scenario.horizon)
        except ValidationError as errors:
            mistake = find_mistakes(errors, content, forms=FORMS)[0]
        if mistake is not None:
            yield Mistake(("draw", names[0]), f"with {', '.join(map(str, corner))}: {mistake.text}", mistake.hint)
            return


# --- Whether the figures of a cell, and the path of a scenario, are random.


#: Traffic models whose sending times do not depend on the seed.
_REGULAR = frozenset({"bulk", "cbr"})


def is_random(cell: Cell) -> bool:
    """Whether another seed, or an irrelevant change of code or images, may give other figures.

    Always in real time. In virtual time if the scenario draws random numbers (loss, damage, jitter, a service process,
    RED's early drops, ranges, a generator's gaps). Also if several flows share a queue, since the order of two packets
    then decides which one is dropped.
    """
    scenario = cell.scenario
    return (
        not cell.deterministic
        or len(scenario.flows) > 1
        or has_random_path(scenario)
        or any(flow.traffic.model not in _REGULAR for flow in scenario.flows)
    )


def has_random_path(scenario: Scenario) -> bool:
    """Whether the path depends on the seed: loss, corruption, jitter, a service process, RED, or ranges."""
    return bool(scenario.draw) or any(map(_is_random_path, scenario.every_path.values()))


def has_chance(scenario: Scenario) -> bool:
    """Whether chance decides what becomes of packets: as `has_random_path`, without the scenario's drawn ranges.

    A value that is drawn once for a run is known, and is the same in every cell of a repetition.
    """
    return any(map(_is_random_path, scenario.every_path.values()))


def _is_random_path(path: Path) -> bool:
    links = [path.forward, path.return_]
    changed_links = [link for change in path.changes for _, link in change.sides]
    return (
        any(
            link.mean_loss > 0
            or link.variation.deviation.value > 0
            or link.reorder is not None
            or link.duplicate.value > 0
            or link.service is not None
            or link.queue.draws
            or link.corrupt is not None
            or (link.drop is not None and link.drop.rate is not None)
            for link in links
        )
        or any({"loss", "jitter", "reorder", "duplicate"} & {*link.named} or link.ranges for link in changed_links)
        or path.draws
    )
