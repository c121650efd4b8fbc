"""Builds give way while a run in real time goes on, and are as before after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engines.build_group import builds_make_way


def group(folder: Path, name: str, idle: str | None) -> Path:
    made = folder / name
    made.mkdir()
    if idle is not None:
        (made / "cpu.idle").write_text(f"{idle}\n")
    return made


def test_a_group_is_idle_while_it_lasts(tmp_path: Path) -> None:
    ours, absent = group(tmp_path, "ours", "0"), tmp_path / "absent"
    with pytest.raises(RuntimeError), builds_make_way([absent, ours]):
        assert (ours / "cpu.idle").read_text().strip() == "1"
        raise RuntimeError
    assert (ours / "cpu.idle").read_text().strip() == "0"
    assert not absent.exists()


def test_a_group_that_somebody_made_idle_stays_so(tmp_path: Path) -> None:
    theirs = group(tmp_path, "theirs", "1")
    with builds_make_way([theirs]):
        pass
    assert (theirs / "cpu.idle").read_text().strip() == "1"


def test_a_kernel_without_idle_groups_and_a_group_that_goes_are_no_error(tmp_path: Path) -> None:
    old, going = group(tmp_path, "old", None), group(tmp_path, "going", "0")
    with builds_make_way([old, going]):
        (going / "cpu.idle").unlink()
        going.rmdir()
    assert not (old / "cpu.idle").exists()
