"""Digests of the sources of a checkout's engines, simulator and images."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from harness.engine.code_digest import engine_code
from harness.errors import HarnessError
from harness.execution import App
from harness.outcome import EngineName
from harness.store.identity import Component


def component_digests(app: App, names: Iterable[str] | None = None) -> dict[Component, str]:
    """Component → digest of its sources in a checkout.

    `names`: implementations; all without. Unknown ones are left out, and so are published images that are not on this
    machine.
    """
    digests: dict[Component, str] = {("engine", name): engine_code(name) for name in get_args(EngineName)}
    digests["simulator", "sim"] = app.images.sim("lab").identity
    implementations = app.catalogue.implementations()
    for name in implementations if names is None else names:
        if name in implementations:
            try:
                image = app.images.image_of(*implementations[name])
            except HarnessError:
                continue
            if image is not None:
                digests["image", name] = image.identity
    return digests
