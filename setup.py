"""Puts the scenarios, the recipes of the images and the ledger into the package, in its folder `shipped`.

A checkout reads them where they lie. An installed program reads its own copy (`harness.cli.workspace`). All else about
the project is in pyproject.toml.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
#: What the program reads beside its own code.
SHIPPED = ("scenarios", "images", "results/equivalences.yaml")


def git(*words: str) -> str | None:
    """The output of a command of Git; None outside a clone of this project."""
    if not (HERE / ".git").exists():
        return None
    try:
        return subprocess.run(["git", "-C", str(HERE), *words], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def shipped_files() -> list[Path]:
    """The files to ship, relative to the project: those that Git has, else all but caches of Python and Cargo."""
    listing = git("ls-files", "-z", "--", *SHIPPED)
    if listing is not None:
        return [Path(name) for name in listing.split("\0") if name and (HERE / name).is_file()]
    places = [HERE / name for name in SHIPPED]
    files = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*")))]
    names = [file.relative_to(HERE) for file in files if file.is_file()]
    return [name for name in names if not {"__pycache__", "target"}.intersection(name.parts)]


class BuildPackage(build_py):
    """The package with what it reads."""

    def run(self) -> None:
        """Build as always, and copy."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "harness" / "shipped"
        shutil.rmtree(target, ignore_errors=True)
        for name in shipped_files():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            # Modes count: an executable script is part of an image's identity.
            shutil.copy(HERE / name, target / name)
        commit = git("rev-parse", "HEAD")
        if commit is not None:
            changed = git("status", "--porcelain", "--untracked-files=no")
            (target / "commit").write_text(commit.strip() + ("+" if changed else "") + "\n")


setup(cmdclass={"build_py": BuildPackage})
