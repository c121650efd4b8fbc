"""What the sampler does where its files cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine.docker.sampler import Sampler
from harness.errors import EngineError


def test_a_full_disk_costs_the_run_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "waits.csv").symlink_to("/dev/full")
    sampler = Sampler(tmp_path, 1 << 30)
    sampler.start()
    sampler.stop()
    with pytest.raises(EngineError, match="disk is full"):
        sampler.require_written()


def test_what_was_written_is_enough(tmp_path: Path) -> None:
    sampler = Sampler(tmp_path, 1 << 30)
    sampler.start()
    sampler.stop()
    sampler.require_written()
    assert (tmp_path / "growth.csv").read_text() == "t_ns,flow,transfer,bytes\n"
