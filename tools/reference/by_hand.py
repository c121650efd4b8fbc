"""The lab of compose/: one pair whose images are variables."""

from __future__ import annotations

from harness.execution.matrix import Request, build_matrix
from harness.outcome import Cell, Image
from harness.scenario.schema import Implementation, Scenario


def open_cell(scenario: Scenario) -> Cell:
    """A cell of a scenario between a client and a server that are named when it is brought up."""
    # Whoever names the images also names the simulator's, which may have no lab kernel. So the kernel stays `auto`.
    client, server = Implementation(name="client", build="."), Implementation(name="server", build=".")
    images = {name: _variable(name.upper()) for name in ("client", "server")}
    return build_matrix(Request([scenario], [client], [server]), images, _variable("SIM"))[0]


def _variable(name: str) -> Image:
    return Image(reference="${" + name + "_IMAGE:?an image}", identity=name)
