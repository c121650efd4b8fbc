"""Measurements by the names that people write, for tests."""

from __future__ import annotations

from harness import former
from harness.absences import sentences
from harness.outcome import MeasuredRun, Measurement


def measurement(text: str, value: float, unit: str = "", **more: object) -> Measurement:
    """A measurement by its name as schema 1 had it: flow1_repeat_completion; the only flow is not named."""
    one = {"name": text, "value": value, "unit": unit, **more}
    return MeasuredRun.model_validate(former.measured({"version": 1, "measurements": [one]})).measurements[0]


def by_name(measured: MeasuredRun, flows: int = 1) -> dict[str, float]:
    """What was measured of a run of so many flows, by what people call it."""
    found = {one.named.text(flows): one.value for one in measured.measurements}
    assert len(found) == len(measured.measurements), "two figures of one name"
    return found


def said(measured: MeasuredRun, flows: int = 1) -> list[str]:
    """Its warnings, and why metrics are absent."""
    return [*measured.warnings, *sentences(measured.absent, flows)]
