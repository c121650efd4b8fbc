"""The endpoints' parameters as a run shows them: the evidence behind every default and every demand.

One file per family of one source. A parameter that a run does not show is absent: nothing is taken from a manifest, and
nothing is guessed. Unless stated otherwise, everything is of the first connection of the first flow over QUIC or TCP
between the matrix's own pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ParamSpec

from harness.analysis.connection import TransferConnection
from harness.analysis.metrics.observed.declared import recovery_settings, transport_parameters
from harness.analysis.metrics.observed.kernel import algorithm, gso, windows_and_buffers
from harness.analysis.metrics.observed.quic import (
    ack_ratio,
    bdp_frames,
    bdp_seed,
    careful_resume,
    congestion_reaction,
    ecn,
    first_flight,
    first_probe_timeout,
    initial_window,
    largest_payload,
    migration_cwnd,
    most_in_flight,
    pacing,
    path_mtu_discovery,
    zero_rtt,
)
from harness.analysis.run_view import RunView
from harness.outcome import Observation
from harness.outcome.deviations import is_pair_flow

P = ParamSpec("P")
_FAMILIES: tuple[Callable[[TransferConnection], Iterator[Observation]], ...] = (
    transport_parameters,
    recovery_settings,
    first_probe_timeout,
    initial_window,
    pacing,
    congestion_reaction,
    ack_ratio,
    largest_payload,
    path_mtu_discovery,
    zero_rtt,
    bdp_seed,
    bdp_frames,
    careful_resume,
    ecn,
    gso,
    migration_cwnd,
)


def observe(view: RunView) -> tuple[Observation, ...]:
    """All endpoint parameters that a run shows. Never raises; failures are among the view's problems."""
    of_pair = (window for window in view.windows if is_pair_flow(view.run.cell, window.transfer.flow))
    window = next(of_pair, None)
    if window is None:
        return ()
    if window.flow.kind == "tcp":
        return tuple(
            observation
            for family in (algorithm, windows_and_buffers)
            for observation in _observe_family(view, family, view, window)
        )
    if window.over_tcp:
        return tuple(
            observation
            for family in (first_flight, most_in_flight)
            for observation in _observe_family(view, family, view, window)
        )
    connection = TransferConnection(view, window)
    return tuple(observation for family in _FAMILIES for observation in _observe_family(view, family, connection))


def _observe_family(
    view: RunView, family: Callable[P, Iterator[Observation]], *args: P.args, **kwargs: P.kwargs
) -> list[Observation]:
    """The observations of a family. If it fails, none, and a problem: one damaged artefact costs no other evidence."""
    try:
        return list(family(*args, **kwargs))
    except Exception as error:
        view.problems.append(f"observed {family.__name__} failed: {type(error).__name__}: {error}")
        return []
