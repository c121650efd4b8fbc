"""Creates the engine of a campaign, reads Docker's versions and removes leftovers of earlier runs."""

from __future__ import annotations

import os
import platform
from contextlib import suppress

from harness.engine import Engine
from harness.engine.docker.daemon import describe_daemon
from harness.engine.docker.engine import ComposeEngine
from harness.engine.docker_cli import daemon_versions
from harness.engine.images.build import LAB_KERNEL_ARCHITECTURES
from harness.engine.images.cache import Cache
from harness.engine.virtual.engine import VirtualEngine
from harness.errors import EngineError
from harness.execution.options import Options
from harness.outcome import ENGINES, EngineName


def create_engine(name: EngineName, cache: Cache, options: Options) -> Engine:
    """An engine for as many parallel runs as the options say. EngineError where this machine cannot have it."""
    if not ENGINES[name].virtual_time:
        return ComposeEngine(cache, options.log_limit, options.memory)
    if platform.machine() not in LAB_KERNEL_ARCHITECTURES:
        raise EngineError(
            f"virtual time needs a processor of the kind x86-64, and this one is {platform.machine()}",
            "use --engine compose, which runs in real time",
        )
    cores = sorted(os.sched_getaffinity(0))
    # More runs than cores share them in turn.
    cores = [cores[index % len(cores)] for index in range(options.jobs)]
    return VirtualEngine(cache, cores, options.log_limit, options.stall, kernel=options.kernel)


def docker_versions(*, required: bool) -> dict[str, str]:
    """Versions of Docker and Compose; empty if the daemon does not answer and is not `required`.

    EngineError where it is required and does not answer, or labs cannot run on it.
    """
    try:
        if required:
            describe_daemon().require_supported()
        return daemon_versions()
    except EngineError:
        if required:
            raise
        return {}


def remove_orphans(cache: Cache, *, required: bool) -> list[str]:
    """Remove leftovers of harness processes that have ended; EngineError of Docker only if `required`."""
    removed = VirtualEngine(cache, []).remove_orphans()
    with suppress(*(() if required else (EngineError,))):
        removed = [*removed, *ComposeEngine(cache).remove_orphans()]
    return removed
