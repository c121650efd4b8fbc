"""What all parts of the model have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict

#: Of implementations, wherever they are named.
NAME = r"^[a-z0-9][a-z0-9._-]*$"


class Part(BaseModel):
    """A frozen part of the model; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, arbitrary_types_allowed=True)


def short_or(form: str) -> Callable[[dict[str, Any]], None]:
    """For a JSON Schema: what has parts may also be written as a text."""

    def extend(schema: dict[str, Any]) -> None:
        # A discriminator (OpenAPI) means nothing to JSON Schema, and has no place for a text.
        del schema["discriminator"]
        schema["oneOf"] = [{"type": "string", "description": form}, *schema["oneOf"]]

    return extend
