"""Reference runs made again: the same to the byte here, and where they part when a program differs by one byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.engine.images.file_manifest import entries
from harness.engine.images.rootfs_export import RootFileSystems, write_manifest
from tests.examples import ROOT
from tests.lab.conftest import Harness, local_image, own_cache

pytestmark = pytest.mark.usefixtures("work_on_every_core")
#: What ngtcp2's server calls itself in every response, and a word with a byte that HPACK's Huffman code makes longer (RFC 7541,
#: appendix B: 28 bits instead of 5), so that everything behind it comes later.
WORD, OTHER = b"nghttp3/ngtcp2", b"nghttp3/ngtcp\x7f"


def _harness(*words: str, cache: Path | None = None, module: str = "harness.cli") -> subprocess.CompletedProcess[str]:
    environment = os.environ if cache is None else {**os.environ, "HARNESS_CACHE": str(cache)}
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300, check=False,
    )  # fmt: skip


def _verified(reference: Path, *words: str, cache: Path | None = None) -> tuple[int, list[dict[str, Any]]]:
    process = _harness("verify", "--reference", str(reference), *words, "--json", cache=cache)
    assert process.stdout, process.stderr
    verified: list[dict[str, Any]] = json.loads(process.stdout)["verified"]
    return process.returncode, verified


def test_reference_runs_are_the_same_again_and_another_byte_shows(warm: Harness, harness: Harness) -> None:
    cells = harness.cells(
        harness.scenario("again"), "--clients", "ngtcp2", "--servers", "ngtcp2,quic-go,quiche", "--repeat", "1",
        "--engine", "virtual",
    )  # fmt: skip
    assert len(cells) == 3
    reference = harness.folder / "reference"
    process = _harness(
        "keep", harness.scenario("again"), "--store", str(harness.store), "--into", str(reference),
        module="tools.reference",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr

    code, verified = _verified(reference, "--sample", "3")
    assert code == 0
    assert [run["answer"] for run in verified] == ["identical"] * 3
    assert not any(run["bits"] or run["changed"] or run["other_files"] for run in verified)

    own = next(run["key"] for run in verified if run["server"] == "ngtcp2")
    cache = _altered(harness.folder / "cache")
    code, (altered,) = _verified(reference, own, cache=cache)
    assert code == 1
    assert altered["answer"] == "differs"
    assert 1 <= altered["packets"]["first"] <= altered["packets"]["last"]
    assert "gtlsserver" in " ".join(change["name"] for change in altered["changed"])
    assert altered["other_files"] == []


def _altered(folder: Path) -> Path:
    """A cache as this one's, but for a byte of ngtcp2's server."""
    cache = own_cache(folder, "ngtcp2")
    (program,) = cache.roots.glob("*/rootfs/usr/sbin/gtlsserver")
    content = program.read_bytes()
    assert WORD in content
    program.unlink()
    program.write_bytes(content.replace(WORD, OTHER))
    program.chmod(0o755)
    # As if the image were so.
    root = RootFileSystems(cache).known(local_image("ngtcp2"))
    assert root is not None
    write_manifest(root, entries(Path(root.rootfs)))
    return folder
