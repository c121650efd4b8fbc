"""A checkout of another revision: its digests, and runs of cells with its own code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.errors import EngineError, InputError
from harness.outcome import Cell, Run
from harness.store.identity import Component
from harness.store.results import Store

#: Commits that are searched for one with the digests of stored results.
MOST_COMMITS = 40
#: Seconds that a revision may take to print its digests.
_DIGESTS_SECONDS = 120.0
#: Seconds that one run of another revision may take, with the images that it builds.
_RUN_SECONDS = 1800.0


@dataclass(frozen=True)
class Checkout:
    """The files of a revision in a folder, run with this environment's Python and libraries."""

    folder: Path
    state: Path
    """Logs of builds."""
    cache: Path
    """Served files and exported images. It is shared, since each has its digest as name."""

    def digests(self) -> dict[Component, str]:
        """Digests of its engines, its simulator and its images. InputError where it cannot print them."""
        try:
            completed = self.python("-m", "harness.cli", "digests", seconds=_DIGESTS_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise InputError(
                f"{self.folder} does not say within {error.timeout:g} s what its digests are", "is the machine busy?"
            ) from error
        if completed.returncode != 0:
            message = (completed.stderr.strip().splitlines() or ["no message"])[-1]
            raise InputError(
                f"{self.folder} does not say what its digests are: {message}",
                "name a revision that has the command 'harness digests'",
            )
        return read_digests(completed.stdout)

    def run(self, cell: Cell, repetition: int, store: Path) -> Run:
        """Run a cell in virtual time. EngineError where no run comes of it.

        The scenario is passed as a file of its own, since the revision may not have it.
        """
        with tempfile.TemporaryDirectory(prefix="quic-lab-cell-") as scratch:
            file = Path(scratch) / "cell.yaml"
            file.write_text(json.dumps(scenario_document(cell)))
            words = ["run", str(file), "--clients", cell.client.name, "--servers", cell.server.name]
            words += ["--engine", "virtual", "--seed", str(cell.seed), "--repeat", str(repetition + 1)]
            for name, value in sorted(cell.parameters.items()):
                words += ["--set", f"{name}={value}"]
            words += ["--no-figures", "--store", str(store)]
            try:
                completed = self.python("-m", "harness.cli", *words, seconds=_RUN_SECONDS)
            except subprocess.TimeoutExpired as error:
                raise EngineError(
                    f"{self.folder} made no run of {cell.scenario.name} within {error.timeout:g} s"
                ) from error
        runs = [run for key in Store(store).cell_keys() for run in Store(store).runs(key)]
        matching = [run for run in runs if run.repetition == repetition]
        if len(matching) != 1:
            message = "\n  ".join(completed.stderr.strip().splitlines()[-5:]) or "no message"
            raise EngineError(f"{self.folder} made no run of {cell.scenario.name}:\n  {message}")
        return matching[0]

    def python(self, *words: str, seconds: float, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run this environment's Python in the checkout, on the checkout's code, for at most `seconds`."""
        # The simulator's lifecycle is a part of both engines.
        packages = os.pathsep.join(map(str, (self.folder, self.folder / "images" / "sim")))
        paths = {"HARNESS_STATE": str(self.state), "HARNESS_CACHE": str(self.cache), "PYTHONPATH": packages}
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env={**os.environ, **paths, **variables},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )


def scenario_document(cell: Cell) -> dict[str, object]:
    """A cell's scenario as the content of a file, without sweep and defaults, which older formats may not know."""
    document = cell.scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for key in ("name", "vary", "study", "combine", "objectives", "milestones"):
        document.pop(key, None)
    return document


def read_digests(text: str) -> dict[Component, str]:
    """Parse the output of `harness digests`. InputError."""
    try:
        return {(kind, name): digest for kind, names in json.loads(text).items() for name, digest in names.items()}
    except (ValueError, AttributeError) as error:
        raise InputError(f"digests of a revision cannot be read: {error}") from error


@contextmanager
def check_out(root: Path, revision: str, state: Path, cache: Path) -> Iterator[Checkout]:
    """A revision of a repository in a folder of its own, removed at the end. A folder is used as it is. InputError."""
    if Path(revision).is_dir():
        yield Checkout(Path(revision).resolve(), state, cache)
        return
    commit = commit_named(root, revision)
    with tempfile.TemporaryDirectory(prefix="quic-lab-base-") as scratch:
        folder = Path(scratch) / "checkout"
        _git(root, "worktree", "add", "--quiet", "--detach", str(folder), commit)
        try:
            yield Checkout(folder, state, cache)
        finally:
            _git(root, "worktree", "remove", "--force", str(folder))


def commit_named(root: Path, revision: str) -> str:
    """The commit that a revision names. InputError."""
    try:
        return _git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").strip()
    except InputError as error:
        raise InputError(f"'{revision}' is no revision of {root}, and no folder", "see 'git log'") from error


@contextmanager
def find_base(
    root: Path, required: Mapping[Component, str], first: Sequence[str], state: Path, cache: Path
) -> Iterator[Checkout]:
    """A checkout of the newest commit with the required digests. InputError where none is found.

    `first`: commits that are tried first. Then follow the last ones that touched harness/ or images/.
    """
    recent = _git(root, "log", f"-{MOST_COMMITS}", "--format=%H", "--", "harness", "images").split()
    existing = [commit for commit in first if _exists(root, commit)]
    for commit in dict.fromkeys([*existing, *recent]):
        with check_out(root, commit, state, cache) as checkout:
            if _has_digests(checkout, required):
                yield checkout
                return
    names = ", ".join(f"{' '.join(component)} {digest[:12]}" for component, digest in required.items())
    raise InputError(
        f"none of the last {MOST_COMMITS} commits that touched harness/ or images/ has {names}",
        "name it with --base REVISION",
    )


def _has_digests(checkout: Checkout, required: Mapping[Component, str]) -> bool:
    try:
        digests = checkout.digests()
    except InputError:
        return False
    return all(digests.get(component) == digest for component, digest in required.items())


def _exists(root: Path, commit: str) -> bool:
    try:
        _git(root, "cat-file", "-e", f"{commit}^{{commit}}")
    except InputError:
        return False
    return True


def _git(root: Path, *words: str) -> str:
    try:
        completed = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"git {words[0]}: {error}", "an earlier revision is taken from its history") from error
    if completed.returncode != 0:
        raise InputError(
            f"git {words[0]}: {completed.stderr.strip() or 'failed'}", "is this a checkout with its history?"
        )
    return completed.stdout
