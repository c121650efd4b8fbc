"""Which version of this package a process runs: by the text of its modules, not by a number that somebody raises."""

from __future__ import annotations

import functools
import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


@functools.cache
def build() -> str:
    """Digest of all modules of the package, hexadecimal: what two machines must share to work on one plan."""
    return build_of(_PACKAGE)


def build_of(package: Path) -> str:
    """The same of a package in some folder."""
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def named() -> str:
    """The version for people: '0.1.0 (1234abcd…)'."""
    try:
        number = version("quic-lab")
    except PackageNotFoundError:
        number = "not installed"
    return f"{number} ({build()})"
