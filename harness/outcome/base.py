"""What all records have in common."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

#: A cell's key; none where it is not made yet.
Key = Annotated[str, Field(pattern=r"^([0-9a-f]{16})?$")]
#: The digest of what is in an image, by which a file of a store is called.
CONTENTS_DIGEST = r"^[0-9a-z][0-9a-z-]{0,63}$"
ContentsDigest = Annotated[str, Field(pattern=CONTENTS_DIGEST)]
#: Which capture of a run: left, right; of further simulators 'sim-NAME left'.
CaptureName = Annotated[str, Field(pattern=r"^(sim-[a-z0-9][a-z0-9-]{0,31} )?(left|right)$")]
_PART = r"([^./\x00][^/\x00]*|\.[^./\x00][^/\x00]*|\.\.[^/\x00]+)"
#: The place of a file in a run's folder: none of its parts leads out of it.
Place = Annotated[str, Field(pattern=rf"^{_PART}(/{_PART})*$", max_length=4096)]
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
