"""Building many images at once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from harness.engine.build_queue import LANES
from harness.engine.docker_cli import inspect_image
from harness.engine.images.build import Announce, Build, Images
from harness.engine.images.result import MadeImage
from harness.errors import EngineError


def make_side_by_side(
    images: Images, simulator: Build | None, implementations: Mapping[str, Build], announce: Announce
) -> dict[str, MadeImage]:
    """Build all of these and what they are built on. Name → what came of it: what is below first, then by name.

    `simulator`: the one that is built beside them; None for none.
    """
    # What implementations are built on first and alone; then the longest first, so that no core ends up idle.
    shared = {below.reference: below for build in implementations.values() for below in build.on.values()}
    made = {build.name: _make(images, build, announce) for build in shared.values()}
    wanted = {**({} if simulator is None else {"sim": simulator}), **implementations}
    order = sorted(wanted, key=lambda name: -sum(build.seconds for build in _with_below(wanted[name])))
    with ThreadPoolExecutor(LANES, thread_name_prefix="build") as pool:
        try:
            done = dict(zip(order, pool.map(lambda name: _make(images, wanted[name], announce), order), strict=True))
        except BaseException:
            images.cancel()
            raise
    return made | dict(sorted(done.items()))


def _make(images: Images, build: Build, announce: Announce) -> MadeImage:
    began, was_there = time.monotonic(), inspect_image(build.reference) is not None
    try:
        images.make(build, announce)
    except EngineError as error:
        return MadeImage(build.reference, 0, time.monotonic() - began, was_there, error)
    size = (inspect_image(build.reference) or {}).get("Size", 0)
    return MadeImage(build.reference, size, time.monotonic() - began, was_there)


def _with_below(build: Build) -> list[Build]:
    return [build, *(below for item in build.on.values() for below in _with_below(item))]
