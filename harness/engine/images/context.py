"""What an image is built from: the identity of a build context, and a copy of it to build."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.engine.python_source import behaviour

#: The record of what is in an image, beside its recipe (`harness.engine.images.record`).
RECORD = "components.json"
#: Files of a recipe's folder that make no other image.
_OF_NO_IMAGE = ("image.yaml", RECORD)


def folder_hash(folder: Path) -> str:
    """Hash of the names, modes and contents of all files of a build context, as far as they do something.

    The manifest is left out: a colour or a note makes no other image. The record of what is in the image is left out
    as well. So are comments and docstrings of Python (`harness.engine.python_source`).
    """
    digest = hashlib.blake2b(digest_size=16)
    left_out = {folder / name for name in _OF_NO_IMAGE}
    files = (path for path in folder.rglob("*") if path.is_file() and path not in left_out)
    for file in sorted(path for path in files if "__pycache__" not in path.parts):
        executable = os.access(file, os.X_OK)
        content = hashlib.blake2b(behaviour(file.name, file.read_bytes()), digest_size=16).digest()
        digest.update(f"{file.relative_to(folder)}\0{int(executable)}\0".encode() + content)
    return digest.hexdigest()


@contextmanager
def fresh(folder: Path) -> Iterator[Path]:
    """A copy of a build context whose files are of now.

    Cargo, make and their like go by times. What a cache holds (`RUN --mount=type=cache`) may be newer than a checkout's
    files and have been made of others: of another branch's, or of another checkout's. They would take it for these.
    """
    with tempfile.TemporaryDirectory(prefix="quic-lab-context-") as scratch:
        # `shutil.copy` keeps modes, and no times.
        yield Path(shutil.copytree(folder, Path(scratch) / folder.name, symlinks=True, copy_function=shutil.copy))
