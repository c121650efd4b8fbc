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

import yaml

from harness.engines.docker import docker
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

    def write(self) -> Path:
        """Make the pipes; a Compose file that holds the services, to be merged with the lab's. Raises EngineError."""
        for service in self._images:
            place = self._folder / service
            place.mkdir(parents=True)
            os.mkfifo(place / _PIPE)
            # Whatever user an image runs as may read it.
            (place / _PIPE).chmod(0o644)
        programs = {image: _program(image) for image in sorted(set(self._images.values()))}
        file = self._folder / "compose.yaml"
        file.write_text(held_text({service: programs[image] for service, image in self._images.items()}, self._folder))
        return file

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


def held_text(programs: Mapping[str, list[str]], folder: Path) -> str:
    """A Compose file that holds services, each of which then becomes its program. Pure."""
    services = {
        service: {
            "entrypoint": ["/bin/sh", "-c", *(_literal(word) for word in (_SCRIPT, *program))],
            "volumes": [
                {"type": "bind", "source": _literal(str(folder / service)), "target": "/held", "read_only": True}
            ],
        }
        for service, program in programs.items()
    }
    return yaml.safe_dump({"services": services}, sort_keys=False, width=120)


def _literal(word: str) -> str:
    """A word in which Compose finds no variable of its own."""
    return word.replace("$", "$$")


def _program(image: str) -> list[str]:
    """What a container of an image runs. Raises EngineError."""
    config = json.loads(docker("image", "inspect", "--format", "{{json .Config}}", image).stdout)
    program = [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]
    if not program:
        raise EngineError(f"the image {image} names no program to run")
    return program
