"""`harness images` with --check, --record and --sbom, over images that are said to be there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import main
from harness.cli.signals import FAILED, INFRASTRUCTURE, MET, USAGE
from harness.engine.images.build import RECORD, Build, ImageBuild
from harness.engine.images.components import Component, Composition
from harness.engine.images.record import ImageRecord
from harness.errors import EngineError
from harness.execution.image_inventory import ImageInventory

SSL = Component("deb", "libssl3t64", "3.5.4-1", "amd64", digest="a" * 64)
NOW = Composition((SSL,), {"/usr/local/bin/x": "c" * 64}, "3-0", "debian-13")


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that stands in for all recipes' folders: image → NAME/components.json."""
    builds = ImageInventory.builds

    def elsewhere(self: ImageInventory, *names: list[str]) -> dict[str, Build]:
        moved = {name: replace(build, folder=tmp_path / name) for name, build in builds(self, *names).items()}
        for name, build in moved.items():
            build.folder.mkdir(exist_ok=True)
            (build.folder / "Dockerfile").write_text(f"FROM {name}")
        return moved

    def make(self: ImageInventory, wanted: Mapping[str, Build], listen: object) -> dict[str, ImageBuild]:
        broken = EngineError("the image curl could not be built")
        return {
            name: ImageBuild(build.reference, 1, 0.1, True, broken if name == "curl" else None)
            for name, build in wanted.items()
        }

    monkeypatch.setattr(ImageInventory, "builds", elsewhere)
    monkeypatch.setattr(ImageInventory, "make_each", make)
    monkeypatch.setattr(ImageInventory, "unavailable", lambda self: {"h2o": "its repository does not answer"})
    monkeypatch.setattr("harness.engine.images.components.read_composition", lambda reference: NOW)
    monkeypatch.setattr("harness.engine.images.record.base_of", lambda build: "bootstrapped")
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    monkeypatch.setattr("sys.argv", ["harness", "images", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code or MET


def test_a_record_that_is_written_is_met_and_a_changed_one_is_not(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(monkeypatch, "quiche", "endpoint", "--check") == FAILED
    assert "endpoint: no record yet: 'harness images endpoint --record' writes it" in capsys.readouterr().out
    assert run(monkeypatch, "quiche", "endpoint", "--record", "--sbom", str(tmp_path / "sboms")) == MET
    assert sorted(file.name for file in (tmp_path / "sboms").iterdir()) == ["endpoint.cdx.json", "quiche.cdx.json"]
    assert capsys.readouterr().out == ""
    assert run(monkeypatch, "quiche", "endpoint", "--check") == MET
    assert capsys.readouterr().out == "endpoint: as recorded\nquiche: as recorded\n"
    former = ImageRecord("bootstrapped", replace(NOW, components=(replace(SSL, version="3.5.3-1"),)))
    (records / "quiche" / RECORD).write_text(former.text())
    assert run(monkeypatch, "quiche", "endpoint", "--check", "--json") == FAILED
    items = json.loads(capsys.readouterr().out)["images"]
    assert [item["differences"] for item in items] == [[], ["libssl3t64 3.5.3-1 → 3.5.4-1 (deb)"]]


def test_all_are_those_that_are_built_here(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # One cannot be built: that is graver than a difference, and the others are looked into all the same.
    assert run(monkeypatch, "--record") == INFRASTRUCTURE
    text = capsys.readouterr().err
    written = {file.parent.name for file in records.glob(f"*/{RECORD}")}
    assert {"endpoint", "go", "lab-kernel", "ns3", "probe", "quic-go", "rust", "sim"} <= written
    assert not written & {"curl", "h2o", "chrome", "quiche-qns"}
    assert "h2o: not built here: its repository does not answer" in text
    assert "the image curl could not be built" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("quiche-qns", "--check"), "quiche-qns is published: it has no recipe here"),
        (("quice", "--check"), "no implementation 'quice'"),
        (("--check", "--push", "localhost:5000"), "--push and --container go with none of --check"),
        (("--sbom", "x", "--container", "lab:1"), "--push and --container go with none of --check"),
        (("--record", "--json"), "--json goes with --check"),
    ],
)
def test_what_makes_no_sense_is_said(
    records: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    message: str,
) -> None:
    assert run(monkeypatch, *words) == USAGE
    assert message in capsys.readouterr().err


def test_the_library_of_sboms_is_imported_when_it_is_needed() -> None:
    import subprocess
    import sys

    text = "import sys, harness.cli.images, harness.execution, harness.engine.images.sbom; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert not {"cyclonedx", "packageurl"} & set(process.stdout.split())
