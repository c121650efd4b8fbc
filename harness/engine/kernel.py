"""Which lab kernel a guest runs, and how that enters the guest's programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

#: How a lab kernel and a program of its guest take turns: as two processes of the host that hand over to each other, or
#: in one, where the kernel is mapped into every program's process (images/lab-kernel/lab_inproc.c); there each system
#: call by signal (trap), or those that are made often by jump (inproc; images/lab-kernel/lab_rewrite.c).
Entry = Literal["host", "trap", "inproc"]
ENTRIES: tuple[Entry, ...] = get_args(Entry)


@dataclass(frozen=True)
class LabKernel:
    """A lab kernel to run on instead of the simulator's own."""

    file: Path | None = None
    """None: the one of the simulator's image."""
    entry: Entry | None = None
    """None: as the kernel finds best."""

    @property
    def settings(self) -> Mapping[str, str]:
        """Variables that the kernel reads."""
        return {} if self.entry is None else {"LAB_ENTRY": self.entry}


#: The simulator's own: in the programs' processes where the processor has protection keys for the kernel's memory, else
#: from another process.
OWN = LabKernel()
