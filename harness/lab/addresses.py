"""The addresses of a lab: the interop runner's networks, shifted by slot where several labs are up at once."""

from __future__ import annotations

from typing import Literal

Side = Literal["left", "right"]
"""left: clients, right: servers."""

#: Host part of the simulator's addresses, and of those of the first flow's endpoints: further flows count up.
SIMULATOR, FIRST = 2, 100


def network(side: Side, slot: int) -> tuple[str, str]:
    """A side's network, IPv4 and IPv6."""
    return f"193.167.{_third(side, slot)}.0/24", f"fd00:cafe:cafe:{_third(side, slot)}::/64"


def address(side: Side, slot: int, host: int) -> tuple[str, str]:
    """A host's addresses on a side, IPv4 and IPv6."""
    return f"193.167.{_third(side, slot)}.{host}", f"fd00:cafe:cafe:{_third(side, slot)}::{host}"


def _third(side: Side, slot: int) -> int:
    return slot if side == "left" else 100 + slot
