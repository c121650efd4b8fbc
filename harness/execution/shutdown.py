"""The hard end of a campaign: what this process has under way is killed and removed, and nothing is waited for."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from harness.engine.docker.host_jitter import as_usual
from harness.engine.docker_cli import remove_orphans
from harness.engine.process_owner import owner
from harness.engine.virtual.uml_guest import SCRATCH
from harness.errors import EngineError
from harness.store.results import Store

#: How often Docker is asked for what is left: a client that was killed may have asked for a container just before.
_LOOKS = 3


def end_hard(store: Store) -> None:
    """Kill guests, builds and Docker's clients; remove containers, networks, scratch folders and unfinished runs.

    For a process that ends at once: its threads may still be at work, and nothing is locked.
    """
    own = owner()
    _kill_children()
    # Without Docker there is nothing of it to remove.
    with suppress(EngineError):
        for _ in range(_LOOKS):
            if not remove_orphans(lambda label: label != own):
                break
    as_usual()
    memory = Path(os.environ.get("TMPDIR") or "/dev/shm")
    for folder in memory.glob(f"{SCRATCH}.{own}.*"):
        shutil.rmtree(folder, ignore_errors=True)
    store.remove_orphans(lambda label: label != own)


def _kill_children() -> None:
    """Kill the processes that this one has started, each with its group where it leads one."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent, group = (int(word) for word in (folder / "stat").read_text().rpartition(")")[2].split()[1:3])
        except (OSError, ValueError):
            continue
        process = int(folder.name)
        if parent == os.getpid():
            with suppress(ProcessLookupError, PermissionError):
                if group == process:
                    os.killpg(group, signal.SIGKILL)
                else:
                    os.kill(process, signal.SIGKILL)
