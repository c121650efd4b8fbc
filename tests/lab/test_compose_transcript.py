"""The compose engine held against itself in real time, and against one that was altered."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.repro.checkout import Checkout
from harness.repro.compose_transcript import differences, transcript
from tests.examples import ROOT
from tests.lab.conftest import CACHE, Harness

pytestmark = pytest.mark.alone


def test_the_same_engine_gives_the_same_files_and_commands_and_an_altered_one_does_not(
    warm: Harness, tmp_path: Path
) -> None:
    state = ROOT / ".state"
    here = Checkout(ROOT, state, CACHE)
    base = transcript(here, "pair", tmp_path / "base")
    assert differences(base, transcript(here, "pair", tmp_path / "again")) == ()
    assert {"compose.yaml", "cell.env", "lab.json", "plan/plan.json"} <= base.files.keys()
    assert {"run", "stop", "rm"} <= set(base.kinds)

    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True)
    altered = tmp_path / "checkout"
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, altered / name
        if source.is_file() and name.startswith(("harness/", "images/", "scenarios/", "results/equivalences")):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)
    file = altered / "harness/engines/launch.py"
    text = file.read_text()
    assert '"--log-driver"' in text
    file.write_text(text.replace('options += ["--log-driver"', 'options += ["--shm-size", "65m", "--log-driver"'))
    found = differences(base, transcript(Checkout(altered, state, CACHE), "pair", tmp_path / "altered"))
    assert found
    assert all("--shm-size 65m" in line for line in found if line.startswith("docker, of quic-lab-1-server0"))
    assert any(line.startswith("docker, of quic-lab-1-client0") for line in found)
