"""Names of metrics as people read and write them: repeat_completion, phase2_flow0_throughput.

Inside the harness, flow, transfer, phase and move are fields. Only this module turns them into a name. It parses only
names that a person wrote, such as that of an objective or of a metric to compare.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

TransferName = Literal["first", "repeat"]
"""A transfer of a flow: on the first connection, or on the one when the client returns."""

_TEXT = re.compile(
    r"(?:phase(?P<phase>\d+)_)?(?:flow(?P<flow>\d+)_)?(?P<repeat>repeat_)?(?:move(?P<move>\d+)_)?(?P<metric>.*)",
    re.DOTALL,
)


class MetricName(NamedTuple):
    """A metric, with the flow, transfer, phase and move that it belongs to."""

    metric: str
    flow: int | None = None
    """None: of the run or the link as a whole."""
    transfer: TransferName | None = None
    """None: of no single transfer, or of the first, which names leave out."""
    phase: int | None = None
    """From 1 (see `harness.analysis.metrics.network`); None: of no single phase."""
    move: int | None = None
    """From 1, in order of time (see `harness.analysis.metrics.handover`); None: of no move of the flow's client."""

    @property
    def key(self) -> tuple[str, int | None, bool, int | None, int | None]:
        """Equal for equal metrics: `transfer` None and 'first' are the same, since no metric exists for both."""
        return self.metric, self.flow, self.transfer == "repeat", self.phase, self.move

    def text(self, flows: int) -> str:
        """The name for people, in a run of `flows` flows. The only flow of a run and a first transfer are not named."""
        phase = "" if self.phase is None else f"phase{self.phase}_"
        flow = "" if self.flow is None or flows == 1 else f"flow{self.flow}_"
        move = "" if self.move is None else f"move{self.move}_"
        return phase + flow + ("repeat_" if self.transfer == "repeat" else "") + move + self.metric

    @classmethod
    def parse(cls, text: str) -> MetricName:
        """Parse a name that a person wrote. Parts that it does not name are None: the only flow, the first transfer."""
        match = _TEXT.fullmatch(text)
        assert match is not None, "every part may be empty"
        flow, phase, move = (None if match[part] is None else int(match[part]) for part in ("flow", "phase", "move"))
        return cls(match["metric"], flow, "repeat" if match["repeat"] else None, phase, move)
