"""A digest of the code that runs a lab, for cells' keys: another engine makes other runs, and says so by itself.

The digest is of a module's statements (`harness.engine.python_source`). The simulator is an image, and has its own
digest; it holds what both engines share (`simulator.lifecycle`).
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from harness.engine.python_source import statements
from harness.outcome import EngineName

_FOLDER = Path(__file__).parent
#: Modules of this package, from it, on which it depends what happens in a run.
_BOTH = ("certificates", "exit_rules", "run_dir", "served_files")
MODULES: dict[EngineName, tuple[str, ...]] = {
    "compose": (
        *_BOTH,
        "docker.engine",
        "compose_file",
        "docker.supervisor",
        "confinement",
        "fence",
        "docker.delayed_start",
        "docker.run_options",
        "external_failures",
        "docker.networks",
        "docker.containers",
        "docker.sampler",
        "docker.sched_delay",
    ),
    "virtual": (
        *_BOTH,
        "virtual.uml_guest",
        "external_failures",
        "images.rootfs_export",
        "virtual.sandbox",
        "virtual.engine",
        "virtual.guest_config",
    ),
}
#: Those on which it does not: what makes or fetches images or says what is in them, says how a kernel is entered, keeps
#: company away, names what is there, cleans up.
BESIDE = (
    "__init__",
    "build_queue",
    "code_digest",
    "docker.__init__",
    "docker.cpu_priority",
    "docker.host_jitter",
    "docker_cli",
    "images.__init__",
    "images.build",
    "images.cache",
    "images.components",
    "images.contents",
    "images.context",
    "images.file_manifest",
    "images.go_build_info",
    "images.hardlink_pool",
    "images.parallel_build",
    "images.record",
    "images.registry",
    "images.result",
    "images.sbom",
    "images.upstream",
    "kernel",
    "partial_downloads",
    "process_owner",
    "python_source",
    "virtual.__init__",
)


def _file(module: str) -> Path:
    return _FOLDER.joinpath(*module.split(".")).with_suffix(".py")


@functools.cache
def engine_code(engine: EngineName) -> str:
    """Digest of an engine's code, hexadecimal; the same for every version of Python."""
    digest = hashlib.blake2b(digest_size=8)
    for module in sorted(MODULES[engine]):
        digest.update(f"{module}\n{statements(_file(module).read_text())}\n".encode())
    return digest.hexdigest()
