"""Containers come first while a run in real time goes on, and everything is as before after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine.docker.host_jitter import SETTINGS, CgroupSetting, prioritize_runs


def setting(folder: Path, name: str, content: str | None) -> CgroupSetting:
    path = folder / name
    path.mkdir()
    if content is not None:
        (path / "cpu.shares").write_text(f"{content}\n")
    return CgroupSetting(path / "cpu.shares", "1024", "102400")


def value_of(cgroup_setting: CgroupSetting) -> str:
    return cgroup_setting.file.read_text().strip()


def test_a_group_is_told_while_it_lasts(tmp_path: Path) -> None:
    ours, absent = setting(tmp_path, "ours", "1024"), CgroupSetting(tmp_path / "absent/cpu.shares", "1024", "102400")
    with pytest.raises(RuntimeError), prioritize_runs([absent, ours]):
        assert value_of(ours) == "102400"
        raise RuntimeError
    assert value_of(ours) == "1024"
    assert not absent.file.parent.exists()


def test_what_somebody_else_has_set_is_left_alone(tmp_path: Path) -> None:
    theirs = setting(tmp_path, "theirs", "512")
    with prioritize_runs([theirs]):
        assert value_of(theirs) == "512"
    assert value_of(theirs) == "512"


def test_what_a_killed_harness_has_left_is_taken_back(tmp_path: Path) -> None:
    left = setting(tmp_path, "left", "102400")
    with prioritize_runs([left]):
        assert value_of(left) == "102400"
    assert value_of(left) == "1024"


def test_a_kernel_without_the_file_and_a_group_that_goes_are_no_error(tmp_path: Path) -> None:
    old, going = setting(tmp_path, "old", None), setting(tmp_path, "going", "1024")
    with prioritize_runs([old, going]):
        going.file.unlink()
        going.file.parent.rmdir()
    assert not old.file.exists()


def test_containers_gain_and_builds_lose(tmp_path: Path) -> None:
    for cgroup_setting in SETTINGS:
        usual, meanwhile = int(cgroup_setting.default), int(cgroup_setting.during_run)
        assert (usual, meanwhile) == (0, 1) if cgroup_setting.file.name == "cpu.idle" else meanwhile == 100 * usual
