"""Contents of images compared with their records: lines for people, and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console


@dataclass(frozen=True)
class ImageCheck:
    """Result of inspecting one image."""

    reference: str
    recorded: bool
    """There is a record."""
    differences: Sequence[str]
    """What differs from the record, each a sentence."""

    @property
    def as_recorded(self) -> bool:
        """Whether there is a record, and nothing differs from it."""
        return self.recorded and not self.differences


def images_json(checks: Mapping[str, ImageCheck]) -> dict[str, Any]:
    """What `images --check --json` prints."""
    return {
        "schema": 1,
        "images": [
            {
                "name": name,
                "reference": check.reference,
                "recorded": check.recorded,
                "as_recorded": check.as_recorded,
                "differences": list(check.differences),
            }
            for name, check in checks.items()
        ],
    }


def show(checks: Mapping[str, ImageCheck], console: Console) -> None:
    """Print a line per image that matches its record, and a line per difference of the others."""
    for name, check in checks.items():
        for line in _lines(name, check):
            console.print(f"{name}: {line}", markup=False, soft_wrap=True)


def _lines(name: str, check: ImageCheck) -> Sequence[str]:
    if not check.recorded:
        return [f"no record yet: 'harness images {name} --record' writes it"]
    return check.differences or ["as recorded"]
