"""Root file systems of images as folders, exported once per image ID: what the virtual engine's guests run from.

Layout: `<cache>/rootfs/<image ID>/rootfs/` and `image.json` beside it, which is written last. Nothing in there is
ever written to: guests mount it read-only below a private layer.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.engines.docker import docker, failure, inspect_image, start
from harness.errors import EngineError

#: platform.machine() → Docker's name of the architecture.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class RootFs:
    """An exported image, with what it says about the process it starts."""

    reference: str
    id: str
    identity: str
    """Digest of a published image where it has one, else its ID."""
    rootfs: str
    """Its folder."""
    command: list[str]
    environment: list[str]
    working_dir: str
    user: str
    stop_signal: int


def exported_folder(cache: Path, image_id: str) -> Path:
    """Where the files of an image are, if it was exported; `image_id`: sha256:…."""
    return _place(cache, image_id) / "rootfs"


def _place(cache: Path, image_id: str) -> Path:
    return cache.resolve() / "rootfs" / image_id.removeprefix("sha256:")[:24]


class RootFileSystems:
    """The exported images of one cache folder."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._folder = cache.resolve() / "rootfs"

    def known(self, reference: str) -> RootFs | None:
        """What was exported last under a name, without asking Docker."""
        found = [file for file in self._folder.glob("*/image.json") if _read(file).reference == reference]
        return _read(max(found, key=lambda file: file.stat().st_mtime)) if found else None

    def of(self, reference: str) -> RootFs:
        """The root file system of an image, exported if it is not there. EngineError when it cannot be.

        An image that was exported before is used as it is while the Docker daemon does not answer.
        """
        try:
            image = inspect_image(reference)
        except EngineError:
            known = self.known(reference)
            if known is None:
                raise
            return known
        if image is None:
            raise EngineError(f"there is no image {reference} on this machine", "build or pull it ('harness run' does)")
        return self._export(reference, image)

    def _export(self, reference: str, image: dict[str, Any]) -> RootFs:
        folder = _place(self._cache, str(image["Id"]))
        if (folder / "image.json").exists():
            made = _read(folder / "image.json")
            if made.reference == reference:
                return made
            # The same bits under another name.
            return _described(reference, image, folder / "rootfs")
        _require_architecture(reference, image)
        unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        (unfinished / "rootfs").mkdir(parents=True)
        described = _described(reference, image, folder / "rootfs")
        try:
            _extract(reference, unfinished / "rootfs")
            (unfinished / "image.json").write_text(json.dumps(asdict(described), indent=1))
            if not folder.exists():
                unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return described


def _read(file: Path) -> RootFs:
    return RootFs(**json.loads(file.read_text()))


def _described(reference: str, image: dict[str, Any], rootfs: Path) -> RootFs:
    config = image.get("Config") or {}
    command = [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]
    if not command:
        raise EngineError(f"the image {reference} names no command to start", "give it an ENTRYPOINT")
    return RootFs(
        reference=reference,
        id=str(image["Id"]),
        identity=str((image.get("RepoDigests") or [image["Id"]])[0]),
        rootfs=str(rootfs),
        command=command,
        environment=config.get("Env") or [],
        working_dir=config.get("WorkingDir") or "/",
        user=config.get("User") or "",
        stop_signal=_signal(config.get("StopSignal") or "SIGTERM"),
    )


def _signal(name: str) -> int:
    return int(name) if name.isdigit() else int(signal.Signals[f"SIG{name.removeprefix('SIG')}"])


def _require_architecture(reference: str, image: dict[str, Any]) -> None:
    """EngineError for an image of another machine, by name."""
    here = _ARCHITECTURES.get(platform.machine(), platform.machine())
    there = image.get("Architecture", here)
    if there != here:
        raise EngineError(
            f"the image {reference} is for {there}, and this machine is {here}",
            f"pull or build it for {here} ('docker pull --platform linux/{here} …')",
        )


def _extract(reference: str, folder: Path) -> None:
    """Write an image's files to a folder, but for device files: only root could make them, and no guest needs them."""
    container = docker("create", reference).stdout.strip()
    try:
        with start(["export", container], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as export:
            done = subprocess.run(
                ["tar", "--extract", "--preserve-permissions", "--exclude=dev/*", "--directory", str(folder)],
                stdin=export.stdout, capture_output=True, text=True, check=False,
            )  # fmt: skip
        if export.returncode != 0 or done.returncode != 0:
            raise failure(f"exporting the image {reference}", done.stderr or "docker export failed")
    finally:
        docker("rm", "--force", container, check=False)
    # Whoever exported it may clear the cache, whatever modes the image's files have.
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, capture_output=True)
