"""The harness in a container: which container it is in, what the image has of a checkout, which engine and store it takes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from harness.cli.environment import store_folder
from harness.engine import docker_cli
from harness.engine.docker_cli import container_id, require_visible
from harness.engine.images.cache import Cache
from harness.errors import EngineError
from harness.execution.cluster.image_transfer import PARCEL_INDEX, PackedImages
from harness.execution.image_inventory import PACKED
from tests.examples import ROOT

OWN = "0f" * 32


def test_a_container_is_known_by_what_docker_mounts_into_it() -> None:
    mounts = (
        "1 0 0:50 / / rw - overlay overlay rw\n"
        f"2 1 254:0 /var/lib/docker/containers/{OWN}/resolv.conf /etc/resolv.conf rw - ext4 /dev/vda rw\n"
        f"3 1 254:0 /var/lib/docker/containers/{OWN}/hostname /etc/hostname rw - ext4 /dev/vda rw\n"
    )
    assert container_id(mounts) == OWN
    assert container_id("1 0 254:0 / / rw - ext4 /dev/vda rw\n") == ""


class Docker:
    """Answers `docker inspect`, and `docker run` where the daemon sees all folders."""

    def __init__(self, sees: bool) -> None:
        self.sees = sees
        self.words: list[tuple[str, ...]] = []

    def __call__(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        self.words.append(words)
        if words[0] == "inspect":
            return subprocess.CompletedProcess(words, 0, "sha256:1234\n", "")
        for folder in (word for word in words if word.startswith("type=bind,")):
            source = Path(folder.removeprefix("type=bind,source=").partition(",")[0])
            assert next(file.name for file in source.iterdir()).startswith(".quic-lab.")
        return subprocess.CompletedProcess(words, 0 if self.sees else 1, "", "")


def test_folders_that_the_daemon_does_not_see_are_named_with_the_options_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, cache = tmp_path / "results", tmp_path / "cache"
    monkeypatch.setattr(docker_cli, "docker", daemon := Docker(sees=False))
    require_visible([store, cache])
    assert daemon.words == [], "outside of a container nothing is asked"
    monkeypatch.setenv("HARNESS_CONTAINER", "yes")
    with pytest.raises(EngineError, match=f"does not see {store}, {cache} of this container") as caught:
        require_visible([store, cache])
    assert '-v "$PWD:$PWD" -w "$PWD"' in caught.value.hint
    monkeypatch.setattr(docker_cli, "docker", daemon := Docker(sees=True))
    require_visible([store, cache])
    assert daemon.words[1][-7:-1] == ("test", "sha256:1234", "-e", daemon.words[1][-4], "-a", "-e")
    assert list(store.iterdir()) == list(cache.iterdir()) == []


def test_the_image_has_what_the_package_reads_of_a_checkout_and_no_more() -> None:
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--", *PACKED], capture_output=True, text=True, check=True
    )
    files = listing.stdout.split()
    assert {path.partition("/")[0] for path in files} == {
        "harness", "images", "scenarios", "studies", "results", "pyproject.toml", "requirements.lock"
    }  # fmt: skip
    needed = ("results/equivalences.yaml", "results/reference/runs.parquet", "scenarios/satellite/medium.yaml")
    assert set(needed) < set(files)
    assert not [path for path in files if path.startswith("results/former")]


def test_images_that_a_container_brings_along_are_those_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HARNESS_PARCELS", raising=False)
    assert PackedImages(Cache(tmp_path / "cache")).references == frozenset()
    assert PackedImages(Cache(tmp_path / "cache")).unpack("quic-lab/x:1") is False
    image = {"reference": "quic-lab/x:1", "id": "sha256:12", "identity": "12", "command": ["/x"], "environment": [],
             "working_dir": "/", "user": "", "stop_signal": 15, "parcel": "ab"}  # fmt: skip
    (tmp_path / PARCEL_INDEX).write_text(json.dumps([image]))
    monkeypatch.setenv("HARNESS_PARCELS", str(tmp_path))
    packed = PackedImages(Cache(tmp_path / "cache"))
    assert packed.references == {"quic-lab/x:1"}
    assert packed.unpack("quic-lab/y:1") is False
    with pytest.raises(EngineError, match=r"the image quic-lab/x:1 did not arrive: .*/ab\.parcel"):
        packed.unpack("quic-lab/x:1")


def test_the_store_is_the_environment_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_STORE", raising=False)
    assert store_folder("checks") == ROOT / "results" / "checks"
    monkeypatch.setenv("HARNESS_STORE", "/elsewhere")
    assert store_folder() == Path("/elsewhere")


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """The script that starts the container, in a folder of its own, with a harness that prints its environment."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("harness", 'echo "$HARNESS_ENGINE $HARNESS_STORE $HARNESS_CACHE"'), ("mountpoint", "exit 1")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    script = tmp_path / "entry.sh"
    text = (ROOT / "images" / "container" / "entry.sh").read_text()
    script.write_text(
        text.replace("/opt/quic-lab/commit", "/dev/null").replace("/var/run/docker.sock", f"{tmp_path}/sock")
    )
    return script


@pytest.mark.parametrize(
    ("folder", "environment", "expected"),
    [
        ("/", {}, "virtual /results /cache"),
        ("/usr", {}, "virtual /usr/results /cache"),
        ("/", {"DOCKER_HOST": "tcp://127.0.0.1:1"}, "compose /results /cache"),
        ("/usr", {"DOCKER_HOST": "tcp://127.0.0.1:1"}, "compose /usr/results /usr/.cache"),
        ("/usr", {"HARNESS_ENGINE": "virtual", "HARNESS_STORE": "/etc"}, "virtual /etc /cache"),
        ("/", {"HARNESS_CACHE": "/etc"}, "virtual /results /etc"),
    ],
)
def test_a_container_takes_engine_and_folders_by_what_it_is_given(
    entry: Path, folder: str, environment: dict[str, str], expected: str
) -> None:
    words = {name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "DOCKER_"))}
    path = f"{entry.parent / 'bin'}:{os.environ['PATH']}"
    process = subprocess.run(
        ["sh", str(entry), "run"], cwd=folder, env={**words, "PATH": path, **environment}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert process.stdout.strip() == expected
    assert ("no folder is mounted at /results" in process.stderr) == (" /results " in expected)
