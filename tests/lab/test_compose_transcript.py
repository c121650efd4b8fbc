"""The compose engine held against itself in real time, and against one that was altered."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.repro.checkout import Checkout
from harness.repro.compose_transcript import MEASURED, SHARED_RESOURCES, differences, transcript
from harness.store.provenance import copy_tracked_files
from tests.examples import ROOT
from tests.lab.conftest import CACHE, Harness, left_overs

pytestmark = pytest.mark.alone
STATE = ROOT / ".state"
#: File → (what is in it, what is put in its place).
ALTERATIONS = {
    "harness/engine/docker/containers.py": ('_GRACE = "2"', '_GRACE = "3"'),
    "harness/engine/confinement.py": (
        'PERSISTENT_SIMULATOR = ("DAC_OVERRIDE", ',
        'PERSISTENT_SIMULATOR = ("CHOWN", "DAC_OVERRIDE", ',
    ),
}


def _altered_checkout(folder: Path) -> Checkout:
    copy_tracked_files(ROOT, folder, ":!results/reference")
    for name, (old, new) in ALTERATIONS.items():
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))
    return Checkout(folder, STATE, CACHE)


def test_the_same_engine_gives_the_same_files_and_commands_and_an_altered_one_does_not(
    warm: Harness, tmp_path: Path
) -> None:
    checkout = Checkout(ROOT, STATE, CACHE)
    base = transcript(checkout, "pair", tmp_path / "base")
    assert differences(base, transcript(checkout, "pair", tmp_path / "again")) == ()
    inputs = {"compose.yaml", "cell.env", "lab.json", "plan/plan.json", "standing/compose.yaml", "standing/variables"}
    assert inputs == {place for place, text in base.files.items() if text != MEASURED} - {"standing/sim/plan.json"}
    assert base.changes.keys() == {SHARED_RESOURCES, "quic-lab-1-client0", "quic-lab-1-server0"}

    altered = transcript(_altered_checkout(tmp_path / "checkout"), "pair", tmp_path / "altered")
    compose, stop = differences(base, altered)
    assert compose.startswith("standing/compose.yaml, line ") and "- CHOWN" in compose
    assert stop == (
        "docker, quic-lab-1-server0, command 3: 'stop --time 2 quic-lab-1-server0' before, "
        "'stop --time 3 quic-lab-1-server0' now"
    )
    assert left_overs() == []
