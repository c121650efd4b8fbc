"""What a check of a test case found."""

from __future__ import annotations

from typing import Literal

from harness.outcome.base import Fact, Finite
from harness.scenario.parameters import Role


class Checked(Fact):
    """One check of one run, against what its scenario demands."""

    check: str
    asked: bool | int | str
    status: Literal["passed", "failed", "unknown"]
    """unknown: what was captured, or what endpoints wrote down, does not show it."""
    sentence: str
    """What was seen, with figures; of an unknown one why."""
    sender: Role | None = None
    """Who sent the first packet that is wrong: its number is of the capture at the sender's side. None where it is no
    packet that is wrong."""
    packet: int | None = None
    """Number of that packet's frame in the capture, from 1."""
    t: Finite | None = None
    """When it was sent, s after the client's first datagram."""
