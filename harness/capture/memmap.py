"""Arrays that are too large for memory: they are on the disk, and the kernel evicts their pages as it needs.

They are ordinary numpy arrays. An unnamed file holds each of them, and is deleted with it.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.capture.files import MAX_IN_MEMORY, unnamed_file

#: Rows that are copied together.
_PART = 1 << 18

Array = npt.NDArray[Any]


def allocate(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """An uninitialised array; on the disk where it is large and the disk has room for it."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < MAX_IN_MEMORY:
        return np.empty(shape, kind)
    try:
        with unnamed_file() as file:
            if hasattr(os, "posix_fallocate"):
                # Writing to a hole in the file would end this process if the disk were full.
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            return np.frombuffer(mmap.mmap(file.fileno(), size), kind).reshape(shape)
    except OSError:
        return np.empty(shape, kind)


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
