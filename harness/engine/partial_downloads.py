"""What unfinished downloads leave in a run's folder, made small.

The beginning of a served file tells nothing that its length does not, and may be gigabytes that no compression makes
smaller. What differs from the served file stays as it is: somebody will want to see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from harness.reading import open_regular, tree_of
from harness.topology import Lab

#: Bytes looked at together: as many as `served_file` makes together.
_PIECE = 1 << 24


def discard_beginnings(lab: Lab, folder: Path) -> dict[str, int]:
    """Remove downloads that are beginnings of what was served: place below the folder → bytes."""
    found = {}
    for flow in lab.flows:
        served = {one.name: (one.size, number) for number, one in enumerate(flow.files)} or {flow.file: (flow.size, 0)}
        for file in _left(folder / f"flow{flow.flow}"):
            # A client may write under a name of its own until it has the whole.
            size, number = served.get(file.name, next(iter(served.values())))
            # What belongs to somebody else stays.
            with suppress(OSError):
                if size and _is_beginning(file, size, number):
                    length = file.lstat().st_size
                    file.unlink()
                    found[file.relative_to(folder).as_posix()] = length
    return found


def _left(folder: Path) -> Iterator[Path]:
    """What downloads left below a flow's folder."""
    with suppress(OSError):
        for place in tree_of(folder).files:
            if place.startswith("downloads/") or (place.startswith("transfer") and "/" not in place):
                yield folder / place


def _is_beginning(file: Path, size: int, number: int) -> bool:
    """Whether a file is the beginning, or all, of the served one of that size and number."""
    left = file.lstat().st_size
    if left > size:
        return False
    # As `served_file` makes it.
    generator = np.random.Generator(np.random.PCG64([size, number] if number else size))
    with open_regular(file) as came:
        while left:
            piece = generator.bytes(min(size, _PIECE))
            size -= len(piece)
            found = came.read(len(piece))
            if found != piece[: len(found)]:
                return False
            left -= len(found)
    return True
