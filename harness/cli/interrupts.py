"""Ctrl-C: the first says at once what it waits for, and ends it in order; the second ends it hard.

Nothing is left behind either way: what the second Ctrl-C cuts short is removed by its owner's label, as that of a
harness that died would be by the next one.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import typer

from harness.cli.consoles import console
from harness.cli.exits import INTERRUPTED
from harness.cli.signals import SIGNALS


@contextlib.contextmanager
def heard(waiting: Callable[[], None], end_hard: Callable[[], None]) -> Iterator[None]:
    """Within it a first signal calls `waiting`, which says what is ended, and raises KeyboardInterrupt.

    A second one calls `end_hard` and ends this process.
    """
    count = 0

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count == 1:
            waiting()
            raise KeyboardInterrupt
        for one in SIGNALS:
            signal.signal(one, signal.SIG_IGN)
        try:
            end_hard()
        finally:
            # Threads that wait for what was ended would hold an ordinary exit back.
            os._exit(INTERRUPTED)

    before = {one: signal.getsignal(one) for one in SIGNALS}
    # Who started this with a signal ignored (nohup) wants it ignored.
    chosen = [one for one in SIGNALS if before[one] != signal.SIG_IGN]
    for one in chosen:
        signal.signal(one, hear)
    try:
        yield
    finally:
        for one in chosen:
            signal.signal(one, before[one])


def interrupted() -> typer.Exit:
    """Say how to go on with a command whose finished runs are kept; what it ends with."""
    words = shlex.join(["harness", *(word for word in sys.argv[1:] if word != "--fresh")])
    # Never folded: the line is there to be copied.
    console().print(f"interrupted; what finished is kept. Go on with:\n  {words}", soft_wrap=True, markup=False)
    return typer.Exit(INTERRUPTED)
