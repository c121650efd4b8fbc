"""Files that are cut short, emptied or gone, and disks that are full or take nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.chaos.scene import Inject, Scene, Target
from tests.chaos.stage import own

Choose = Callable[[Scene], list[Path]]
#: What may happen to a file.
WAYS = ("cut", "emptied", "removed")


def damage(file: Path, way: str, share: float) -> None:
    """Cut a file to a share of its length, empty it, or remove it; a folder is always removed."""
    if file.is_dir():
        shutil.rmtree(file)
    elif way == "removed":
        file.unlink()
    else:
        own(file)
        os.truncate(file, int(file.stat().st_size * share) if way == "cut" else 0)


def damaging(choose: Choose, ways: tuple[str, ...] = WAYS) -> Inject:
    """Damage one of the files that `choose` finds."""

    def inject(scene: Scene) -> None:
        paths = sorted(choose(scene))
        assert paths, "there is nothing to damage"
        file, way = scene.random.choice(paths), scene.random.choice(ways)
        damage(file, way, scene.random.uniform(0.1, 0.9))
        scene.damage(file)
        scene.note(f"{file.relative_to(scene.stage.folder)} {way}")

    return inject


def in_store(pattern: str) -> Choose:
    """Files of finished runs, by a pattern below a run's folder."""

    def choose(scene: Scene) -> list[Path]:
        return [
            path for path in scene.stage.store.glob(f"runs/*/[0-9]*/{pattern}") if path.is_dir() or path.stat().st_size
        ]

    return choose


def in_cache(*patterns: str) -> Choose:
    """Files of the cache, by patterns below it: links are what they lead to within it."""

    def choose(scene: Scene) -> list[Path]:
        cache = scene.stage.cache
        paths = {file.resolve() for pattern in patterns for file in cache.glob(pattern)}
        return [file for file in paths if file.is_dir() or (file.is_file() and file.stat().st_size)]

    return choose


# --- disks


def _mount(place: Path, size: int) -> None:
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(place)], check=True)


def small_disk(name: str, size: int) -> Inject:
    """Put one of the stage's folders (store, cache or memory) on a disk of so many bytes, with what is in it.

    Of the cache large folders stay where they are, and served files are not there yet.
    """

    def inject(scene: Scene) -> None:
        place: Path = getattr(scene.stage, name)
        aside = scene.stage.folder / f"{name}-aside"
        if place.exists() and name != "memory":
            place.rename(aside)
        _mount(place, size)
        for item in sorted(aside.iterdir()) if aside.exists() else ():
            if name == "cache" and item.name == "www":
                continue
            if name == "cache" and item.is_dir() and _bytes_in(item) > size // 4:
                (place / item.name).symlink_to(item)
            elif item.is_dir():
                shutil.copytree(item, place / item.name, symlinks=True)
            else:
                shutil.copy2(item, place / item.name)
        scene.note(f"{name} on a disk of {size / 1e6:.0f} MB")

    return inject


def _bytes_in(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*"))


def fill(name: str, target: Target | None) -> Inject:
    """Fill the disk of one of the stage's folders at a random moment of a target, or at once."""

    def inject(scene: Scene) -> None:
        place: Path = getattr(scene.stage, name)
        if target is not None:
            target.at_moment(scene)
        ballast = place / ".ballast"
        scene.undo.callback(ballast.unlink, missing_ok=True)
        with ballast.open("wb") as file:
            step, end = 1 << 24, 0
            while step >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), end, step)
                    end += step
                except OSError:
                    step //= 2
        scene.note(f"the disk of the {name} full")

    return inject


def read_only(name: str) -> Inject:
    """A folder of the stage that takes nothing."""

    def inject(scene: Scene) -> None:
        place: Path = getattr(scene.stage, name)
        subprocess.run(["mount", "--bind", str(place), str(place)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
        scene.undo.callback(subprocess.run, ["umount", str(place)], check=True)
        scene.note(f"{name} read-only")

    return inject


def emptied(name: str) -> Inject:
    """A folder of the stage with nothing in it."""

    def inject(scene: Scene) -> None:
        place: Path = getattr(scene.stage, name)
        aside = scene.stage.folder / f"{name}-aside"
        place.rename(aside)
        place.mkdir()

        def put_back() -> None:
            with suppress(OSError):
                shutil.rmtree(place)
            aside.rename(place)

        scene.undo.callback(put_back)
        scene.note(f"{name} empty")

    return inject


def remove_under_way(target: Target) -> Inject:
    """The folder of a run in progress is removed by somebody."""

    def inject(scene: Scene) -> None:
        target.at_moment(scene)
        for folder in scene.stage.store.glob("partial/*"):
            shutil.rmtree(folder, ignore_errors=True)
        scene.note("the folder of the run under way removed")

    return inject


def forget_exports(scene: Scene) -> None:
    """Remove what was made of images: it has to be exported again."""
    for item in scene.stage.cache.iterdir():
        if item.is_dir() and not item.name.startswith(("www", "certs")):
            shutil.rmtree(item)
    scene.note("exports removed")
