"""Why something is not known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unknown:
    """That a figure cannot be had, and why: half a sentence for people."""

    text: str
