"""What ends a command from outside: Ctrl-C, a job that is cancelled, a terminal that is closed.

A command at work tears down in order (KeyboardInterrupt). Before anything has begun, while modules are loaded, and
after everything is done, while the interpreter ends, nothing is there to tear down: it ends at once and says nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

from harness.cli.exits import INTERRUPTED

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def _heeded() -> list[signal.Signals]:
    # Who started this with a signal ignored (nohup) wants it ignored.
    return [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


def _ignore() -> None:
    for number in _heeded():
        signal.signal(number, signal.SIG_IGN)


def end_at_once() -> None:
    """From now on a signal ends this process without a word, until it ends by itself: then with the code it has."""
    for number in _heeded():
        signal.signal(number, _end)
    # An interpreter that ends gives handlers back, and a signal would kill it (CPython's signal_finalize); what is
    # ignored it leaves so. This is called when all threads have ended.
    atexit.register(_ignore)


@contextlib.contextmanager
def ends_in_order() -> Iterator[None]:
    """Within it a signal raises KeyboardInterrupt; afterwards it does what it did before."""
    before = {number: signal.getsignal(number) for number in _heeded()}
    try:
        for number in before:
            signal.signal(number, signal.default_int_handler)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
