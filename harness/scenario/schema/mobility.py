"""How a client's address changes under a transfer."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from harness.errors import UnfitError
from harness.scenario.schema.base import PATH_NAME, Part
from harness.units import Duration

ClientMove = Literal["migrate", "interface"]
"""What a client does itself, when its image is told to."""
Rebinding = Literal["nat-port", "nat-address"]
"""What a client does not know of: the network rewrites where its datagrams come from."""
MoveKind = Literal[ClientMove, Rebinding]


class Move(Part):
    """One change of a client's address, on the clock of a path's changes: zero is the first datagram of the run."""

    at: Duration
    """When it happens."""
    how: MoveKind
    """migrate: the client probes the other path, validates it and switches (RFC 9000 §9); the old one stays.
    interface: the old path is gone, and the client rebinds its socket to its other address, without probing.
    nat-port, nat-address: the path rewrites the client's port or address from then on and forgets what it wrote before;
    the client is not told."""
    to: Annotated[str, Field(pattern=PATH_NAME)] | None = None
    """The path it moves to, of migrate and interface."""
    gap: Duration | None = None
    """Of interface: from the loss of the old path to the client's socket on the new one; none by default."""
    overlap: Duration | None = None
    """Of migrate: the old path is gone so long after the move; by default it stays."""
    every: Duration | None = None
    """Of nat-port and nat-address: once more every so often, until the flow's next move or its end."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.at.value:
            raise UnfitError("a move at 0 comes before the connection: nothing has moved", "write at: 200 ms, say")
        needs = self.how in ("migrate", "interface")
        if needs and self.to is None:
            raise UnfitError(f"{self.how} needs a path to go to: 'to' is missing", "write to: NAME, a path of paths")
        if not needs and self.to is not None:
            raise UnfitError(f"{self.how} stays on its path: it goes to none", "leave out to, or write how: migrate")
        for name, value, owners in (
            ("gap", self.gap, ("interface",)),
            ("overlap", self.overlap, ("migrate",)),
            ("every", self.every, ("nat-port", "nat-address")),
        ):
            if value is not None and self.how not in owners:
                raise UnfitError(f"{self.how} has no {name}: that is for {' and '.join(owners)}", f"leave out {name}")
        if self.every is not None and not self.every.value:
            raise UnfitError("to move again after no time is no time to send in", "write every: 5 s, say")
        return self

    @property
    def path_to(self) -> str:
        """The path it goes to, of a move that has one."""
        assert self.to is not None
        return self.to

    @property
    def acts(self) -> Duration:
        """When the client itself does something, of a move it is told of."""
        return self.at + (self.gap or Duration(0))

    @property
    def loses(self) -> Duration | None:
        """When the path it leaves is gone; None where it stays."""
        if self.how == "interface":
            return self.at
        return None if self.overlap is None else self.at + self.overlap
