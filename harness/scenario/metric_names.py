"""What a figure of a run is called where people read or write it: repeat_completion, phase2_flow0_throughput.

Inside the harness flow, transfer, phase and move are fields. They become part of a name here and nowhere else, and are
taken from a name only where a person wrote it: an objective, a metric to compare.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

TransferName = Literal["first", "repeat"]
"""Which of a flow's transfers: the first connection, or the one when the client comes back."""

_TEXT = re.compile(
    r"(?:phase(?P<phase>\d+)_)?(?:flow(?P<flow>\d+)_)?(?P<repeat>repeat_)?(?:move(?P<move>\d+)_)?(?P<metric>.*)",
    re.DOTALL,
)


class MetricName(NamedTuple):
    """A metric, and what it is of."""

    metric: str
    flow: int | None = None
    """None: of the run or the link as a whole."""
    transfer: TransferName | None = None
    """None: of no single transfer, or of the first, which nobody names."""
    phase: int | None = None
    """From 1 (see `harness.analysis.metrics.network`); None: of no single phase."""
    move: int | None = None
    """From 1, in order of time (see `harness.analysis.metrics.handover`); None: of no move of the flow's client."""

    @property
    def key(self) -> tuple[str, int | None, bool, int | None, int | None]:
        """The same for what is the same: no metric is both of the first transfer and of none."""
        return self.metric, self.flow, self.transfer == "repeat", self.phase, self.move

    def text(self, flows: int) -> str:
        """For people, in a run of so many flows: the only flow of a run is not named, nor is a first transfer."""
        phase = "" if self.phase is None else f"phase{self.phase}_"
        flow = "" if self.flow is None or flows == 1 else f"flow{self.flow}_"
        move = "" if self.move is None else f"move{self.move}_"
        return phase + flow + ("repeat_" if self.transfer == "repeat" else "") + move + self.metric

    @classmethod
    def parse(cls, text: str) -> MetricName:
        """What a person wrote. What the text does not name is None: the run's only flow, and the first transfer."""
        match = _TEXT.fullmatch(text)
        assert match is not None, "every part may be empty"
        flow, phase, move = (None if match[part] is None else int(match[part]) for part in ("flow", "phase", "move"))
        return cls(match["metric"], flow, "repeat" if match["repeat"] else None, phase, move)
