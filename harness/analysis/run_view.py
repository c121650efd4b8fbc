"""One run with all that its metrics share, made when first asked for; and why a figure may be missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeVar, cast

from harness.analysis.direction import LinkView
from harness.analysis.timeseries import RunSeries, series_of
from harness.capture import connections, key_log
from harness.capture.artefacts import TransferWindow

T = TypeVar("T")


@dataclass(frozen=True)
class RunView(LinkView):
    """What metrics are measured of."""

    @property
    def shared(self) -> bool:
        """Whether there is more to it than one file downloaded to its end."""
        return self.run.cell.scenario.has_series

    @cached_property
    def series(self) -> RunSeries | None:
        """The run over time (see `analysis.timeseries`); None where the captures do not show it."""
        try:
            return series_of(self)
        except Exception as error:  # what needs no series is to be had all the same
            self.problems.append(f"the series cannot be made: {type(error).__name__}: {error}")
            return None

    def opened(self, window: TransferWindow, sender: key_log.Sender) -> tuple[connections.SentPackets, ...]:
        """The 1-RTT packets of a transfer's connections in one direction, decrypted from the left capture.

        Of connections that no secret opens there is nothing; and of none without the capture.
        """
        key = (window.transfer.flow, window.transfer.index, sender)
        if key not in self._opened and self.left is not None:
            inside = (self.left.t_ns >= window.start_ns) & (self.left.t_ns < window.end_ns)
            packets = self.left.where(inside & (self.left.flow == window.transfer.flow))
            secrets = self.secrets(window.transfer.flow)
            flow_connections = connections.connections(packets)
            alone = len(flow_connections) == 1
            candidates = (
                connections.open_packets(packets, connection, sender, secrets, alone=alone)
                for connection in flow_connections
            )
            self._opened[key] = tuple(opened for opened in candidates if opened is not None)
        return self._opened.get(key, ())

    def once(self, make: Callable[[Self], T]) -> T:
        """What a function makes of this run, made once."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast(T, self._made[make])

    @cached_property
    def _made(self) -> dict[Callable[..., object], object]:
        return {}

    @cached_property
    def _opened(self) -> dict[tuple[int, int, str], tuple[connections.SentPackets, ...]]:
        return {}


# --- Why something is not known.


@dataclass(frozen=True)
class Unavailable:
    """That a figure cannot be had, and why: half a sentence for people."""

    text: str
