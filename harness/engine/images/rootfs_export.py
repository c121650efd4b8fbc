"""Root file systems of images as folders, exported once per image ID. Guests of the virtual engine run from them.

Layout: `<cache>/rootfs/<image ID>.<number>/` has the files in `rootfs/`, their manifest in `files.json`, and
`export.json`, which is written last. Exports are never written to: guests mount them read-only below a private layer.
Files are shared with other exports (`harness.engine.images.hardlink_pool`). An image may have several names:
`names.json` has those under which an export was used, and that are not in `export.json`.

An image is not trusted. On this disk no program of it runs as its owner or group, and there are no devices.
`export.json` lists the programs that had set-uid or set-gid bits. Only the cache's owner has access to an export.

A damaged export says nothing about an implementation. Every use includes the quick check of its files; after a run that
did not complete follows the full check (`harness.engine.images.file_manifest`). A damaged image is exported again,
under the next number, so that guests on the old export are not disturbed.
"""

from __future__ import annotations

import contextlib
import json
import platform
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.engine.docker_cli import command_error, docker, image_ids, inspect_image, start_docker
from harness.engine.images.cache import EXPORT, UNFINISHED, UNSHARED, Cache, cache_error, short_id
from harness.engine.images.file_manifest import (
    SET_ID_BITS,
    FileEntry,
    differences,
    entries,
    manifest_digest,
    quick_digest,
    read_entries,
    runs_as_another,
    strip_privileges,
    without_set_ids,
    write_entries,
)
from harness.engine.images.hardlink_pool import unshared_bytes
from harness.engine.process_owner import owner
from harness.errors import EngineError

#: platform.machine() → Docker's name of the architecture.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
#: In the folder of an export: its files; their manifest; the name of EXPORT after damage was found.
ROOT, FILES, DAMAGED = "rootfs", "files.json", "damaged.json"
#: In the folder of an export: its other names → since when it has each, seconds since the epoch.
NAMES = "names.json"
#: Key in EXPORT, and field of RootFs: the programs that had set-uid or set-gid bits.
SET_IDS = "set_ids"
#: Seconds after which a process repeats the quick check of an export that it uses. The check takes 25 ms.
LOOK_AGAIN = 60.0
#: Number of a damaged export's differences that a message names.
_MAX_NAMED = 2


@dataclass(frozen=True)
class RootFs:
    """An exported image, with its settings of the process to start."""

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
    set_ids: Mapping[str, int] = field(default_factory=dict)
    """Program with set-uid or set-gid bits, from the root → its mode in the image. On the disk it has no such bits."""


def exported_folder(cache: Path, image_id: str) -> Path | None:
    """The newest export of an image, if there is one: ROOT and FILES are in there. `image_id`: sha256:…."""
    exports = (cache.resolve() / "rootfs").glob(f"{short_id(image_id)}.*/{EXPORT}")
    by_number = {int(file.parent.suffix[1:] or 0): file.parent for file in exports}
    return by_number[max(by_number)] if by_number else None


@dataclass(frozen=True)
class LockedRoots:
    """Root file systems that are locked, so that nobody removes them."""

    roots: dict[str, RootFs]
    """By the names of their images."""
    repaired: tuple[str, ...]
    """Damaged exports that were made again, as a sentence each."""


