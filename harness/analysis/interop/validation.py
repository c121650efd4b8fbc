"""Whether a scenario's checks can be made."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.interop.registry import Check, declared
from harness.errors import did_you_mean
from harness.formatting import shown
from harness.scenario.schema import Scenario
from harness.scenario.validation_errors import Mistake


def mistakes(scenario: Scenario) -> Iterator[Mistake]:
    """Checks that nobody knows, and values that they do not take."""
    known = declared()
    for name, value in scenario.checks.items():
        one = known.get(name)
        if one is None:
            yield Mistake(("checks", name), f"there is no check '{name}'", did_you_mean(name, known), of_key=True)
        elif not _fits(one, value):
            expected = one.takes if not one.words else " or ".join(f"'{word}'" for word in one.words)
            yield Mistake(("checks", name), f"{name} takes {expected}, not {shown(value)}", f"write {one.written}")


def _fits(one: Check, value: bool | int | str) -> bool:
    if one.takes == "true":
        return value is True
    if one.takes == "a count":
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return not isinstance(value, bool) and str(value) in one.words
