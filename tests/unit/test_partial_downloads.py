"""What unfinished downloads leave in a run's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine.served_files import served_file
from harness.execution.runner import remove_partial_downloads
from harness.topology import build_lab
from harness.topology.spec import LabFile
from tests.examples import cell, scenario

MB = 10**6


def left(folder: Path, name: str, content: bytes, place: str = "downloads") -> Path:
    file = folder / "flow0" / place / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("count", [0, 1, 20 * MB, 30 * MB])
def test_the_beginning_of_the_served_file_goes(tmp_path: Path, count: int) -> None:
    lab = build_lab(cell(scenario(flows=[{"download": "30 MB"}], milestones=[], objectives=[])), 0)
    served = served_file(tmp_path / "www", LabFile(name="30MB.bin", size=30 * MB)).read_bytes()
    file = left(tmp_path, "30MB.bin.part", served[:count])
    assert remove_partial_downloads(lab, tmp_path) == {"flow0/downloads/30MB.bin.part": count}
    assert not file.exists()


@pytest.mark.parametrize("at", [0, 20 * MB - 1])
def test_what_differs_stays(tmp_path: Path, at: int) -> None:
    lab = build_lab(cell(scenario(flows=[{"download": "30 MB"}], milestones=[], objectives=[])), 0)
    content = bytearray(served_file(tmp_path / "www", LabFile(name="30MB.bin", size=30 * MB)).read_bytes()[: 20 * MB])
    content[at] ^= 1
    file = left(tmp_path, "30MB.bin", bytes(content))
    longer = left(tmp_path, "longer", bytes(31 * MB))
    assert remove_partial_downloads(lab, tmp_path) == {}
    assert file.exists() and longer.exists()


def test_of_several_files_each_is_held_against_its_own(tmp_path: Path) -> None:
    lab = build_lab(cell(scenario(flows=[{"files": [{"size": "1 MB", "count": 2}]}], milestones=[], objectives=[])), 0)
    lab_file, other = lab.flows[0].files
    first = served_file(tmp_path / "www", LabFile(name=lab_file.name, size=MB), 0).read_bytes()
    left(tmp_path, lab_file.name, first[:1000])
    left(tmp_path, other.name, first[:1000])
    assert remove_partial_downloads(lab, tmp_path) == {f"flow0/downloads/{lab_file.name}": 1000}


def test_what_nobody_served_is_left_alone(tmp_path: Path) -> None:
    lab = build_lab(cell(scenario(flows=[{"download": "1 MB"}], milestones=[], objectives=[])), 0)
    left(tmp_path, "keys.log", b"CLIENT", "client")
    (tmp_path / "flow0/downloads").mkdir()
    (tmp_path / "flow0/downloads/link").symlink_to(tmp_path / "flow0/client/keys.log")
    assert remove_partial_downloads(lab, tmp_path) == {}
    assert (tmp_path / "flow0/client/keys.log").exists()
