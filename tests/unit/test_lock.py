"""Who may use the machine beside whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.app.lock import machine_lock
from harness.errors import EngineError
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
    with machine_lock(holder):
        if together:
            with machine_lock(other):
                pass
        else:
            with pytest.raises(EngineError, match="another harness is running"), machine_lock(other):
                pass
    # What ended has let go.
    with machine_lock(other):
        pass


def test_a_lock_that_cannot_be_had_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(EngineError, match=r"quic-lab\.lock: No such file"), machine_lock("virtual"):
        pass
