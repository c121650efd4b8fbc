"""What a stored run is held against before figures are drawn from it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.capture.artefacts import capture_digests
from harness.capture.files import ARCHIVE, CAPTURES
from harness.errors import ResultError
from harness.execution.runner import require_intact
from harness.outcome import Outcome, Run
from harness.store import provenance
from harness.store.compression import compress_artefacts
from tests.examples import cell


@pytest.fixture
def stored(tmp_path: Path) -> Run:
    for number, place in enumerate(CAPTURES.values()):
        (tmp_path / "sim" / place).parent.mkdir(exist_ok=True)
        (tmp_path / "sim" / place).write_bytes(bytes([number]) * 100)
    outcome = Outcome(status="completed")
    return Run(cell=cell(), repetition=0, outcome=outcome, started_at="", captures=capture_digests(tmp_path))


@pytest.mark.parametrize(
    "damage", [lambda file: file.write_bytes(bytes(50)), lambda file: file.unlink()], ids=["cut", "removed"]
)
def test_no_figures_are_drawn_from_a_capture_that_is_another_one(
    stored: Run, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    require_intact(tmp_path, stored)
    damage(tmp_path / "sim" / CAPTURES["right"])
    with pytest.raises(ResultError, match=r"trace_node_right.*(not what the run made|it is gone)"):
        require_intact(tmp_path, stored)


def test_a_run_that_lost_its_captures_keeps_what_was_measured(stored: Run, tmp_path: Path) -> None:
    for place in CAPTURES.values():
        (tmp_path / "sim" / place).unlink()
    with pytest.raises(ResultError, match="it is gone"):
        require_intact(tmp_path, stored)


@pytest.mark.parametrize("keep", [None, 60, 0])
def test_captures_that_were_compressed_are_those_of_the_run(stored: Run, tmp_path: Path, keep: int | None) -> None:
    compress_artefacts(tmp_path)
    archive = tmp_path / "sim" / ARCHIVE
    assert archive.is_file()
    assert not any((tmp_path / "sim" / place).exists() for place in CAPTURES.values())
    if keep is None:
        require_intact(tmp_path, stored)
        return
    archive.write_bytes(archive.read_bytes()[:keep])
    with pytest.raises(ResultError, match="capture"):
        require_intact(tmp_path, stored)


def test_a_processor_is_told_from_another_generation_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "processor : 0\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n\nprocessor : 1\nmodel : 9\n"
    monkeypatch.setattr(provenance, "_read_lines", lambda file: text.splitlines())
    assert provenance.cpu_model() == "AMD EPYC (family 25, model 1)"
    monkeypatch.setattr(provenance, "_read_lines", lambda file: ["model name : virtual"])
    assert provenance.cpu_model() == "virtual"
    monkeypatch.setattr(provenance, "_read_lines", lambda file: ["Hardware : a board"])
    assert provenance.cpu_model() == ""
