"""How process 1 of a lab kernel ends: with the machine, whatever happened."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

#: reboot(2): LINUX_REBOOT_CMD_POWER_OFF.
POWER_OFF = 0x4321FEDC


def then_off(work: Callable[[], None], name: str) -> None:
    """Do the work, say on the console what went wrong, and switch the machine off."""
    try:
        work()
    except BaseException as error:
        print(f"{name}: {type(error).__name__}: {error}", flush=True)
    finally:
        os.sync()
        ctypes.CDLL(None).reboot(POWER_OFF)
        # The machine goes while this waits; a process 1 that returned would be a panic.
        signal.pause()
