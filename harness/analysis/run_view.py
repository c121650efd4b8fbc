"""One run with the material that its metrics share, computed on first use; and why a figure may be missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeVar, cast

from harness.analysis.direction import LinkView, Side, data_side
from harness.analysis.timeseries import RunSeries, series_of
from harness.capture import connections, key_log
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import Capture

T = TypeVar("T")


@dataclass(frozen=True)
class RunView(LinkView):
    """The view of a run from which metrics are measured."""

    @property
    def is_shared(self) -> bool:
        """Whether the run is more than one file downloaded to its end."""
        return self.run.cell.scenario.has_series

    def host_share(self, name: str) -> float | None:
        """A share of the machine's time in the run's record, `idle` or `steal`, from 0 to 1. None where it has none."""
        value = self.run.host.get(name)
        return float(value) if isinstance(value, int | float) else None

    @property
    def data_side(self) -> Side:
        """The direction of its data (see `analysis.direction.data_side`); towards the clients where it is not known."""
        return "to_client" if self.lab is None else data_side(flow.sender for flow in self.lab.flows)

    @cached_property
    def series(self) -> RunSeries | None:
        """The run over time (see `analysis.timeseries`); None if the captures do not show it."""
        try:
            return series_of(self)
        except Exception as error:  # figures that need no series are still available
            self.problems.append(f"the series cannot be made: {type(error).__name__}: {error}")
            return None

    def decrypted_packets(self, window: TransferWindow, sender: key_log.Sender) -> tuple[connections.SentPackets, ...]:
        """The 1-RTT packets of a transfer's connections in one direction, decrypted from the capture at the side of
        who receives the data.

        Connections without matching secrets are left out; empty without the capture.
        """
        key = (window.transfer.flow, window.transfer.index, sender)
        capture = self.at_receiver(window)
        if key not in self._decrypted and capture is not None:
            inside = (capture.t_ns >= window.start_ns) & (capture.t_ns < window.end_ns)
            packets = capture.select(inside & (capture.flow == window.transfer.flow))
            flow_connections = connections.find_connections(packets)
            self._decrypted[key] = connections.open_connections(
                packets, flow_connections, sender, self.secrets(window.transfer.flow)
            )
        return self._decrypted.get(key, ())

    def at_receiver(self, window: TransferWindow) -> Capture | None:
        """The capture at the side of who receives a transfer's data."""
        return self.left if window.receiver == "client" else self.right

    def cached(self, make: Callable[[Self], T]) -> T:
        """The result of a function of this run, computed once."""
        if make not in self._cache:
            self._cache[make] = make(self)
        return cast(T, self._cache[make])

    @cached_property
    def _cache(self) -> dict[Callable[..., object], object]:
        return {}

    @cached_property
    def _decrypted(self) -> dict[tuple[int, int, str], tuple[connections.SentPackets, ...]]:
        return {}


# --- Why a figure is not known.


@dataclass(frozen=True)
class Unavailable:
    """That a figure is unavailable, and why: half a sentence for people."""

    text: str