class RootFileSystems:
    """The exported images of one cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._sound: set[str] = set()
        """Folders that passed the full check in this process."""
        self._looked: dict[Path, float] = {}
        """Export → when it passed the quick check last, on the monotonic clock."""
        self._named: dict[str, Path] = {}
        """Name of an image → its export."""
        self._damage: dict[str, str] = {}
        """Name of an image → what is wrong with its export, until there is a new one."""

    def known(self, reference: str) -> RootFs | None:
        """The exported image that had a name last, without a request to Docker."""
        newest: tuple[float, RootFs] | None = None
        for file in self._cache.roots.glob(f"*/{EXPORT}"):
            root, since = _read(file), _names(file.parent).get(reference)
            if root is None:
                continue
            if since is None and root.reference == reference:
                since = file.stat().st_mtime
            if since is not None and (newest is None or since > newest[0]):
                newest = since, replace(root, reference=reference)
        return newest and newest[1]

    @contextlib.contextmanager
    def use(self, references: Iterable[str]) -> Iterator[LockedRoots]:
        """The root file systems of images, locked. They are exported where they are missing or damaged.

        Raises EngineError. While the Docker daemon does not answer, or does not have an image any more, an earlier
        export is used.
        """
        roots: dict[str, RootFs] = {}
        repaired: list[str] = []
        with contextlib.ExitStack() as stack:
            for reference in dict.fromkeys(references):
                identity, image = self._image(reference)
                stack.enter_context(self._cache.use(f"rootfs/{short_id(identity)}"))
                try:
                    roots[reference] = self._whole(reference, identity, image)
                except OSError as error:
                    raise cache_error(error, self._cache.folder) from error
                if reference in self._damage:
                    repaired.append(f"{self._damage.pop(reference)}: they were exported anew")
            yield LockedRoots(roots, tuple(repaired))

    def of(self, reference: str) -> RootFs:
        """The root file system of an image, as from `use`, but not locked afterwards."""
        with self.use([reference]) as exported:
            return exported.roots[reference]

    def _image(self, reference: str) -> tuple[str, dict[str, Any] | None]:
        """(ID of an image, result of `docker image inspect`). Without one, (ID of the export, None). EngineError."""
        cause = EngineError(f"there is no image {reference} on this machine", "build or pull it ('harness run' does)")
        image = None
        try:
            image = inspect_image(reference)
        except EngineError as error:
            cause = error
        if image is None:
            root = self.known(reference)
            if root is None:
                raise self._with_damage(reference, cause)
            return root.id, None
        return str(image["Id"]), image

    def _with_damage(self, reference: str, cause: EngineError) -> EngineError:
        """The error for an image that cannot be exported. Where its export was damaged, the error says that."""
        if reference not in self._damage:
            return cause
        return EngineError(
            f"{self._damage[reference]}, and cannot be exported anew: {cause.message}",
            "start Docker and run again: the image is then exported, or built, anew",
        )

    def _whole(self, reference: str, identity: str, image: dict[str, Any] | None) -> RootFs:
        """An export that passes the quick check. OSError, EngineError."""
        folder = exported_folder(self._cache.folder, identity)
        if folder is not None:
            with self._cache.alone():
                _disarm_older(folder)
        root = None if folder is None else _read(folder / EXPORT)
        if folder is not None and root is not None:
            damage = self._look_at(folder)
            if not damage:
                if image is None:
                    return replace(root, reference=reference)
                self._note_name(reference, folder)
                # The same image may have been exported under another name.
                if root.reference == reference:
                    return root
                return replace(_described(reference, image, folder / ROOT), set_ids=root.set_ids)
            self._damage[reference] = _damage_message(reference, folder, damage)
            _mark_damaged(folder)
        if image is None:
            raise self._with_damage(reference, EngineError("Docker does not have it"))
        return self._export(reference, image)

    def _note_name(self, reference: str, folder: Path) -> None:
        """Note, for `known`, that an image has a name now."""
        if self._named.get(reference) == folder:
            return
        root = self.known(reference)
        if root is None or Path(root.rootfs).parent != folder:
            _add_name(folder, reference)
        self._named[reference] = folder

    def _look_at(self, folder: Path) -> list[str]:
        """Damage of an export by the quick check; empty if the check was made a moment ago."""
        if time.monotonic() - self._looked.get(folder, -LOOK_AGAIN) < LOOK_AGAIN:
            return []
        damage = _quick_check(folder)
        if not damage:
            self._looked[folder] = time.monotonic()
        return damage

    def damaged(self, roots: Iterable[RootFs]) -> bool:
        """Whether one of these exports is damaged, by the full check. A damaged one is not used again."""
        any_damaged = False
        for root in {root.rootfs: root for root in roots}.values():
            folder = Path(root.rootfs).parent
            if root.rootfs in self._sound and not _quick_check(folder):
                continue
            damage = _full_check(folder)
            if damage:
                self._damage[root.reference] = _damage_message(root.reference, folder, damage)
                _mark_damaged(folder)
                any_damaged = True
            else:
                self._sound.add(root.rootfs)
        return any_damaged

    def _export(self, reference: str, image: dict[str, Any]) -> RootFs:
        _require_architecture(reference, image)
        roots = self._cache.roots
        unfinished = roots / f"{UNFINISHED}{owner()}.{threading.get_ident()}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700, parents=True)
        (unfinished / ROOT).mkdir()
        try:
            _extract(reference, unfinished / ROOT)
            set_ids = strip_privileges(unfinished / ROOT)
            sealed = entries(unfinished / ROOT)
            with self._cache.alone():
                self._cache.shared.share(unfinished / ROOT, sealed, unfinished / "link")
            write_manifest(replace(_described(reference, image, unfinished / ROOT), set_ids=set_ids), sealed)
            folder = _place(unfinished, roots, str(image["Id"]))
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        with contextlib.suppress(EngineError):
            self._cache.tidy(image_ids())
        self._cache.bound()
        return replace(_described(reference, image, folder / ROOT), set_ids=set_ids)


def write_manifest(root: RootFs, sealed: list[FileEntry]) -> None:
    """Write an export's manifest, `sealed`, and then `export.json` with its image. OSError."""
    folder = Path(root.rootfs).parent
    write_entries(folder / FILES, sealed)
    described = {name: value for name, value in asdict(root).items() if name not in ("rootfs", SET_IDS)}
    content = {
        "image": described,
        "appearance": quick_digest(folder / ROOT),
        UNSHARED: unshared_bytes(folder / ROOT, sealed),
        SET_IDS: dict(root.set_ids),
    }
    (folder / EXPORT).write_text(json.dumps(content, indent=1))


