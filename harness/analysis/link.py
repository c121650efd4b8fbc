"""A run's packets on their way through the emulated link."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from harness.analysis.direction import SIDES, Direction, Side, direction_of
from harness.capture import capture, matching
from harness.capture.artefacts import Artefacts


@dataclass(frozen=True)
class LinkView(Artefacts):
    """A run with what each direction of its link did."""

    @cached_property
    def to_client(self) -> matching.Passage | None:
        """Packets from the right to the left interface, of segments in a row from the last one's to the first one's."""
        return self._passage(self.right, self.left, True)

    @cached_property
    def to_server(self) -> matching.Passage | None:
        """Packets from the left to the right interface."""
        return self._passage(self.left, self.right, False)

    def _passage(
        self, ingress: capture.Capture | None, egress: capture.Capture | None, to_client: bool
    ) -> matching.Passage | None:
        if ingress is None or egress is None or self.lab is None:
            return None
        alone = self.is_one_path or self.in_sequence
        links = [self.lab.links] if alone else [path.links for path in self.lab.paths]
        asked = [each.to_client if to_client else each.to_server for each in links]
        return matching.match(ingress, egress, to_client, min(one.delay_ns - one.jitter_ns for one in asked))

    @cached_property
    def directions(self) -> dict[Side, Direction]:
        """What each direction of the link did; empty without lab.json or a capture, and for several links together."""
        if not self.is_one_path:
            return {}
        passages = {"to_client": self.to_client, "to_server": self.to_server}
        made = {side: direction_of(self, side, passages[side]) for side in SIDES}
        return {side: direction for side, direction in made.items() if direction is not None}
