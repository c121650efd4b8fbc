"""The point of the matrix that was run: what, by whom, with which bits."""

from __future__ import annotations

from typing import Literal

from harness.outcome.base import Fact, Key
from harness.scenario.parameters import ParameterValue, Role
from harness.scenario.schema import Implementation, Scenario

EngineName = Literal["compose", "virtual"]
Cpu = Literal["lab", "host"]
SimKernel = Literal["auto", "host", "lab"]


class Image(Fact):
    """Where an endpoint's bits come from."""

    reference: str
    """Tag or published name the container is started from."""
    identity: str
    """Digest of what it was made from: of the build context, or of the published image."""
    id: str = ""
    """Image ID on the machine that ran it."""


class Contestant(Fact):
    """An implementation that a flow names for itself."""

    implementation: Implementation
    image: Image


class Cell(Fact):
    """One point of the matrix. Two cells with the same key are the same experiment."""

    key: Key
    """BLAKE2b of what its runs depend on, 16 hexadecimal digits (`harness.store.identity.cell_key`)."""
    scenario: Scenario
    client: Implementation
    server: Implementation
    client_image: Image
    server_image: Image
    sim_image: Image
    engine: EngineName
    sim_kernel: SimKernel
    parameters: dict[str, ParameterValue]
    """Parameters asked for, as role.NAME; they are demands, not wishes."""
    seed: int
    compiled: str = ""
    """Digest of the lab that the cell amounts to (`harness.store.identity.compiled`)."""
    engine_code: str = ""
    """Digest of the engine's code (`harness.engine.code_digest`)."""
    host_cpu: bool = False
    """In virtual time: endpoints are to see the host's processor, also where the lab's own could be had."""
    others: dict[str, Contestant] = {}
    """Who else plays in it, by name: the implementations that flows name for themselves."""

    def implementation(self, role: Role, flow: int | None = None) -> Implementation:
        """Who plays a role: in a flow, or, where none is given, wherever a flow names nobody."""
        return self._contestant(role, flow)[0]

    def image(self, role: Role, flow: int | None = None) -> Image:
        """The image of who plays a role."""
        return self._contestant(role, flow)[1]

    def _contestant(self, role: Role, flow: int | None) -> tuple[Implementation, Image]:
        name = None if flow is None else self.scenario.flows[flow].implementation(role)
        if name is not None and name in self.others:
            return self.others[name].implementation, self.others[name].image
        return (self.client, self.client_image) if role == "client" else (self.server, self.server_image)