def _disarm_older(folder: Path) -> None:
    """Apply `disarm` to an export of an older harness. Raises OSError.

    The export's manifest says which files have such bits, so that damage can still be found.
    """
    try:
        content = json.loads((folder / EXPORT).read_bytes())
        if SET_IDS in content:
            return
        sealed = read_entries(folder / FILES)
    except (OSError, ValueError, TypeError):
        # It is damaged, and a later check finds that.
        return
    armed = {entry.path: stat.S_IMODE(entry.mode) for entry in sealed if runs_as_another(entry.mode)}
    content |= {"appearance": manifest_digest(without_set_ids(sealed)), SET_IDS: armed}
    unfinished = folder / f"{UNFINISHED}{EXPORT}.{owner()}.{threading.get_ident()}"
    unfinished.write_text(json.dumps(content, indent=1))
    # This is written first: if the rest fails, the export counts as damaged.
    unfinished.replace(folder / EXPORT)
    folder.chmod(0o700)
    for path in armed:
        with contextlib.suppress(FileNotFoundError):
            (folder / ROOT / path).chmod(armed[path] & ~SET_ID_BITS)
    write_entries(folder / FILES, without_set_ids(sealed))


def _place(unfinished: Path, roots: Path, image_id: str) -> Path:
    """Rename an export into place, under the first number that is free. OSError."""
    number = 0
    while True:
        folder = roots / f"{short_id(image_id)}.{number}"
        try:
            return unfinished.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        number += 1


def _read(file: Path) -> RootFs | None:
    """The root file system of an `export.json`; None where that cannot be read."""
    try:
        content = json.loads(file.read_bytes())
        return RootFs(**content["image"], rootfs=str(file.parent / ROOT), set_ids=content.get(SET_IDS, {}))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _names(folder: Path) -> dict[str, float]:
    """An export's other names → since when; empty where it has none, or they cannot be read."""
    try:
        names = json.loads((folder / NAMES).read_bytes())
        return {str(name): float(since) for name, since in names.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _add_name(folder: Path, reference: str) -> None:
    """Add a name to an export. A read-only cache keeps the names that it has."""
    names = _names(folder)
    unfinished = folder / f"{UNFINISHED}{NAMES}.{owner()}.{threading.get_ident()}"
    with contextlib.suppress(OSError):
        unfinished.write_text(json.dumps({**names, reference: time.time()}, indent=1))
        unfinished.replace(folder / NAMES)


def _quick_check(folder: Path) -> list[str]:
    """Differences of an export from its manifest. The full check is made only where the quick one finds some."""
    try:
        recorded = json.loads((folder / EXPORT).read_bytes())["appearance"]
        if quick_digest(folder / ROOT) == recorded:
            return []
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return _full_check(folder) or [f"{EXPORT} was changed"]


def _full_check(folder: Path) -> list[str]:
    """Differences of an export from its manifest, by the full check."""
    try:
        return differences(folder / ROOT, read_entries(folder / FILES))
    except (OSError, ValueError):
        return [f"{FILES} cannot be read"]


def _damage_message(reference: str, folder: Path, damage: list[str]) -> str:
    suffix = f" and {len(damage) - _MAX_NAMED} more" if len(damage) > _MAX_NAMED else ""
    return f"the exported files of {reference} in {folder} were damaged ({', '.join(damage[:_MAX_NAMED])}{suffix})"


def _mark_damaged(folder: Path) -> None:
    """Mark an export as damaged. Its present users go on; there are no new ones. OSError."""
    # Another process may have marked it already.
    with contextlib.suppress(FileNotFoundError):
        (folder / EXPORT).replace(folder / DAMAGED)


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
    """EngineError for an image of another architecture."""
    host_architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    image_architecture = image.get("Architecture", host_architecture)
    if image_architecture != host_architecture:
        raise EngineError(
            f"the image {reference} is for {image_architecture}, and this machine is {host_architecture}",
            f"pull or build it for {host_architecture} ('docker pull --platform linux/{host_architecture} …')",
        )


def _extract(reference: str, folder: Path) -> None:
    """Write an image's files to a folder, without device files: only root can make them, and no guest needs them."""
    container = docker("create", reference).stdout.strip()
    try:
        with start_docker(["export", container], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as export:
            completed = subprocess.run(
                ["tar", "--extract", "--preserve-permissions", "--exclude=dev/*", "--directory", str(folder)],
                stdin=export.stdout,
                capture_output=True,
                text=True,
                check=False,
            )
        if export.returncode != 0 or completed.returncode != 0:
            raise command_error(f"exporting the image {reference}", completed.stderr or "docker export failed")
    finally:
        docker("rm", "--force", container, check=False)
    # The cache's owner must be able to clear it, whatever modes the image's files have.
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, capture_output=True)
