"""The lab kernel of a guest, and how it enters the guest's programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

#: How a lab kernel and a program of its guest take turns. host: as two processes of the host that switch to each other.
#: trap and inproc: in one process, with the kernel mapped into it (images/lab-kernel/lab_inproc.c). With trap each
#: system call is a signal; with inproc frequent ones are jumps (images/lab-kernel/lab_rewrite.c). unprotected: as
#: inproc on a processor without protection keys.
Entry = Literal["host", "trap", "inproc", "unprotected"]
ENTRIES: tuple[Entry, ...] = get_args(Entry)


@dataclass(frozen=True)
class LabKernel:
    """A lab kernel to use instead of the simulator's own."""

    file: Path | None = None
    """None: that of the simulator's image."""
    entry: Entry | None = None
    """None: the kernel chooses."""

    @property
    def settings(self) -> Mapping[str, str]:
        """Environment variables that the kernel reads."""
        return {} if self.entry is None else {"LAB_ENTRY": self.entry}


#: The simulator's own kernel. It enters by inproc where the host lets it, else by host.
OWN = LabKernel()
