"""Root file systems of images as folders, exported once per image ID: what the virtual engine's guests run from.

Layout: `<cache>/rootfs/<image ID>.<number>/` with the files in `rootfs/`, what each of them was in `files.json`, and
`export.json`, which is written last. Nothing in there is ever written to: guests mount it read-only below a private
layer. Files are shared with other exports (`harness.engine.images.hardlink_pool`). An image may have several names:
`names.json` has those under which an export was used and that `export.json` does not say.

An image is a stranger's. On this disk none of its programs runs as its owner, whoever starts it, and there are no
devices; `export.json` says which programs had such bits. Nobody but the cache's owner comes to an export.

An export that has come to harm says nothing about an implementation. At every use it is looked at as one looks at a
parcel; where a run did not complete, its contents are counted. A damaged one is exported anew, under the next number:
whoever still runs on the old one is not disturbed.
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

from harness.engine.docker_cli import docker, failure, image_ids, inspect_image, start
from harness.engine.images.cache import EXPORT, UNFINISHED, UNSHARED, Cache, cache_error, short_id
from harness.engine.images.file_manifest import (
    SET_ID_BITS,
    FileEntry,
    appearance,
    appearance_of,
    differences,
    disarm,
    disarmed,
    entries,
    read_entries,
    runs_as_another,
    write_entries,
)
from harness.engine.images.hardlink_pool import unshared
from harness.engine.process_owner import owner
from harness.errors import EngineError

#: platform.machine() → Docker's name of the architecture.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
#: In the folder of an export: its files; what they were; and what EXPORT is called once they are no more.
ROOT, FILES, DAMAGED = "rootfs", "files.json", "damaged.json"
#: In the folder of an export: its further names, and since when each is its own, in seconds since the epoch.
NAMES = "names.json"
#: In EXPORT, and of a RootFs: which programs had set-uid or set-gid bits.
SET_IDS = "set_ids"
#: Seconds after which a process looks again at an export that it uses: to look takes 25 ms.
LOOK_AGAIN = 60.0
#: So many of a damaged export's differences are named.
_NAMED = 2


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
    set_ids: Mapping[str, int] = field(default_factory=dict)
    """Program, from the root → its mode in the image, where that has set-uid or set-gid bits: not so on the disk."""


def exported_folder(cache: Path, image_id: str) -> Path | None:
    """The newest export of an image, if there is one: ROOT and FILES are in there. `image_id`: sha256:…."""
    exports = (cache.resolve() / "rootfs").glob(f"{short_id(image_id)}.*/{EXPORT}")
    by_number = {int(file.parent.suffix[1:] or 0): file.parent for file in exports}
    return by_number[max(by_number)] if by_number else None


@dataclass(frozen=True)
class Exported:
    """Root file systems that nobody removes meanwhile."""

    roots: dict[str, RootFs]
    """By the names of their images."""
    repaired: tuple[str, ...]
    """What was found damaged and was exported anew, in a sentence each."""


class RootFileSystems:
    """The exported images of one cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._sound: set[str] = set()
        """Folders whose files were counted by this process, and were all there."""
        self._looked: dict[Path, float] = {}
        """Export → when it was looked at last, on the monotonic clock, and nothing showed."""
        self._named: dict[str, Path] = {}
        """Name of an image → the export that is known by it."""
        self._damage: dict[str, str] = {}
        """Name of an image → what is wrong with its export, until there is a new one."""

    def known(self, reference: str) -> RootFs | None:
        """The image that had a name last, as it was exported, without asking Docker."""
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
    def use(self, references: Iterable[str]) -> Iterator[Exported]:
        """The root file systems of images, exported if they are not there or not as they were, and held meanwhile.

        Raises EngineError. An image that was exported before is used as it is while the Docker daemon does not answer,
        or does not have it any more.
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
            yield Exported(roots, tuple(repaired))

    def of(self, reference: str) -> RootFs:
        """The root file system of an image, as `use` gives it, for a moment."""
        with self.use([reference]) as exported:
            return exported.roots[reference]

    def _image(self, reference: str) -> tuple[str, dict[str, Any] | None]:
        """(ID of an image, what Docker says of it); where it says nothing, the ID of what was exported. EngineError."""
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
        """Why an image cannot be exported; where it is to be anew, that it was damaged is what there is to say."""
        if reference not in self._damage:
            return cause
        return EngineError(
            f"{self._damage[reference]}, and cannot be exported anew: {cause.message}",
            "start Docker and run again: the image is then exported, or built, anew",
        )

    def _whole(self, reference: str, identity: str, image: dict[str, Any] | None) -> RootFs:
        """An export that looks as it did when it was made. OSError, EngineError."""
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
                # The same bits may have been exported under another name.
                if root.reference == reference:
                    return root
                return replace(_described(reference, image, folder / ROOT), set_ids=root.set_ids)
            self._damage[reference] = _damage(reference, folder, damage)
            _discard(folder)
        if image is None:
            raise self._with_damage(reference, EngineError("Docker does not have it"))
        return self._export(reference, image)

    def _note_name(self, reference: str, folder: Path) -> None:
        """Keep for `known` that an image goes by a name now."""
        if self._named.get(reference) == folder:
            return
        root = self.known(reference)
        if root is None or Path(root.rootfs).parent != folder:
            _add_name(folder, reference)
        self._named[reference] = folder

    def _look_at(self, folder: Path) -> list[str]:
        """What shows of an export's damage; nothing if a look was taken a moment ago."""
        if time.monotonic() - self._looked.get(folder, -LOOK_AGAIN) < LOOK_AGAIN:
            return []
        damage = _look(folder)
        if not damage:
            self._looked[folder] = time.monotonic()
        return damage

    def damaged(self, roots: Iterable[RootFs]) -> bool:
        """Count the files of exports: whether one is not what it was, whatever it looks like. It is not used again."""
        any_damaged = False
        for root in {root.rootfs: root for root in roots}.values():
            folder = Path(root.rootfs).parent
            if root.rootfs in self._sound and not _look(folder):
                continue
            damage = _count(folder)
            if damage:
                self._damage[root.reference] = _damage(root.reference, folder, damage)
                _discard(folder)
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
            set_ids = disarm(unfinished / ROOT)
            sealed = entries(unfinished / ROOT)
            with self._cache.alone():
                self._cache.shared.share(unfinished / ROOT, sealed, unfinished / "link")
            seal(replace(_described(reference, image, unfinished / ROOT), set_ids=set_ids), sealed)
            folder = _place(unfinished, roots, str(image["Id"]))
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        with contextlib.suppress(EngineError):
            self._cache.tidy(image_ids())
        self._cache.bound()
        return replace(_described(reference, image, folder / ROOT), set_ids=set_ids)


