"""Ends a campaign at once: everything that this process has started is killed and removed, without waiting."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from harness.engine.docker.host_jitter import restore_settings
from harness.engine.docker_cli import remove_orphans
from harness.engine.process_owner import owner
from harness.engine.virtual.uml_guest import SCRATCH
from harness.errors import EngineError
from harness.store.results import Store

#: How often leftovers are removed from Docker: a killed client may have requested a container just before.
_ATTEMPTS = 3


def kill_campaign(store: Store) -> None:
    """Kill guests, builds and Docker clients; remove containers, networks, scratch folders and unfinished runs.

    For a process that exits immediately: its threads may still run, and nothing is locked.
    """
    own_label = owner()
    _kill_children()
    # Without Docker there are no leftovers in it.
    with suppress(EngineError):
        for _ in range(_ATTEMPTS):
            if not remove_orphans(lambda label: label != own_label):
                break
    restore_settings()
    memory = Path(os.environ.get("TMPDIR") or "/dev/shm")
    for folder in memory.glob(f"{SCRATCH}.{own_label}.*"):
        shutil.rmtree(folder, ignore_errors=True)
    store.remove_orphans(lambda label: label != own_label)


def _kill_children() -> None:
    """Kill the child processes; a process group leader is killed with its group."""
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
