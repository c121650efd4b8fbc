"""What is in images, held against their records: lines for people, and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console


@dataclass(frozen=True)
class ImageCheck:
    """One image after a look into it."""

    reference: str
    recorded: bool
    """There is a record."""
    differences: Sequence[str]
    """What differs from the record, each a sentence."""

    @property
    def as_recorded(self) -> bool:
        """Whether there is a record, and nothing differs from it."""
        return self.recorded and not self.differences


def images_json(checked: Mapping[str, ImageCheck]) -> dict[str, Any]:
    """What `images --check --json` prints."""
    return {
        "schema": 1,
        "images": [
            {
                "name": name,
                "reference": item.reference,
                "recorded": item.recorded,
                "as_recorded": item.as_recorded,
                "differences": list(item.differences),
            }
            for name, item in checked.items()
        ],
    }


def show(checked: Mapping[str, ImageCheck], console: Console) -> None:
    """Print a line for each image that is as recorded, and one for each difference of another."""
    for name, item in checked.items():
        for line in _lines(name, item):
            console.print(f"{name}: {line}", markup=False, soft_wrap=True)


def _lines(name: str, item: ImageCheck) -> Sequence[str]:
    if not item.recorded:
        return [f"no record yet: 'harness images {name} --record' writes it"]
    return item.differences or ["as recorded"]
