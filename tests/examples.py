"""Small model objects that many tests start from."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType

from harness.analysis.objectives import mistakes
from harness.catalogue import Catalogue
from harness.execution.matrix import Request, build_matrix
from harness.outcome import Cell, Image
from harness.planning.endpoint_config import UnsupportedError
from harness.scenario.schema import Flow, Implementation, Link, Objective, Scenario
from harness.scenario.schema import Path as EmulatedPath
from harness.store.identity import with_key
from harness.topology import Lab, build_lab
from harness.units import Duration, Rate, Size

ROOT = Path(__file__).resolve().parent.parent


def image_module(file: str) -> ModuleType:
    """A module of an image, which no package of ours contains. `file`: below images/."""
    spec = importlib.util.spec_from_file_location(file.removesuffix(".py").replace("/", "_"), ROOT / "images" / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Where dataclasses look for the module of their annotations.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def link(rate: str = "50 Mbit/s", delay: str = "325 ms", **overrides: object) -> Link:
    return Link.model_validate({"rate": rate, "delay": delay, **overrides})


def path(**overrides: object) -> EmulatedPath:
    return EmulatedPath.model_validate({"forward": link(), "return": link("10 Mbit/s"), **overrides})


def scenario(**overrides: object) -> Scenario:
    return _scenario(**overrides) if overrides else _plain_scenario()


def _scenario(**overrides: object) -> Scenario:
    content: dict[str, object] = {
        "name": "test/case",
        "title": "a case",
        "path": path(),
        "flows": [Flow(download=Size.parse("10 MB"))],
        "objectives": [Objective(metric="milestone_2MB", at_most=Duration.parse("3 s"))],
        **overrides,
    }
    return Scenario.model_validate(content)


#: What nothing is changed of is made once: nobody can change it later.
_plain_scenario = cache(_scenario)


def implementation(name: str = "alpha", **overrides: object) -> Implementation:
    return _implementation(name, **overrides) if overrides else _plain_implementation(name)


def _implementation(name: str, **overrides: object) -> Implementation:
    content: dict[str, object] = {
        "name": name,
        "image": f"example/{name}:1",
        "parameters": {
            "congestion_control": {"server": {"values": ["reno", "cubic"], "flag": "--cc={value}", "default": "cubic"}},
            "connection_window": {"client": {"flag": "--window={bytes}"}},
            "initial_rtt": {"client": {"flag": "--rtt={ms}ms"}, "server": {"flag": "--rtt={s}", "minimum": "1 ms"}},
            "ack_ratio": {"client": {"default": 2}},
        },
        **overrides,
    }
    return Implementation.model_validate(content)


_plain_implementation = cache(_implementation)


def images(*names: str) -> dict[str, Image]:
    return {name: Image(reference=f"example/{name}:1", identity=f"digest-of-{name}") for name in names}


SIM = Image(reference="example/sim:1", identity="digest-of-sim")


def cell(
    definition: Scenario | None = None,
    client: Implementation | None = None,
    server: Implementation | None = None,
    **overrides: object,
) -> Cell:
    if definition is None and client is None and server is None and not overrides:
        return _plain_cell()
    return _cell(
        definition or scenario(), client or implementation("alpha"), server or implementation("beta"), **overrides
    )


def _cell(definition: Scenario, client: Implementation, server: Implementation, **more: object) -> Cell:
    request = Request([definition], [client], [server], **more)  # type: ignore[arg-type]
    # The implementations of examples are published images, which would take the lab kernel.
    planned_cell = build_matrix(request, images(client.name, server.name), SIM)[0]
    return with_key(planned_cell.model_copy(update={"sim_kernel": request.sim_kernel}))


@cache
def _plain_cell() -> Cell:
    return _cell(scenario(), implementation("alpha"), implementation("beta"))


def labs(definition: Scenario) -> Iterator[Lab]:
    """The lab of each cell of a scenario, of picoquic with itself, as far as it can take part."""
    contestants = {name: item for name, (item, _) in catalogue().implementations().items()}
    player = contestants["picoquic"]
    request = Request([definition], [player], [player])
    for planned_cell in build_matrix(request, images(*contestants), SIM, contestants):
        with suppress(UnsupportedError):
            yield build_lab(planned_cell, 0)


@cache
def catalogue() -> Catalogue:
    """This repository's, read once."""
    return Catalogue(ROOT, mistakes=mistakes)


__all__ = [
    "ROOT",
    "SIM",
    "Duration",
    "Rate",
    "catalogue",
    "cell",
    "images",
    "implementation",
    "labs",
    "link",
    "path",
    "scenario",
]
