"""Whose a guest is: of a process here that lives or does not, or of a container whose processes are numbered otherwise."""

from __future__ import annotations

import pytest

from harness.engine import process_owner as module
from harness.engine.process_owner import lives, owner


def test_a_label_tells_whether_its_process_lives() -> None:
    pid, start, where = owner().split("-")
    assert lives(owner())
    assert not lives(f"{pid}-{int(start) + 1}-{where}") and not lives(f"{pid}-{start}-of0other0boot")


def test_nothing_of_another_container_is_taken_for_forsaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process has a number of its own there, which is nobody's here, or somebody else's."""
    machine = owner()
    monkeypatch.setattr(module, "_namespace", lambda: "n4026532001")
    inside = owner()
    assert lives(inside) and lives(machine) and not lives(f"999999-1-{module._boot()}n4026532001")
    monkeypatch.setattr(module, "_namespace", lambda: "n4026532002")
    assert lives(inside)


def test_a_process_that_this_user_may_not_see_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc may hide what belongs to others (hidepid)."""
    label = owner()
    monkeypatch.setattr(module, "_start_time", lambda pid: None)
    assert not lives(label)

    def refuse(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr("os.kill", refuse)
    assert lives(label)
