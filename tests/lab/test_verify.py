"""Reference runs made again: the same to the byte here, and where they part when a program differs by one byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.engines.rootfs import RootFileSystems
from tests.examples import ROOT
from tests.lab.conftest import Harness

pytestmark = pytest.mark.usefixtures("work_on_every_core")
#: What ngtcp2's server calls itself in every response, and a word with a byte that HPACK's Huffman code makes longer (RFC 7541,
#: appendix B: 28 bits instead of 5), so that everything behind it comes later.
WORD, OTHER = b"nghttp3/ngtcp2", b"nghttp3/ngtcp\x7f"


def _harness(*words: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ if cache is None else {**os.environ, "HARNESS_CACHE": str(cache)}
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", *words],
        capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300, check=False,
    )  # fmt: skip


def _verified(reference: Path, *words: str, cache: Path | None = None) -> tuple[int, list[dict[str, Any]]]:
    done = _harness("verify", "--reference", str(reference), *words, "--json", cache=cache)
    assert done.stdout, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["verified"]
    return done.returncode, found


def test_reference_runs_are_the_same_again_and_another_byte_shows(warm: Harness, harness: Harness) -> None:
    cells = harness.cells(
        harness.scenario("again"), "--clients", "ngtcp2", "--servers", "ngtcp2,quic-go,quiche", "--repeat", "1",
        "--engine", "virtual",
    )  # fmt: skip
    assert len(cells) == 3
    reference = harness.folder / "reference"
    kept = _harness("keep", harness.scenario("again"), "--store", str(harness.store), "--into", str(reference))
    assert kept.returncode == 0, kept.stderr

    code, found = _verified(reference, "--sample", "3")
    assert code == 0
    assert [one["answer"] for one in found] == ["identical"] * 3
    assert not any(one["bits"] or one["changed"] or one["other_files"] for one in found)

    own = next(one["key"] for one in found if one["server"] == "ngtcp2")
    cache = _altered(harness.folder / "cache")
    code, (altered,) = _verified(reference, own, cache=cache)
    assert code == 1
    assert altered["answer"] == "differs"
    assert 1 <= altered["packets"]["first"] <= altered["packets"]["last"]
    assert "gtlsserver" in " ".join(change["name"] for change in altered["changed"])
    assert altered["other_files"] == []


def _altered(cache: Path) -> Path:
    """A cache as this one's, but for a byte of ngtcp2's server."""
    here = Path(os.environ.get("HARNESS_CACHE") or ROOT / ".cache")
    known = RootFileSystems(here).known
    # What is exported under the names of today's images; certificates and served files are made anew.
    folders = {Path(found.rootfs).parent for found in map(known, _references()) if found is not None}
    for folder in folders:
        shutil.copytree(folder, cache / "rootfs" / folder.name, symlinks=True, copy_function=os.link)
        described = json.loads((folder / "image.json").read_text())
        described["rootfs"] = str(cache / "rootfs" / folder.name / "rootfs")
        (cache / "rootfs" / folder.name / "image.json").unlink()
        (cache / "rootfs" / folder.name / "image.json").write_text(json.dumps(described))
    changed = 0
    for program in cache.glob("rootfs/*/rootfs/usr/sbin/gtlsserver"):
        content = program.read_bytes()
        if WORD in content:
            program.unlink()
            program.write_bytes(content.replace(WORD, OTHER))
            program.chmod(0o755)
            changed += 1
    assert changed == 1
    return cache


def _references() -> list[str]:
    from harness.app import App, Places

    app = App(Places(ROOT, ROOT / "results", ROOT / ".state", ROOT / ".cache"))
    known = app.catalogue.implementations()
    return [
        app.images.sim("lab").reference,
        app.inventory.image_of(known["ngtcp2"][0], lambda event: None, pull=False).reference,
    ]
