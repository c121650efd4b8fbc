"""The environment of the process: the repository, and the variables HARNESS_…."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness.cli.consoles import print_warning
from harness.cli.workspace import IS_INSTALLED, MARK, ROOT, find_workspace, user_folder
from harness.errors import EngineError, InputError

if TYPE_CHECKING:
    from harness.engine.kernel import LabKernel
    from harness.execution import App

Quantity = TypeVar("Quantity")

#: The runs behind the repository's own pages.
REFERENCE = ROOT / "results" / "reference"


def store_folder(*parts: str) -> Path:
    """HARNESS_STORE: the folder of the results, or a path below it; results/ of the workspace or checkout without."""
    return Path(os.environ.get("HARNESS_STORE") or home_folder() / "results").joinpath(*parts)


def home_folder() -> Path:
    """The folder of results/: the workspace, else the checkout; the working directory for an installed program."""
    return find_workspace() or (Path.cwd() if IS_INSTALLED else ROOT)


def state_folder() -> Path:
    """HARNESS_STATE: logs of builds, and what is kept from command to command; below `home_folder` without.

    An installed program outside a workspace has a folder of the user's.
    """
    if text := os.environ.get("HARNESS_STATE"):
        return Path(text)
    workspace = find_workspace()
    if workspace is not None:
        return workspace / MARK
    return user_folder("XDG_STATE_HOME", ".local/state") if IS_INSTALLED else ROOT / ".state"


def cache_folder() -> Path:
    """HARNESS_CACHE: served files and exported images; .cache of the checkout without, or a folder of the user's."""
    if text := os.environ.get("HARNESS_CACHE"):
        return Path(text)
    return user_folder("XDG_CACHE_HOME", ".cache") if IS_INSTALLED else ROOT / ".cache"


def version() -> str:
    """Version of the harness, its commit where it is a checkout, and version of Python."""
    import platform
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    from harness.store.provenance import commit_of

    try:
        number = version_of("quic-lab")
    except PackageNotFoundError:
        number = "not installed"
    commit = commit_of(ROOT)
    return f"harness {number}{f' ({commit})' if commit else ''}, Python {platform.python_version()}"


def open_app(
    store: Path | None = None,
    manifests: list[Path] | None = None,
    stand_ins: Mapping[str, str] | None = None,
    origin: str = "",
) -> App:
    """The program's files and the workspace, with a store, additional implementations, and replacements of images.

    `store`: that of HARNESS_STORE without. `origin`: a registry to pull images from; that of HARNESS_REGISTRY without.
    """
    from harness.derived import DERIVED
    from harness.execution import App, CheckoutPaths

    state, workspace = state_folder(), find_workspace()
    DERIVED.keep_in(state / "derived.json")
    if store is not None and store.exists() and not store.is_dir():
        raise InputError(f"--store {store}: not a folder", "name a folder of results, or one that is to be made")
    return App(
        CheckoutPaths(
            ROOT,
            store or store_folder(),
            state,
            cache_folder(),
            host_cpu(),
            cache_limit(),
            origin or registry(),
            workspace,
        ),
        manifests or [],
        print_warning,
        stand_ins or {},
    )


def registry(option: str = "HARNESS_REGISTRY", text: str | None = None) -> str:
    """HARNESS_REGISTRY: a registry to pull images from, where it has them; empty for none."""
    from harness.scenario.schema.base import IMAGE

    place = os.environ.get("HARNESS_REGISTRY", "") if text is None else text
    if place and not re.fullmatch(IMAGE, f"{place.rstrip('/')}/quic-lab/name:tag"):
        raise InputError(f"{option}: '{place}' is no registry", "a host, with a port or a path: localhost:5000")
    return place


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def require_linux(command: str) -> None:
    """EngineError on a machine without Linux, for a command that runs labs or looks after what they leave."""
    if not sys.platform.startswith("linux"):
        raise EngineError(
            f"'harness {command}' needs Linux, and this is {sys.platform}: here the harness works in a container",
            "docs/where-it-runs.md has the command; what only reads stored runs and scenarios works here",
        )


def host_cpu() -> bool:
    """HARNESS_CPU, lab or host: which processor endpoints see in virtual time. True for host."""
    word = os.environ.get("HARNESS_CPU") or "lab"
    if word not in ("lab", "host"):
        raise InputError(f"HARNESS_CPU: '{word}' is neither 'lab' nor 'host'", "leave it out for the lab's processor")
    return word == "host"


def lab_kernel() -> LabKernel:
    """HARNESS_ENTRY: host, trap, inproc or unprotected, the way into the lab kernel (`harness.engine.kernel`); its own
    choice without.
    """
    from harness.engine.kernel import ENTRIES, OWN, LabKernel

    word = os.environ.get("HARNESS_ENTRY")
    if not word:
        return OWN
    if word not in ENTRIES:
        hint = "leave it out: then it is inproc where the host lets it, else host"
        raise InputError(f"HARNESS_ENTRY: '{word}' is none of {', '.join(ENTRIES)}", hint)
    return LabKernel(entry=next(entry for entry in ENTRIES if entry == word))


def stall() -> float:
    """HARNESS_STALL: CPU seconds for which the clock of a lab in virtual time may stand still."""
    from harness.engine.virtual.uml_guest import STALL

    text = os.environ.get("HARNESS_STALL") or f"{STALL}"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise InputError(f"HARNESS_STALL: '{text}' is no number of seconds", "for example 60")
    return seconds


def patience() -> float:
    """HARNESS_PATIENCE, a duration in seconds: how long runs that the host disturbed may wait, in all, for a quiet
    host.
    """
    from harness.engine.docker.host_jitter import PATIENCE
    from harness.units import Duration

    return _quantity("HARNESS_PATIENCE", Duration.parse, f"{PATIENCE} s", "'5 min', or '0 s'").seconds


def cache_limit() -> int:
    """HARNESS_CACHE_LIMIT, bytes: the cache's size from which on the least recently used items are removed."""
    from harness.engine.images.cache import LIMIT
    from harness.units import Size

    return _quantity("HARNESS_CACHE_LIMIT", Size.parse, f"{LIMIT} B", "'10 GB'").bytes


def log_limit() -> int:
    """HARNESS_LOG_LIMIT, bytes: what one endpoint may write to its logs."""
    from harness.units import Size

    return _quantity("HARNESS_LOG_LIMIT", Size.parse, "2 GiB", "'2 GiB'").bytes


def endpoint_memory() -> int:
    """HARNESS_ENDPOINT_MEMORY, bytes: the memory that one endpoint may have, in real time."""
    from harness.engine.confinement import LEAST_MEMORY, MEMORY
    from harness.units import Size

    size = _quantity("HARNESS_ENDPOINT_MEMORY", Size.parse, f"{MEMORY} B", "'4 GiB'")
    if size.bytes < LEAST_MEMORY:
        raise InputError(
            f"HARNESS_ENDPOINT_MEMORY: {size} is too little for an endpoint", f"{Size(LEAST_MEMORY)} or more"
        )
    return size.bytes


def _quantity(variable: str, parse: Callable[[str], Quantity], default: str, example: str) -> Quantity:
    """The quantity in a variable, or the default where it is not set. Raises InputError."""
    try:
        return parse(os.environ.get(variable) or default)
    except ValueError as error:
        raise InputError(f"{variable}: {error}", f"for example {example}") from error
