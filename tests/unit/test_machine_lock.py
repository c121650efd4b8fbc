"""Who may use the machine beside whom."""

from __future__ import annotations

import errno
import fcntl
import threading
from pathlib import Path

import pytest

from harness.errors import EngineError
from harness.execution.locks import machine_lock
from harness.outcome import EngineName


@pytest.mark.parametrize(
    ("holder", "other", "together"),
    [
        ("virtual", "virtual", True),
        ("virtual", "compose", False),
        ("compose", "virtual", False),
        ("compose", "compose", False),
    ],
)
def test_real_time_has_the_machine_to_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, holder: EngineName, other: EngineName, together: bool
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    event, said, done = threading.Event(), threading.Event(), threading.Event()

    def second() -> None:
        with machine_lock(other, said.set):
            event.set()
            done.wait(10)

    thread = threading.Thread(target=second)
    with machine_lock(holder, _nobody):
        thread.start()
        if together:
            assert event.wait(10)
        else:
            assert said.wait(10)
            assert not event.is_set()
    # What ended has let go, and who waited goes on.
    assert event.wait(10)
    assert said.is_set() is not together
    done.set()
    thread.join()


def _nobody() -> None:
    raise AssertionError("nobody has the machine")


def test_a_lock_that_cannot_be_had_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(EngineError, match=r"quic-lab\.lock: No such file"), machine_lock("virtual", _nobody):
        pass


def test_a_disk_without_locks_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(EngineError, match=r"quic-lab\.lock: No locks available"), machine_lock("virtual", _nobody):
        pass
