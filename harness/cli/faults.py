"""An exception that nobody expected: one line for people, and a log with where it happened."""

from __future__ import annotations

import os
import shlex
import sys
import time
import traceback

from harness.cli.environment import ROOT
from harness.errors import HarnessError, reason


def fault(error: Exception) -> HarnessError:
    """What to say of it; its traceback goes into a file."""
    said = f"the harness itself failed: {reason(error)}"
    file = ROOT / ".state" / f"fault-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.log"
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join([f"{shlex.join(sys.argv)}\n\n", *traceback.format_exception(error)]))
    except OSError:
        return HarnessError(said, "HARNESS_DEBUG=1 shows where")
    return HarnessError(said, f"{file} says where; finished runs are kept")
