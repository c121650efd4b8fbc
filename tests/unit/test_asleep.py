"""Guests that sleep for good, with other programs in the place of lab kernels."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from harness.engines.asleep import LONGEST, PAUSE, Looks, sleepers
from harness.engines.guest import OWNER_VARIABLE
from harness.engines.owner import owner

#: One that has lost a child, and one whose child goes on.
SLEEPS = "import os, time\nif not os.fork():\n    os._exit(0)\nprint(flush=True)\ntime.sleep(600)"
BUSY = (
    "import os, time\nif not os.fork():\n    while os.getppid() != 1:\n        pass\nprint(flush=True)\ntime.sleep(600)"
)

Start = Callable[[str, str], subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    begun = []

    def started(program: str, label: str) -> subprocess.Popen[bytes]:
        """As a guest of `label`; when it has come to its last line."""
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", program],
            env={**os.environ, OWNER_VARIABLE: label},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline()
        return process

    yield started
    for process in begun:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _found(guest: int) -> bool:
    """Whether a guest is found that is about to fall asleep."""
    deadline = time.monotonic() + 60
    while guest not in sleepers() and time.monotonic() < deadline:
        time.sleep(0.02)
    return guest in sleepers()


def test_who_sleeps_for_long_enough_is_ended(start: Start) -> None:
    guest = start(SLEEPS, owner())
    assert _found(guest.pid)
    looks = Looks()
    looks.look(sleepers(), 0)
    looks.look(sleepers(), LONGEST - PAUSE)
    assert guest.poll() is None
    looks.look(sleepers(), LONGEST)
    # No other signal: it would have to be handled.
    ended = os.waitid(os.P_PID, guest.pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    assert ended.si_status == signal.SIGKILL


@pytest.mark.parametrize(("program", "label"), [(BUSY, ""), (SLEEPS, "1-1-0")], ids=["computes", "somebody else's"])
def test_others_are_left_alone(start: Start, program: str, label: str) -> None:
    guest = start(program, label or owner())
    for _ in range(20):
        assert guest.pid not in sleepers()
        time.sleep(0.01)


def test_who_was_stopped_is_not_asleep(start: Start) -> None:
    guest = start(SLEEPS, owner())
    os.kill(guest.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, guest.pid, os.WSTOPPED | os.WNOWAIT)
    assert guest.pid not in sleepers()


def test_who_computed_meanwhile_or_was_awake_once_sleeps_anew() -> None:
    ended: list[int] = []
    looks = Looks(lambda guest, number: ended.append(guest))
    resting, moving = frozenset({(8, 100)}), frozenset({(9, 100)})
    looks.look({8: resting, 9: moving}, 0)
    looks.look({8: resting, 9: frozenset({(9, 101)})}, LONGEST / 2)
    looks.look({8: resting}, LONGEST - 1)
    looks.look({9: frozenset({(9, 101)})}, LONGEST)
    assert ended == []
    looks.look({8: resting, 9: frozenset({(9, 101)})}, LONGEST + 1)
    looks.look({8: resting, 9: frozenset({(9, 101)})}, 2 * LONGEST)
    assert ended == [9]


def test_a_guest_that_is_gone_already_is_none_of_ours() -> None:
    def gone(guest: int, number: int) -> None:
        raise ProcessLookupError

    looks = Looks(gone)
    looks.look({8: frozenset()}, 0)
    looks.look({8: frozenset()}, LONGEST)
