"""Clients that wait for their start: their containers are up, and a pipe holds them back.

To start a container takes a third of a second of CPU, at a moment that is hard to foretell: during a transfer it would
come late and disturb the path. So a client that starts later is brought up with the others, by a shell that reads a
named pipe first and then becomes the image's own program. The Compose file for use by hand knows nothing of it.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.engine.docker_cli import docker
from harness.errors import EngineError

_PIPE = "start"
#: Without the pipe, as when the container is started once more, nothing holds it.
_SCRIPT = f'[ ! -p /held/{_PIPE} ] || read _ < /held/{_PIPE}; exec "$0" "$@"'


class Held:
    """The containers of one lab that are held, by service."""

    def __init__(self, folder: Path, images: Mapping[str, str]) -> None:
        """`folder`: a place of its own, made here and removed by `remove`; `images`: service → image."""
        self._folder = folder
        self._images = images

    def services(self) -> dict[str, dict[str, list[str]]]:
        """Make the pipes; of each service what holds it, beside the lab's own Compose file. Raises EngineError."""
        for service in self._images:
            place = self._folder / service
            place.mkdir(parents=True)
            os.mkfifo(place / _PIPE)
            # Whatever user an image runs as may read it.
            (place / _PIPE).chmod(0o644)
        programs = {image: _program(image) for image in sorted(set(self._images.values()))}
        return {service: held(programs[image], self._folder / service) for service, image in self._images.items()}

    def release(self, service: str) -> bool:
        """Let a service go on; False while its shell is not there yet."""
        pipe = self._folder / service / _PIPE
        try:
            end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nobody reads yet
                return False
            raise EngineError(f"{service} cannot be told to start: {error}") from error
        try:
            os.write(end, b"\n")
        finally:
            os.close(end)
        pipe.unlink()
        return True

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)


def held(program: list[str], place: Path) -> dict[str, list[str]]:
    """Keys of a service that is held by the pipe in a folder, and then becomes its program. Pure."""
    return {"entrypoint": ["/bin/sh", "-c", _SCRIPT, *program], "volumes": [f"{place}:/held:ro"]}


def _program(image: str) -> list[str]:
    """What a container of an image runs. Raises EngineError."""
    config = json.loads(docker("image", "inspect", "--format", "{{json .Config}}", image).stdout)
    program = [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]
    if not program:
        raise EngineError(f"the image {image} names no program to run")
    return program
