"""Who may use the machine beside whom."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.errors import EngineError
from harness.execution.locks import machine_lock
from harness.outcome import EngineName


@pytest.mark.parametrize(
    ("holder", "second_engine", "together"),
    [
        ("virtual", "virtual", True),
        ("virtual", "compose", False),
        ("compose", "virtual", False),
        ("compose", "compose", False),
    ],
)
def test_real_time_has_the_machine_to_itself(
    tmp_path: Path, holder: EngineName, second_engine: EngineName, together: bool
) -> None:
    file = tmp_path / "lock"
    locked, waits, done = threading.Event(), threading.Event(), threading.Event()

    def second() -> None:
        with machine_lock(second_engine, waits.set, file):
            locked.set()
            done.wait(10)

    thread = threading.Thread(target=second)
    with machine_lock(holder, _nobody, file):
        thread.start()
        if together:
            assert locked.wait(10)
        else:
            assert waits.wait(10)
            assert not locked.is_set()
    # What ended has let go, and who waited goes on.
    assert locked.wait(10)
    assert waits.is_set() is not together
    done.set()
    thread.join()


def _nobody() -> None:
    raise AssertionError("nobody has the machine")


def test_a_lock_that_cannot_be_had_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(EngineError, match=r"lock: No such file"),
        machine_lock("virtual", _nobody, tmp_path / "nowhere" / "lock"),
    ):
        pass


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_somebody_put_in_the_locks_place_is_not_followed_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "lock"
    if kind == "link":
        file.symlink_to(tmp_path / "victim")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    with pytest.raises(EngineError, match="lock: "), machine_lock("virtual", _nobody, file):
        pass
    assert not (tmp_path / "victim").exists()


def test_a_disk_without_locks_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(EngineError, match=r"lock: No locks available"),
        machine_lock("virtual", _nobody, tmp_path / "lock"),
    ):
        pass


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be several users")
def test_users_exclude_each_other_whoever_came_first_and_whatever_their_umask(tmp_path: Path) -> None:
    """As in /tmp: a folder that all share, in which nobody may remove another's file."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o001 == 0:
            folder.chmod(folder.stat().st_mode | 0o711)
    tmp_path.chmod(0o1777)
    file = tmp_path / "lock"
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from harness.execution.locks import machine_lock\n"
        "os.umask(0o077); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))\n"
        "with machine_lock('compose', lambda: print('waits', flush=True), Path(sys.argv[2])):\n"
        "    print('has it', flush=True)\n"
        "    sys.stdin.read()\n"
    )

    def user(number: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, str(number), str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    first = user(12345)
    assert first.stdout is not None and first.stdout.readline() == "has it\n"
    second = user(12346)
    assert second.stdout is not None and second.stdout.readline() == "waits\n"
    first.communicate()
    assert second.stdout.readline() == "has it\n"
    second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    # Root is no other.
    with machine_lock("compose", _nobody, file):
        pass
