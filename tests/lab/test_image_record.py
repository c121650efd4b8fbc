"""What is in a real image, held against its record."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.engine.images.build import Build, Images
from harness.engine.images.components import read_composition
from harness.engine.images.contents import exported_contents
from harness.engine.images.record import ImageRecord, base_of, differences, read_record, write_record
from tests.examples import ROOT
from tests.lab.conftest import build_image

TAG = "quic-lab-test/altered-endpoint:1"


@pytest.fixture
def altered() -> Iterator[str]:
    yield TAG
    subprocess.run(["docker", "rmi", "--force", TAG], capture_output=True, check=False)


def test_an_altered_program_is_named(tmp_path: Path, altered: str) -> None:
    images = Images(ROOT / "images", ROOT / ".state")
    images.make(images.endpoint, lambda name, seconds: None)
    # The same recipe elsewhere is the same image, with a record or without.
    folder = shutil.copytree(images.endpoint.folder, tmp_path / "endpoint")
    build = Build("endpoint", folder, 20)
    assert build.reference == images.endpoint.reference
    now = ImageRecord(base_of(build), read_composition(build.reference))
    write_record(folder, now)
    assert Build("endpoint", folder, 20).reference == build.reference

    recorded = read_record(folder)
    assert recorded == now
    assert differences(recorded, ImageRecord(base_of(build), read_composition(build.reference))) == []
    names = {item.name for item in now.composition.components if item.kind == "deb" and item.digest}
    assert {"iproute2", "ethtool", "libc6"} <= names
    assert set(now.composition.files) == {"/run_program.sh", "/setup.sh", "/wait-for-sim"}
    assert now.composition.contents == exported_contents(build.reference).digest

    derived = tmp_path / "derived"
    derived.mkdir()
    shutil.copy(folder / "setup.sh", derived)
    with (derived / "setup.sh").open("a") as script:
        script.write("# altered\n")
    (derived / "Dockerfile").write_text(f"FROM {build.reference}\nCOPY --chmod=0755 setup.sh /\n")
    build_image(altered, derived)
    assert differences(recorded, ImageRecord(now.base, read_composition(altered))) == ["/setup.sh has other content"]
