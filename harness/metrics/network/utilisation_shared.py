"""How much of the bottleneck's rate is used while flows with congestion control are active."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.metrics.network.sharing import higher, phases
from harness.metrics.registry import Finding, metric
from harness.metrics.series import BOTTLENECK
from harness.metrics.series.grid import BIN
from harness.metrics.shared_flow import flows_of
from harness.metrics.view import RunView


@metric
def utilisation_shared(view: RunView) -> Iterator[Finding]:
    """utilisation_shared (1): frames that left the bottleneck towards the clients, as a share of what its rate allows.

    Σ sent / Σ allowed over the whole bins in which at least one flow with congestion control that sends this way is
    active; RFC 9743 §5.1 asks for it beside fairness, which an idle link has too. A service process is counted by its
    mean rate. Source: both captures (`series.bottleneck`); lab.json.
    """
    flows = [flow for flow in flows_of(view) if flow.responsive and flow.facts.sender == "server"]
    if not flows:
        return
    rate = flows[0].series.points(BOTTLENECK, "sending_rate")
    active = np.zeros(len(rate.t), np.bool_)
    for phase in phases(flows):
        active |= (rate.t >= phase.start - 1e-9) & (rate.t + BIN <= phase.end + 1e-9)
    if active.any():
        allowed = flows[0].capacity(rate.t[active])
        yield higher("utilisation_shared", float(rate.value[active].sum() / allowed.sum()), "1")