def seal(root: RootFs, sealed: list[FileEntry]) -> None:
    """Say beside an export what its image is, and what its files are: `sealed`, all of them. OSError."""
    folder = Path(root.rootfs).parent
    write_entries(folder / FILES, sealed)
    described = {name: value for name, value in asdict(root).items() if name not in ("rootfs", SET_IDS)}
    content = {
        "image": described, "appearance": appearance(folder / ROOT), UNSHARED: unshared(folder / ROOT, sealed),
        SET_IDS: dict(root.set_ids),
    }  # fmt: skip
    (folder / EXPORT).write_text(json.dumps(content, indent=1))


def _disarm_older(folder: Path) -> None:
    """Take from an export of an older harness what `disarm` takes from a new one. Raises OSError.

    What was counted then says which files these are, so that damage still shows.
    """
    try:
        content = json.loads((folder / EXPORT).read_bytes())
        if SET_IDS in content:
            return
        sealed = read_entries(folder / FILES)
    except (OSError, ValueError, TypeError):
        # It is damaged, and found to be.
        return
    armed = {entry.path: stat.S_IMODE(entry.mode) for entry in sealed if runs_as_another(entry.mode)}
    content |= {"appearance": appearance_of(disarmed(sealed)), SET_IDS: armed}
    unfinished = folder / f"{UNFINISHED}{EXPORT}.{owner()}.{threading.get_ident()}"
    unfinished.write_text(json.dumps(content, indent=1))
    # First: where this breaks off, the export is taken for damaged, and nothing of it is lost unsaid.
    unfinished.replace(folder / EXPORT)
    folder.chmod(0o700)
    for path in armed:
        with contextlib.suppress(FileNotFoundError):
            (folder / ROOT / path).chmod(armed[path] & ~SET_ID_BITS)
    write_entries(folder / FILES, disarmed(sealed))


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
    """What an export says of itself; None where it says nothing that can be understood."""
    try:
        content = json.loads(file.read_bytes())
        return RootFs(**content["image"], rootfs=str(file.parent / ROOT), set_ids=content.get(SET_IDS, {}))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _names(folder: Path) -> dict[str, float]:
    """An export's further names; none where it has none, or they cannot be read."""
    try:
        names = json.loads((folder / NAMES).read_bytes())
        return {str(name): float(since) for name, since in names.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _add_name(folder: Path, reference: str) -> None:
    """Note another name of an export. A cache that cannot be written keeps the names it has."""
    names = _names(folder)
    unfinished = folder / f"{UNFINISHED}{NAMES}.{owner()}.{threading.get_ident()}"
    with contextlib.suppress(OSError):
        unfinished.write_text(json.dumps({**names, reference: time.time()}, indent=1))
        unfinished.replace(folder / NAMES)


def _look(folder: Path) -> list[str]:
    """What is other in an export than when it was made, as far as it shows; counted only where it does."""
    try:
        recorded = json.loads((folder / EXPORT).read_bytes())["appearance"]
        if appearance(folder / ROOT) == recorded:
            return []
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return _count(folder) or [f"{EXPORT} was changed"]


def _count(folder: Path) -> list[str]:
    """What is other in an export than when it was made, to the last byte."""
    try:
        return differences(folder / ROOT, read_entries(folder / FILES))
    except (OSError, ValueError):
        return [f"{FILES} cannot be read"]


def _damage(reference: str, folder: Path, damage: list[str]) -> str:
    suffix = f" and {len(damage) - _NAMED} more" if len(damage) > _NAMED else ""
    return f"the exported files of {reference} in {folder} were damaged ({', '.join(damage[:_NAMED])}{suffix})"


def _discard(folder: Path) -> None:
    """Nobody who comes takes this export for whole; who uses it goes on. OSError."""
    # Somebody else may have found the same.
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
    """EngineError for an image of another machine, by name."""
    host_architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    image_architecture = image.get("Architecture", host_architecture)
    if image_architecture != host_architecture:
        raise EngineError(
            f"the image {reference} is for {image_architecture}, and this machine is {host_architecture}",
            f"pull or build it for {host_architecture} ('docker pull --platform linux/{host_architecture} …')",
        )


def _extract(reference: str, folder: Path) -> None:
    """Write an image's files to a folder, but for device files: only root could make them, and no guest needs them."""
    container = docker("create", reference).stdout.strip()
    try:
        with start(["export", container], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as export:
            completed = subprocess.run(
                ["tar", "--extract", "--preserve-permissions", "--exclude=dev/*", "--directory", str(folder)],
                stdin=export.stdout, capture_output=True, text=True, check=False,
            )  # fmt: skip
        if export.returncode != 0 or completed.returncode != 0:
            raise failure(f"exporting the image {reference}", completed.stderr or "docker export failed")
    finally:
        docker("rm", "--force", container, check=False)
    # Whoever exported it may clear the cache, whatever modes the image's files have.
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, capture_output=True)
