"""What the engines, the simulator and the images of a checkout are made from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from harness.engine.code_digest import engine_code
from harness.errors import HarnessError
from harness.execution import App
from harness.outcome import EngineName
from harness.store.identity import Component


def component_digests(app: App, names: Iterable[str] | None = None) -> dict[Component, str]:
    """Component → the digest of what it is made from in a checkout.

    `names`: implementations; those that are not here are left out, and so are published images that are not on this
    machine. All without.
    """
    digests: dict[Component, str] = {("engine", name): engine_code(name) for name in get_args(EngineName)}
    digests["simulator", "sim"] = app.images.sim("lab").identity
    known = app.catalogue.implementations()
    for name in known if names is None else names:
        if name in known:
            try:
                image = app.images.image_of(*known[name])
            except HarnessError:
                continue
            if image is not None:
                digests["image", name] = image.identity
    return digests
