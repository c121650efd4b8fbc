"""Installs the project of the working directory into this Python's environment, by its path; its files are not copied.

usage: install.py FILE. The file gets the installed packages that it does not need at run time, a name a line.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
import tempfile
from importlib.metadata import distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from setuptools import build_meta

NAME = "quic-lab"


def canonical(name: str) -> str:
    """The name of a distribution in its normal form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> None:
    """Adds a distribution and all that it requires to `seen`."""
    if (canonical(name), extras) in seen:
        return
    seen.add((canonical(name), extras))
    for text in distribution(name).requires or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            needed(requirement.name, frozenset(requirement.extras), seen)


def main(unneeded: Path) -> None:
    """Installs the project, and writes the file."""
    packages, here = Path(sysconfig.get_path("purelib")), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        metadata = build_meta.prepare_metadata_for_build_wheel(folder)
        shutil.copytree(Path(folder, metadata), packages / metadata)
    (packages / f"{NAME}.pth").write_text(f"{here}\n{here / 'images' / 'sim'}\n")
    for entry in distribution(NAME).entry_points.select(group="console_scripts"):
        module, _, function = entry.value.partition(":")
        script = Path(sysconfig.get_path("scripts"), entry.name)
        script.write_text(f"#!{sysconfig.get_path('scripts')}/python\nfrom {module} import {function}\n{function}()\n")
        script.chmod(0o755)
    seen: set[tuple[str, frozenset[str]]] = set()
    needed(NAME, frozenset(), seen)
    names = {canonical(item.name) for item in distributions()} - {name for name, _ in seen}
    unneeded.write_text("".join(f"{name}\n" for name in sorted(names)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
