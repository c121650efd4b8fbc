"""Signals that end a command (Ctrl-C, a cancelled job, a closed terminal), and exit codes.

A running command cleans up first (KeyboardInterrupt). While modules are loaded and while the interpreter ends, there is
nothing to clean up: the process then ends at once, without a message.
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


# --- Exit codes:
#
# 0: all met or measured. 1: some verdict failed, or an image is not as recorded. 2: usage, or an invalid file.
# 3: infrastructure; also where a requested run failed through no fault of the lab, since it was not judged.
# 4: inconclusive, with --strict. 5: nothing to judge (no such store, no stored run that matches, nothing run).
# 6: everything is unsupported. With --expect those of 'git bisect run': 0, 1, 125 for what cannot be told, and 128,
# which ends it, for wrong words. 70: a fault of the harness itself. 130: interrupted.
# 141: the pipe that it prints to was closed (128 and SIGPIPE, as in shells).


MET, FAILED, USAGE, INFRASTRUCTURE, UNDECIDED, NOTHING, UNSUPPORTED = range(7)
FAULT, INTERRUPTED, CLOSED_PIPE = os.EX_SOFTWARE, 130, 141
#: For `git bisect run` (git-bisect(1)): this commit cannot be tested; and a code above 127, which ends the search.
BISECT_SKIP, BISECT_ABORT = 125, 128


def exit_code(results: Iterable[CellResult], *, strict: bool) -> int:
    """One exit code for all cells: that of the gravest result."""
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


def bisect_exit_code(results: Iterable[CellResult]) -> int:
    """The exit code for `git bisect run`: all cells met what was expected, one did not, or nothing decides it."""
    code = exit_code(results, strict=True)
    return code if code in (MET, FAILED) else BISECT_SKIP


# --- signals


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _exit_at_once(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def _handled_signals() -> list[signal.Signals]:
    # A signal that was ignored at the start (nohup) stays ignored.
    return [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


def _ignore() -> None:
    for number in _handled_signals():
        signal.signal(number, signal.SIG_IGN)


def install_exit_handlers() -> None:
    """From now on a signal ends this process at once, without a message. At exit, signals no longer change the code."""
    for number in _handled_signals():
        signal.signal(number, _exit_at_once)
    # At its end the interpreter restores default handlers, and a signal would kill it (CPython's signal_finalize). It
    # does not touch ignored signals. `_ignore` is called when all threads have ended.
    atexit.register(_ignore)


@contextlib.contextmanager
def raise_on_signal() -> Iterator[None]:
    """Within the context a signal raises KeyboardInterrupt. The former handlers are restored at its end.

    A library may catch it and raise an error of its own (pydantic does, while it builds a schema). Such an error
    becomes KeyboardInterrupt again. Errors of the harness and of the system pass: ending the command may cause them.
    """
    came = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in _handled_signals()}
    try:
        for number in before:
            signal.signal(number, interrupt)
        yield
    except Exception as error:
        # Here: this module heeds signals while everything else is loaded.
        from harness.errors import HarnessError

        if came and not isinstance(error, HarnessError | OSError):
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- Ctrl-C: the first one prints what is being ended, and cleans up; the second one kills.
#
# Nothing is left behind either way. What the second Ctrl-C leaves is removed by its owner's label, like the remains of
# a harness that died.


@contextlib.contextmanager
def handle_interrupts(waiting: Callable[[], None], end_hard: Callable[[], None]) -> Iterator[None]:
    """Within the context the first signal calls `waiting`, which prints what is being ended, and raises
    KeyboardInterrupt. A second one calls `end_hard` and ends this process.
    """
    count = 0

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count == 1:
            waiting()
            raise KeyboardInterrupt
        for ignored in SIGNALS:
            signal.signal(ignored, signal.SIG_IGN)
        try:
            end_hard()
        finally:
            # An ordinary exit would wait for threads that wait for the ended processes.
            os._exit(INTERRUPTED)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    # A signal that was ignored at the start (nohup) stays ignored.
    handled = [number for number in SIGNALS if before[number] != signal.SIG_IGN]
    for signum in handled:
        signal.signal(signum, hear)
    try:
        yield
    finally:
        for signum in handled:
            signal.signal(signum, before[signum])


def interrupted_exit() -> typer.Exit:
    """Print how to continue an interrupted command, whose finished runs are kept. Returns its exit."""
    # Here: this module heeds signals while everything else is loaded.
    import typer

    from harness.cli.consoles import console

    words = shlex.join(["harness", *(word for word in sys.argv[1:] if word != "--fresh")])
    # Not wrapped: people copy the line.
    console().print(f"interrupted; what finished is kept. Go on with:\n  {words}", soft_wrap=True, markup=False)
    return typer.Exit(INTERRUPTED)
