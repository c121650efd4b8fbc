"""What came of building an image: the engines make it, reports show it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import HarnessError


@dataclass(frozen=True)
class MadeImage:
    """One image after a build."""

    reference: str
    size: int
    """Bytes, all layers together."""
    seconds: float
    was_there: bool
    """Nothing had to be built."""
    error: HarnessError | None = None
    """Why there is none."""
