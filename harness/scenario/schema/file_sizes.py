"""Several files of one transfer."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from harness.errors import UnfitError
from harness.scenario.schema.base import Part
from harness.units import Size

#: Files of one transfer: their names are words of one command line.
MAXIMUM_FILES = 5000
#: The longest name of a file (POSIX's NAME_MAX).
_LONGEST_NAME = 255
#: Of a file's name without any filling: its number among a transfer's, and what it is.
_OWN = len("0000-1023MB.bin")


class Files(Part):
    """So many files of one size."""

    count: Annotated[int, Field(strict=True, ge=1, le=MAXIMUM_FILES)]
    """How many."""
    size: Size
    """Of each."""
    name_length: Annotated[int, Field(strict=True, ge=_OWN, le=_LONGEST_NAME)] | None = None
    """Characters of each name, which is filled up; by default as many as it needs."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.size.bytes:
            raise UnfitError("a file has at least one byte", "write size: 1 KiB, say")
        return self
