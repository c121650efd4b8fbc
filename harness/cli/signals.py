"""What ends a command from outside: Ctrl-C, a job that is cancelled, a terminal that is closed.

A command at work tears down in order (KeyboardInterrupt). Before anything has begun, while modules are loaded, and
after everything is done, while the interpreter ends, nothing is there to tear down: it ends at once and says nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from harness.evaluation.cell_result import CellResult


# --- Exit codes: 0 all met or measured, 1 some verdict failed or an image is not as recorded, 2 usage or invalid file,
# 3 infrastructure (a run that failed through nobody's fault counts, too: it was asked for, and is not among what was
# judged), 4 inconclusive with --strict, 5 nothing to judge (no such store, no stored run that matches, nothing run),
# 6 everything is unsupported, 70 a fault of the harness itself, 130 interrupted, 141 nobody reads on: the pipe that it
# prints to was closed (128 and SIGPIPE, as shells have it).


MET, FAILED, USAGE, INFRASTRUCTURE, UNDECIDED, NOTHING, UNSUPPORTED = range(7)
FAULT, INTERRUPTED, UNREAD = os.EX_SOFTWARE, 130, 141


def exit_code(results: Iterable[CellResult], *, strict: bool) -> int:
    """One exit code for all cells; the gravest wins. Never a count."""
    results = list(results)
    if not any(item.outcomes for item in results):
        return NOTHING
    if any("infrastructure" in item.outcomes for item in results):
        return INFRASTRUCTURE
    if any(item.verdict.status in ("fail", "error") for item in results):
        return FAILED
    if all(item.verdict.status == "unsupported" for item in results):
        return UNSUPPORTED
    if strict and any(item.verdict.status == "inconclusive" for item in results):
        return UNDECIDED
    return MET


# --- signals


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


# --- Ctrl-C: the first says at once what it waits for, and ends it in order; the second ends it hard.
#
# Nothing is left behind either way: what the second Ctrl-C cuts short is removed by its owner's label, as that of a
# harness that died would be by the next one.


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
    # Here: this module heeds signals while everything else is loaded.
    import typer

    from harness.cli.consoles import console

    words = shlex.join(["harness", *(word for word in sys.argv[1:] if word != "--fresh")])
    # Never folded: the line is there to be copied.
    console().print(f"interrupted; what finished is kept. Go on with:\n  {words}", soft_wrap=True, markup=False)
    return typer.Exit(INTERRUPTED)
