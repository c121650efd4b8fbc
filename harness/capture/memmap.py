"""Arrays that are too large for memory: they are on the disk, and the kernel evicts their pages as it needs.

They are ordinary numpy arrays. An unnamed file holds each of them, and is deleted with it.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

#: Bytes from which on an array is on the disk: a column of 131,072 packets, 190 MB.
MAX_IN_MEMORY = 1 << 20
#: Rows that are copied together.
_PART = 1 << 18
#: Files that may be large (FHS 3.0 §5.15): /tmp is memory on many machines.
_FOLDER = Path("/var/tmp")

Array = npt.NDArray[Any]


def allocate(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """An uninitialised array; on the disk where it is large. OSError where the disk has no room."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < MAX_IN_MEMORY:
        return np.empty(shape, kind)
    with unnamed_file() as file:
        if hasattr(os, "posix_fallocate"):
            # Writing to a hole in the file would end this process if the disk were full.
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        return np.frombuffer(mmap.mmap(file.fileno(), size), kind).reshape(shape)


def unnamed_file() -> IO[bytes]:
    """A file that is deleted as soon as nobody has it open or mapped; its folder may be large. OSError."""
    folder = os.environ.get("TMPDIR") or (str(_FOLDER) if os.access(_FOLDER, os.W_OK) else None)
    return tempfile.TemporaryFile(dir=folder)


def concatenate(parts: Sequence[Array]) -> Array:
    """The parts, concatenated."""
    output = allocate((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    at = 0
    for part in parts:
        output[at : at + len(part)] = part
        at += len(part)
    return output


def take_rows(array: Array, chosen: Array) -> Array:
    """The rows chosen by a mask or by indices: `array[chosen]`."""
    if array.nbytes < MAX_IN_MEMORY:
        return array[chosen]
    rows = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
    output = allocate((len(rows), *array.shape[1:]), array.dtype)
    for start in range(0, len(rows), _PART):
        part = slice(start, start + _PART)
        output[part] = array[rows[part]]
    return output
