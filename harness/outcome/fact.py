"""What all records have in common."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

#: A number that may be infinite, and is one: a record says nothing by NaN.
Number = Annotated[float, Field(ge=-math.inf)]
#: A number that is not infinite either.
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Fact(BaseModel):
    """A frozen record; unknown keys of a later minor version are ignored on reading."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        # A transfer that never ended counts as infinitely long, and JSON has no number for that.
        ser_json_inf_nan="strings",
    )
