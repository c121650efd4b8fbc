"""Where one fault happens: a store, a cache and a memory folder of its own, and the commands that are given there."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.capture.files import ARCHIVE, CAPTURES, ZSTD, content_digest
from harness.capture.files import original_path as written_name
from harness.outcome import EngineName
from harness.store.compression import UNFINISHED_SUFFIX
from tests.chaos import machine
from tests.examples import ROOT

#: The cell: 2 MB over 40 ms and 20 Mbit/s take a second, and must not take three.
SCENARIO = {
    "schema": 1,
    "title": "A transfer that is disturbed",
    "references": ["a test"],
    "path": {
        "forward": {"rate": "20 Mbit/s", "delay": "20 ms", "queue": "1 BDP"},
        "return": {"rate": "5 Mbit/s", "delay": "20 ms", "queue": "1 BDP"},
    },
    "flows": [{"download": "2 MB"}],
    "milestones": ["1 MB", "2 MB"],
    "timeout": "20 s",
    "objectives": [{"metric": "completion", "at_most": "3 s"}],
}
PAIR = ("--clients", "ngtcp2", "--servers", "ngtcp2")
#: Repetitions of the cell. The first is in the store already, whenever a fault happens.
REPETITIONS: Mapping[EngineName, int] = {"virtual": 3, "compose": 2}
#: A file of so many bytes may be a lock, with the number of who holds it.
SMALL = 16
#: Seconds after which a command hangs.
LONGEST = 240.0
#: How Python says that nobody expected this, and how the harness does.
UNEXPECTED = ("Traceback (most recent call last)", "Exception ignored in", "the harness itself failed")


@dataclass(frozen=True)
class Ended:
    """A command that was given, and what came of it."""

    words: tuple[str, ...]
    code: int | None
    """The exit code; negative for a signal, None for one that hung."""
    stdout: str
    stderr: str
    seconds: float

    @property
    def unexpected(self) -> list[str]:
        """What of its output nobody should see."""
        text = f"{self.stdout}\n{self.stderr}"
        return [words for words in UNEXPECTED if words in text]


class Command:
    """A harness command under way, in a session of its own."""

    def __init__(self, stage: Stage, name: str, words: tuple[str, ...], settings: Mapping[str, str]) -> None:
        self.words = words
        self._files = [stage.folder / f"{name}.{stream}" for stream in ("out", "err")]
        self._started_at = time.monotonic()
        with self._files[0].open("wb") as out, self._files[1].open("wb") as errors:
            self.process = subprocess.Popen(
                [str(Path(sys.executable).with_name("harness")), *words], cwd=ROOT, stdin=subprocess.DEVNULL,
                stdout=out, stderr=errors, env={**stage.environment(), **settings}, start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.process.pid

    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def wait(self, longest: float = LONGEST) -> Ended:
        """Wait for its end; what hangs is killed."""
        code: int | None
        try:
            code = self.process.wait(timeout=longest)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = None
        out, errors = (file.read_text(errors="replace") for file in self._files)
        return Ended(self.words, code, out, errors, time.monotonic() - self._started_at)


class Stage:
    """The folders of one fault."""

    def __init__(self, folder: Path, engine: EngineName) -> None:
        """`folder`: where they are made."""
        self.folder = folder
        self.engine = engine
        self.store, self.cache, self.state = (folder / name for name in ("store", "cache", "state"))
        memory = Path("/dev/shm")
        self.memory = (memory if memory.is_dir() else folder) / f"quic-lab-chaos-{os.getpid()}-{folder.name}"
        self.scenario_file = folder / "disturbed.yaml"

    def create(self, *, cache: Path | None = None, store: Path | None = None, state: Path | None = None) -> Stage:
        """Make the folders: the cache's files are those of another one, the store is a copy."""
        self.clear()
        self.folder.mkdir(parents=True)
        self.memory.mkdir(parents=True)
        self.scenario_file.write_text(yaml.safe_dump(SCENARIO, sort_keys=False))
        for source, target in ((store, self.store), (state, self.state)):
            if source is not None:
                shutil.copytree(source, target, symlinks=True)
        if cache is not None:
            # By links: who damages a file makes it its own before.
            subprocess.run(["cp", "--archive", "--link", str(cache), str(self.cache)], check=True)
            # What has nothing in it is there to be locked, by those of this cache alone.
            for file in small_files(self.cache):
                own(file)
        return self

    def clear(self) -> None:
        """Remove the folders, and what is mounted there."""
        self.release()
        shutil.rmtree(self.folder, ignore_errors=True)

    def release(self) -> None:
        """Unmount what is mounted there, and give the memory back; what is on the disk stays."""
        for point in reversed(machine.mounts_below((self.folder, self.memory))):
            subprocess.run(["umount", "--lazy", point], check=False)
        shutil.rmtree(self.memory, ignore_errors=True)

    def environment(self) -> dict[str, str]:
        """What commands find in their environment."""
        return {
            **os.environ, "HARNESS_CACHE": str(self.cache), "HARNESS_STATE": str(self.state),
            "TMPDIR": str(self.memory), "HARNESS_PATIENCE": "20 s",
        }  # fmt: skip

    # --- commands

    def words(self, verb: str = "run") -> tuple[str, ...]:
        """The words of a command on the cell."""
        if verb == "run":
            asked = ("--engine", self.engine, "--repeat", str(REPETITIONS[self.engine]), "--json")
            jobs = ("--jobs", "2") if self.engine == "virtual" else ()
            return ("run", str(self.scenario_file), *PAIR, *asked, *jobs, "--store", str(self.store))
        options = ("--json",) if verb == "report" else ()
        return (verb, str(self.scenario_file), *options, "--store", str(self.store))

    def start(self, name: str, verb: str = "run", settings: Mapping[str, str] | None = None) -> Command:
        """Give a command; `name`: what its output is kept as."""
        return Command(self, name, self.words(verb), settings or {})

    # --- what is there

    def finished(self) -> dict[str, dict[str, str]]:
        """Place of each finished run in the store → its files' digests."""
        return {str(folder.relative_to(self.store)): digests(folder) for folder in self.run_folders()}

    def run_folders(self) -> list[Path]:
        """Folders of finished runs, those that others stand in for among them."""
        places = [*self.store.glob("runs/*/*/run.json"), *self.store.glob("runs/*/replaced/*/run.json")]
        return sorted(file.parent for file in places)

    def shapes(self) -> set[str]:
        """What the store and the cache hold, down to some depth, by names without numbers."""
        all_shapes = set(shapes_below(self.store, 4)) | {f"cache/{shape}" for shape in shapes_below(self.cache, 3)}
        return {shape for shape in all_shapes if "/replaced" not in shape}


