"""What befell containers from outside is told apart from their own ends, and from what the harness does to them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import pytest

from harness.engine.external_failures import ExternalEvents, exit_signal, shim_of
from tests.polling import wait_for

Event = tuple[str, dict[str, Any]]
DIED: Event = ("die", {"exitCode": "137"})
ENDED: Event = ("die", {"exitCode": "0"})
KILL: Event = ("kill", {"signal": "9"})
STOP: Event = ("kill", {"signal": "15"})


def _die_of(number: signal.Signals) -> None:
    """Die of a signal, whatever a test before has made of it."""
    if number is not signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _ended(end: Callable[[], object]) -> int:
    """A process that has ended so, and been reaped: what is left of it is the descriptor."""
    pid = os.fork()
    if pid == 0:
        end()
        os._exit(0)
    pidfd = os.pidfd_open(pid)
    select.select([pidfd], [], [])
    os.waitpid(pid, 0)
    return pidfd


def _exit_signal(end: Callable[[], object]) -> int | None:
    pidfd = _ended(end)
    try:
        return exit_signal(pidfd)
    finally:
        os.close(pidfd)


kernel_tells = pytest.mark.skipif(_exit_signal(lambda: None) is None, reason="this kernel does not tell (Linux 6.15)")


@kernel_tells
@pytest.mark.parametrize(
    ("end", "died"),
    [
        (lambda: _die_of(signal.SIGKILL), signal.SIGKILL),
        (lambda: os._exit(137), 0),
        (lambda: os._exit(0), 0),
        (lambda: _die_of(signal.SIGTERM), signal.SIGTERM),
    ],
    ids=["SIGKILL", "exit 137", "exit 0", "SIGTERM"],
)
def test_the_kernel_tells_a_kill_from_its_exit_code(end: Callable[[], object], died: int) -> None:
    assert _exit_signal(end) == died


def test_of_a_process_that_lives_nothing_is_told() -> None:
    pidfd = os.pidfd_open(os.getpid())
    assert exit_signal(pidfd) is None
    os.close(pidfd)


def _heard(monkeypatch: pytest.MonkeyPatch, *events: Event, kills: int = 0, limit: bool = False) -> ExternalEvents:
    """What was heard of client0, while so many processes were killed for memory."""
    answer = "true\n" if limit else "false\n"
    monkeypatch.setattr(
        "harness.engine.external_failures.docker", lambda *words, check: CompletedProcess(words, 0, answer, "")
    )
    counts = iter([5])
    external_events = ExternalEvents(lambda: next(counts, 5 + kills))
    for name, attributes in events:
        external_events.hear("client0", name, attributes)
    return external_events


@pytest.mark.parametrize(
    ("events", "kills", "limit", "reason", "words"),
    [
        ([DIED], 0, False, "killed", "a process of it was killed (SIGKILL): by somebody"),
        ([ENDED], 0, False, None, ""),
        ([("die", {"exitCode": "139"})], 1, False, None, ""),
        ([KILL, DIED], 0, False, "killed", "Docker was asked for SIGKILL"),
        ([STOP, KILL, DIED], 0, False, "killed", "SIGTERM, SIGKILL"),
        # Whoever heeds SIGTERM may say that all is well, with half a file.
        ([STOP, ENDED], 0, False, "killed", "SIGTERM"),
        ([KILL], 0, False, None, ""),
        ([DIED], 2, False, "out_of_memory", "killed 2 processes for want of memory: free memory"),
        ([DIED], 0, True, "out_of_memory", "--jobs"),
        ([("oom", {}), DIED], 0, False, "out_of_memory", "want of memory"),
        ([("pause", {})], 0, False, "paused", "docker pause"),
        ([KILL, DIED, ("start", {})], 0, False, None, ""),
    ],
)
def test_what_the_daemon_and_the_kernel_say(
    monkeypatch: pytest.MonkeyPatch, events: list[Event], kills: int, limit: bool, reason: str | None, words: str
) -> None:
    failure = _heard(monkeypatch, *events, kills=kills, limit=limit).befell("client0", "c-client0")
    assert (failure and failure.reason) == reason
    assert failure is None or words in failure.detail
    assert failure is None or "again" in failure.detail or "each time" in failure.detail


def test_what_the_harness_tells_to_end_befell_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    events = _heard(monkeypatch)
    events.tell("client0")
    for name, attributes in (STOP, KILL, DIED):
        events.hear("client0", name, attributes)
    assert events.befell("client0", "c-client0") is None


@kernel_tells
@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGKILL, "killed"), (signal.SIGTERM, None)], ids=["SIGKILL", "SIGTERM"]
)
def test_a_first_process_that_died_of_sigkill_was_killed_from_outside(
    monkeypatch: pytest.MonkeyPatch, number: int, reason: str | None
) -> None:
    """Without a word of the daemon's: by its number on the host."""
    events = _heard(monkeypatch)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pause()
    events.watch("client0", pid)
    events.watch("client0", pid)
    os.kill(pid, number)
    os.waitpid(pid, 0)
    events.hear("client0", "die", {"exitCode": str(128 + number)})
    failure = events.befell("client0", "c-client0")
    assert (failure and failure.reason) == reason
    events.close()


@kernel_tells
@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGKILL, "killed"), (None, None)], ids=["killed", "still there"]
)
def test_a_container_whose_shim_was_killed_did_not_crash(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals | None, reason: str | None
) -> None:
    """Docker says 255 of it, as of a program that says so itself."""
    words = ["containerd-shim-runc-v2", "-c", "import signal; signal.pause()", "-id", "c0ffee"]
    events = _heard(monkeypatch)
    with subprocess.Popen(words, executable=sys.executable) as shim:
        wait_for(lambda: shim_of("c0ffee") is not None)
        events.hear("client0", "start", {}, "c0ffee")
        if number is not None:
            shim.send_signal(number)
            shim.wait()
        events.hear("client0", "die", {"exitCode": "255"}, "c0ffee")
        failure = events.befell("client0", "c0ffee")
        shim.kill()
    assert (failure and failure.reason) == reason
    assert failure is None or "a signal to its containerd-shim" in failure.detail
    events.close()


def test_nothing_here_holds_a_container_that_is_not_here() -> None:
    assert shim_of("") is None
    assert shim_of("f00d" * 16) is None
