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
#: Modules of this package on which it depends what happens in a run.
_BOTH = ("certificates", "conclusion", "folder", "served")
MODULES: dict[EngineName, tuple[str, ...]] = {
    "compose": (
        *_BOTH,
        "compose",
        "compose_file",
        "conductor",
        "confinement",
        "fence",
        "held",
        "launch",
        "outside",
        "paths",
        "project",
        "sampler",
        "waits",
    ),
    "virtual": (*_BOTH, "guest", "outside", "rootfs", "sandbox", "virtual", "world"),
}
#: Those on which it does not: what makes or fetches images or says what is in them, says how a kernel is entered, keeps
#: company away, names what is there, cleans up.
BESIDE = (
    "__init__", "beginnings", "building", "cache", "code", "components", "contents", "context", "docker", "gauge",
    "go_programs", "images", "kernels", "owner", "precedence", "quiet", "recorded", "registry", "sbom", "sealed",
    "shared_files", "source", "standing", "upstream",
)  # fmt: skip


@functools.cache
def engine_code(engine: EngineName) -> str:
    """Digest of an engine's code, hexadecimal; the same for every version of Python."""
    digest = hashlib.blake2b(digest_size=8)
    for module in sorted(MODULES[engine]):
        digest.update(f"{module}\n{statements((_FOLDER / f'{module}.py').read_text())}\n".encode())
    return digest.hexdigest()
