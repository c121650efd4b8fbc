"""The harness measured by itself.

Benchmarks, not tests: they print what they saw beside what is aimed at, with medians and extremes, and never
fail for being slow.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.execution import App
from tools.bench.cells import WholeCells
from tools.bench.cluster import Cluster
from tools.bench.commands import Commands
from tools.bench.entries import ENTERED, Entries
from tools.bench.real import RealTime
from tools.bench.session import Line, Session
from tools.bench.validation import LinkValidation
from tools.bench.virtual import VirtualTime

PARTS: dict[str, type[Session]] = {
    "commands": Commands,
    "cells": WholeCells,
    "virtual": VirtualTime,
    "links": LinkValidation,
    "kernel": Entries,
    "real": RealTime,
    "cluster": Cluster,
}


def bench(app: App, console: Console, parts: list[str], kernels: tuple[str, str] = ENTERED) -> dict[str, Any]:
    """Run the benchmarks of some parts in a folder of their own; nothing goes into the store.

    `kernels`: what 'kernel' compares (`tools.bench.kernels.kernel_of`).
    """
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="quic-lab-bench-") as folder:
        for part in parts:
            session = partial(Entries, names=kernels) if part == "kernel" else PARTS[part]
            session(app, console, Path(folder) / part, lines).run()
    return {"schema": 1, "benchmarks": lines}