def small_files(folder: Path) -> list[Path]:
    """Files one level below a folder's own folders, with next to nothing in them: locks are among them."""
    return [file for file in folder.glob("*/*") if file.is_file() and file.stat().st_size <= SMALL]


def own(file: Path) -> None:
    """Make a file that has other names one of its own, with the same times."""
    copy = file.with_name(f"{file.name}.own")
    shutil.copy2(file, copy)
    copy.replace(file)


def digests(folder: Path) -> dict[str, str]:
    """Digest of the content of every file below a folder, by its place: as it was written, compressed or not.

    Without what somebody was compressing when he was killed: the file itself is still there, and `left_on` looks for it.
    """
    files = (
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.is_symlink() and UNFINISHED_SUFFIX not in file.name
    )
    return {
        str(place.relative_to(folder)): _content_digest(place if file.name == ARCHIVE else file)
        for file in files
        for place in as_written(file)
    }


def as_written(file: Path) -> list[Path]:
    """The files, by the names they were written with, whose content a file holds."""
    return [file.with_name(name) for name in CAPTURES.values()] if file.name == ARCHIVE else [written_name(file)]


def _content_digest(file: Path) -> str:
    try:
        return content_digest(file)
    except OSError:
        return ""


def digest_of(file: Path) -> str:
    """Digest of a file as it is; nothing of what is no file."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "blake2b").hexdigest()
    except OSError:
        return ""


def shapes_below(folder: Path, depth: int) -> Iterator[str]:
    """Names below a folder, numbers and digests in them left out."""
    for path in folder.glob("/".join(["*"] * depth)):
        yield shape(str(path.relative_to(folder)))
    if depth > 1:
        yield from shapes_below(folder, depth - 1)


def shape(name: str) -> str:
    """A name without its numbers and digests, and as it was written: what is small is not compressed."""
    return re.sub(r"[0-9a-f]{12,}|[0-9]+", "#", name.removesuffix(ZSTD))
