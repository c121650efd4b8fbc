"""Processes that wait for one which is no more, in the place of lab kernels."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from harness.engines.bereft import bereft, look
from harness.engines.guest import OWNER_VARIABLE
from harness.engines.owner import owner

#: A child ends, and is seen to have ended, but not reaped.
LOSES = "import os, time\nif not os.fork():\n    os._exit(0)\nos.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)\n"
BEREFT = f"{LOSES}print(flush=True)\ntime.sleep(600)"
BUSY = f"{LOSES}print(flush=True)\nwhile True:\n    pass"
WELL = f"{LOSES}os.wait()\nprint(flush=True)\ntime.sleep(600)"

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
        process.kill()
        process.communicate()


def _found(guest: int) -> bool:
    """Whether a guest is found that is about to fall asleep."""
    deadline = time.monotonic() + 60
    while guest not in bereft() and time.monotonic() < deadline:
        time.sleep(0.02)
    return guest in bereft()


def test_a_guest_that_waits_for_a_dead_process_is_ended_at_the_second_look(start: Start) -> None:
    guest = start(BEREFT, owner())
    assert _found(guest.pid)
    first = look({})
    assert guest.poll() is None
    assert len(first[guest.pid]) == 1
    look(first)
    assert guest.wait(60) == -signal.SIGKILL
    assert guest.pid not in bereft()


def test_a_guest_that_had_lost_another_process_before_is_left_alone(start: Start) -> None:
    guest = start(BEREFT, owner())
    assert _found(guest.pid)
    look({guest.pid: frozenset({1})})
    assert guest.poll() is None


@pytest.mark.parametrize(
    ("program", "label"), [(BUSY, ""), (WELL, ""), (BEREFT, "1-1-0")], ids=["computes", "reaps", "somebody else's"]
)
def test_others_are_left_alone(start: Start, program: str, label: str) -> None:
    guest = start(program, label or owner())
    for _ in range(20):
        assert guest.pid not in bereft()
        time.sleep(0.01)
