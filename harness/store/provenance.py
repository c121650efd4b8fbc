"""The origin of a run's code, for its record: the project's commit, the engine's versions, the images' contents."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.engine.images.contents import Contents, ContentsCache
from harness.engine.images.registry import origin_of
from harness.errors import EngineError


@dataclass(frozen=True)
class Provenance:
    """The provenance that all runs of a command share."""

    versions: Mapping[str, str] = field(default_factory=dict)
    """Of Docker and Compose, where they were used."""
    commit: str = ""
    """See `commit_of`."""
    images: ContentsCache | None = None
    registry: str = ""
    """Where images may have come from."""

    def origins(self, references: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """The images of a lab that came from the registry: name → their name there."""
        if not self.registry:
            return {}
        origins = {name: origin_of(reference, self.registry) for name, reference in references.items()}
        registered = {name: origin for name, origin in origins.items() if origin}
        return {"images_from": registered} if registered else {}

    def contents(self, ids: Mapping[str, str], references: Mapping[str, str]) -> dict[str, Contents]:
        """The contents of the images of a run, by their names in it; without those whose contents cannot be determined.

        `ids`, `references`: name → image ID, and the reference of the image.
        """
        if self.images is None:
            return {}
        contents = {}
        for name, identity in ids.items():
            if name in references:
                try:
                    contents[name] = self.images.contents_of(references[name], identity)
                except (EngineError, OSError):
                    # A run is worth storing without these contents; its record is then less complete.
                    continue
        return contents


def commit_of(root: Path) -> str:
    """The commit of a checkout, with + appended if tracked files were changed; HARNESS_COMMIT where it is no clone.

    What was installed from a clone has the commit in a file. Empty where nobody knows it.
    """
    if not (root / ".git").exists():
        # A folder around an installed program may be a clone of something else.
        written = root / "commit"
        return os.environ.get("HARNESS_COMMIT") or (written.read_text().strip() if written.is_file() else "")
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("HARNESS_COMMIT", "")
    return commit + ("+" if changed else "")


def copy_tracked_files(root: Path, folder: Path, *patterns: str) -> None:
    """Copy the files that Git has of a checkout, as they are now; those of the patterns (gitglossary(7), pathspec).

    A file that was removed and not yet committed is left out. EngineError where `root` is no clone; OSError.
    """
    words = ("git", "-C", str(root), "ls-files", "-z", "--", *patterns)
    listing = subprocess.run(words, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        raise EngineError(f"{root}: git ls-files: {listing.stderr.strip()}", "use a clone of the repository")
    for name in filter(None, listing.stdout.split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


# --- The processor of this machine, which runs and estimates of their durations name.


#: Fields of /proc/cpuinfo that identify the processor generation on x86.
_GENERATION = {"family": "cpu family", "model": "model"}


def cpu_model() -> str:
    """The processor of this machine: 'AMD EPYC (family 25, model 1)'; empty if the kernel names none.

    Vendors and hypervisors use one name for generations with different features.
    """
    fields = [line.partition(":") for line in _read_lines("/proc/cpuinfo")]
    cpu_info = {name.strip(): value.strip() for name, _, value in reversed(fields)}
    if "model name" not in cpu_info:
        return ""
    generation = ", ".join(f"{word} {cpu_info[name]}" for word, name in _GENERATION.items() if name in cpu_info)
    return f"{cpu_info['model name']} ({generation})" if generation else cpu_info["model name"]


def _read_lines(file: str) -> list[str]:
    try:
        return Path(file).read_text().splitlines()
    except OSError:
        return []
