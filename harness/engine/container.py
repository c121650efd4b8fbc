"""The harness in a container of its own: what the Docker daemon sees of this container's folders.

The daemon binds a run's folders to endpoints by their paths on its own machine. So they must have the same paths here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.engine.docker_cli import docker
from harness.errors import EngineError

#: Environment variable of the harness's own image (images/container).
VARIABLE = "HARNESS_CONTAINER"


def container_id(mounts: str) -> str:
    """The ID of the container that a process is in, from its /proc/self/mountinfo; empty where that has none.

    Docker mounts /etc/hostname from the folder of the container.
    """
    match = re.search(r"/containers/([0-9a-f]{64})/hostname /etc/hostname ", mounts)
    return match[1] if match else ""


def hidden_folder(folders: Iterable[Path], mounts: Iterable[Mapping[str, Any]]) -> Path | None:
    """The first folder that the daemon does not see under the same path; None where it sees all of them.

    `mounts`: those of `docker inspect`.
    """
    # Docker Desktop has the folders of its host below /host_mnt.
    shared = {
        Path(mount["Destination"]): mount.get("Type") == "bind"
        and str(mount.get("Source", "")).removeprefix("/host_mnt") == mount["Destination"]
        for mount in mounts
    }
    for folder in folders:
        nearest = next((place for place in (folder, *folder.parents) if place in shared), None)
        if nearest is None or not shared[nearest]:
            return folder
    return None


def require_visible(folders: Iterable[Path]) -> None:
    """EngineError where this is a container, and the daemon does not see these folders under the same paths."""
    if not os.environ.get(VARIABLE):
        return
    own = container_id(Path("/proc/self/mountinfo").read_text())
    inspected = json.loads(docker("inspect", "--type", "container", own or os.uname().nodename).stdout)[0]
    hidden = hidden_folder([folder.resolve() for folder in folders], inspected["Mounts"])
    if hidden is not None:
        raise EngineError(
            f"{hidden} is in this container alone: the Docker daemon cannot give it to endpoints",
            'start the container with -v "$PWD:$PWD" -w "$PWD", or use --engine virtual',
        )
