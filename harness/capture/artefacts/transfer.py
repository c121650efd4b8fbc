"""One transfer's part of a run."""

from __future__ import annotations

from dataclasses import dataclass

from harness.outcome import Transfer
from harness.scenario.metric_names import MetricName, TransferName
from harness.scenario.schema import Flow


@dataclass(frozen=True)
class Window:
    """One transfer's part of the run."""

    transfer: Transfer
    start_ns: int
    """The client container started."""
    end_ns: int
    """Its last packets are through, or the flow's next transfer started."""
    zero_ns: int | None
    """The client's first packet in the left capture: time zero of protocol times; None if it sent none."""
    flow: Flow
    """What its flow was asked to do."""
    over_tcp: bool = False
    """Whether its packets are segments of TCP, not datagrams."""
    alone: bool = True
    """Whether the lab has no other flow."""

    @property
    def name(self) -> TransferName:
        """Which of its flow's transfers it is."""
        return "repeat" if self.transfer.index else "first"

    def called(self, metric: str) -> str:
        """A metric of this transfer in a sentence."""
        return MetricName(metric, self.transfer.flow, self.name).text(1 if self.alone else 2)

    @property
    def has_file(self) -> bool:
        """Whether it downloads a file to its end; what is cut off at a time, or generated, has no end to reach."""
        return self.flow.file is not None
