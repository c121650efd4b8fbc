"""What a check finds: one line per question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.scenario.parameters import Role

Answer = Literal["holds", "does not hold", "not offered", "not tried"]


@dataclass(frozen=True)
class Finding:
    """One question about one role of an implementation, and its answer."""

    implementation: str
    role: Role
    question: str
    """What was asked: a part of the contract, or a parameter."""
    answer: Answer
    seen: str
    """What was seen, with figures and where."""
    against: str = ""
    """The implementation at the other end."""

    @property
    def failed(self) -> bool:
        """Whether it speaks against the implementation."""
        return self.answer == "does not hold"
