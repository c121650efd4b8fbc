"""What all records have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Fact(BaseModel):
    """A frozen record; unknown keys of a later minor version are ignored on reading."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        # A transfer that never ended counts as infinitely long, and JSON has no number for that.
        ser_json_inf_nan="strings",
    )
