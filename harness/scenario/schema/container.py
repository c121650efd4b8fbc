"""What an image asks of the container that it runs in."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from harness.errors import UnfitError
from harness.scenario.schema.base import FOLDER, Part

#: What an image may ask for, by the names of capabilities(7). Each is one of those that Docker gives a container unless
#: told, and reaches no further than what is in it.
Capability = Literal[
    "CHOWN", "FOWNER", "FSETID", "KILL", "NET_RAW", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
]  # fmt: skip
#: What every container has its own of, or the harness gives it.
_TAKEN: Final = frozenset({"certs", "dev", "downloads", "held", "logs", "proc", "run", "session", "sys", "tmp", "www"})


class Container(Part):
    """What an image's containers may do beside what all endpoints may, and what they can do without."""

    capabilities: tuple[Capability, ...] = ()
    """Capabilities that its programs cannot do without, beside those of all endpoints."""
    read_only: bool = False
    """Whether its root may be read-only: beside /logs and /downloads it writes to /tmp, /run and `writes` alone."""
    writes: tuple[Annotated[str, Field(pattern=FOLDER)], ...] = ()
    """Folders that it writes to where its root is read-only: empty in the beginning, and in memory."""

    @field_validator("writes")
    @classmethod
    def _own_folders(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for folder in value:
            if folder.split("/")[1] in _TAKEN:
                raise UnfitError(f"'{folder}' is not the image's own", "leave it out: what the contract has is there")
        return value

    @model_validator(mode="after")
    def _read_only_else(self) -> Self:
        if self.writes and not self.read_only:
            raise UnfitError("writes names folders, but the whole root can be written to", "say read_only: true")
        return self
