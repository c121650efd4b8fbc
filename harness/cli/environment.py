"""What the process was given besides its words: the repository, and the variables HARNESS_…."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.consoles import caution
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.app import App

ROOT = Path(__file__).resolve().parents[2]
#: The runs behind the repository's own pages.
REFERENCE = ROOT / "results" / "reference"


def version() -> str:
    """The harness, its commit where it is one's checkout, and the Python under it."""
    import platform
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    from harness.provenance import commit_of

    try:
        number = version_of("quic-lab")
    except PackageNotFoundError:
        number = "not installed"
    commit = commit_of(ROOT)
    return f"harness {number}{f' ({commit})' if commit else ''}, Python {platform.python_version()}"


def open_app(store: Path | None = None, manifests: list[Path] | None = None) -> App:
    """The checkout, with a store (results/ without) and further implementations."""
    from harness.app import App, Places

    state = Path(os.environ.get("HARNESS_STATE") or ROOT / ".state")
    cache = Path(os.environ.get("HARNESS_CACHE") or ROOT / ".cache")
    return App(
        Places(ROOT, store or ROOT / "results", state, cache, host_cpu(), cache_limit()), manifests or [], caution
    )


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def host_cpu() -> bool:
    """HARNESS_CPU, lab or host: whose processor endpoints see in virtual time."""
    word = os.environ.get("HARNESS_CPU") or "lab"
    if word not in ("lab", "host"):
        raise InputError(f"HARNESS_CPU: '{word}' is neither 'lab' nor 'host'", "leave it out for the lab's processor")
    return word == "host"


def stall() -> float:
    """HARNESS_STALL: CPU seconds that the clock of a lab in virtual time may stand still."""
    from harness.engines.guest import STALL

    text = os.environ.get("HARNESS_STALL") or f"{STALL}"
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"HARNESS_STALL: '{text}' is no number of seconds", "for example 60") from error


def patience() -> float:
    """HARNESS_PATIENCE, a duration: how long spoilt runs may wait, in all, for a machine that keeps time."""
    from harness.engines.quiet import PATIENCE
    from harness.units import Duration

    text = os.environ.get("HARNESS_PATIENCE") or f"{PATIENCE} s"
    try:
        return Duration.parse(text).seconds
    except ValueError as error:
        raise InputError(f"HARNESS_PATIENCE: {error}", "for example '5 min', or '0 s'") from error


def cache_limit() -> int:
    """HARNESS_CACHE_LIMIT, a size: what the cache may grow to before what was used least recently goes."""
    from harness.engines.cache import LIMIT
    from harness.units import Size

    text = os.environ.get("HARNESS_CACHE_LIMIT") or f"{LIMIT} B"
    try:
        return Size.parse(text).bytes
    except ValueError as error:
        raise InputError(f"HARNESS_CACHE_LIMIT: {error}", "for example '10 GB'") from error


def log_limit() -> int:
    """HARNESS_LOG_LIMIT, a size: what one endpoint may write to its logs."""
    from harness.units import Size

    text = os.environ.get("HARNESS_LOG_LIMIT") or "2 GiB"
    try:
        return Size.parse(text).bytes
    except ValueError as error:
        raise InputError(f"HARNESS_LOG_LIMIT: {error}", "for example '2 GiB'") from error
