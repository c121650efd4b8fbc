"""Images from a registry, pulled by the identity of their recipes: Debian's docker-registry on this machine's loopback."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.engine.images.registry import SBOM_LABEL, SEAL_LABEL, Registry, origin_of
from harness.errors import EngineError
from tests.examples import ROOT
from tests.lab.conftest import CACHE, Harness, build_image, local_image
from tests.polling import wait_for

pytestmark = pytest.mark.alone

HERE = Path(__file__).parent / "registry"


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    image = build_image("quic-lab-test/registry:1", HERE)
    container = docker("run", "--detach", "--rm", "--publish", "127.0.0.1::5000", image)
    try:
        port = docker("port", container, "5000/tcp").rpartition(":")[2]

        def answers() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=1) as response:
                    return bool(response.status == 200)
            except OSError:
                return False

        wait_for(answers)
        yield f"127.0.0.1:{port}"
    finally:
        docker("rm", "--force", container)


def images(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", "images", *words],
        capture_output=True, text=True, cwd=ROOT, timeout=600, check=False, env={**os.environ, "HARNESS_CACHE": str(CACHE)},
    )  # fmt: skip


def test_an_image_goes_to_a_registry_and_comes_back_instead_of_being_built(
    warm: Harness, harness: Harness, place: str
) -> None:
    reference = local_image("curl")
    pushed = images("curl", "--push", place)
    assert pushed.returncode == 0, pushed.stderr
    assert f"pushed {place}/{reference}" in pushed.stderr
    kept = docker("image", "inspect", "--format", "{{.Id}}", reference)
    docker("tag", reference, "quic-lab-test/kept:1")
    docker("rmi", reference)
    try:
        back = images("curl", "--from", place)
        assert back.returncode == 0, back.stderr
        assert "making the image curl" not in back.stderr
        assert origin_of(reference, place).startswith(f"{place}/quic-lab/curl@sha256:")
        # Runs say where it came from.
        case = harness.scenario("from-a-registry", flows=[{"download": "100 kB"}], milestones=["100 kB"])
        process = subprocess.run(
            harness.command("run", case, "--clients", "curl", "--servers", "quic-go", "--engine", "virtual"),
            capture_output=True, text=True, cwd=ROOT, timeout=600, check=False,
            env={**os.environ, "HARNESS_REGISTRY": place},
        )  # fmt: skip
        (file,) = harness.store.glob("runs/*/0/run.json")
        run = json.loads(file.read_text())
        assert run["outcome"]["status"] == "completed", process.stderr
        assert run["host"]["images_from"] == {"client0": origin_of(reference, place)}
    finally:
        docker("tag", kept, reference)


def test_what_was_altered_is_refused_by_name(warm: Harness, place: str, tmp_path: Path) -> None:
    registry, reference = Registry(place), local_image("curl")
    identity = "0" * 32
    name = registry.push(reference, identity)
    assert registry.pull("quic-lab-test/never-pushed:1", identity) is False
    docker("pull", "--quiet", name)
    labels = json.loads(docker("image", "inspect", "--format", "{{json .Config.Labels}}", name))
    for change in ("RUN echo altered >>/run_endpoint.sh", "ENV LD_PRELOAD=/tmp/mine.so"):
        (tmp_path / "Dockerfile").write_text(f"FROM {name}\n{change}\n")
        altered = build_image("quic-lab-test/altered:1", tmp_path, "--label", f"{SEAL_LABEL}={labels[SEAL_LABEL]}")
        docker("tag", altered, name)
        docker("push", "--quiet", name)
        docker("rmi", name)
        with pytest.raises(EngineError, match=r"curl:.* was refused: its files are not those"):
            registry.pull(reference, identity)
    with pytest.raises(EngineError, match="was refused: it says that it is of the recipe"):
        registry.pull(reference, "1" * 32)
    # Nothing of it stays under its name there.
    assert docker("images", "--quiet", name) == ""


def test_its_sbom_goes_along(place: str, tmp_path: Path) -> None:
    registry, reference = Registry(place), local_image("curl")
    name = registry.push(reference, "0" * 32)
    docker("pull", "--quiet", f"{name}-sbom")
    container = docker("create", f"{name}-sbom")
    try:
        docker("cp", f"{container}:/sbom.cdx.json", str(tmp_path))
        # As docs/use.md says.
        printed = subprocess.run(
            f"docker cp {container}:/sbom.cdx.json - | tar -xO", shell=True, check=True, capture_output=True
        ).stdout
    finally:
        docker("rm", container)
        docker("rmi", f"{name}-sbom")
    sbom = (tmp_path / "sbom.cdx.json").read_bytes()
    assert printed == sbom
    assert json.loads(sbom)["metadata"]["component"]["name"] == "quic-lab/curl"
    assert any(item["name"] == "curl" for item in json.loads(sbom)["components"])
    # Labels are not sealed: the image is taken as any.
    docker("tag", reference, "quic-lab-test/kept:1")
    try:
        assert registry.pull(reference, "0" * 32) is True
        labels = json.loads(docker("image", "inspect", "--format", "{{json .Config.Labels}}", f"{place}/{reference}"))
        assert labels[SBOM_LABEL] == hashlib.sha256(sbom).hexdigest()
    finally:
        docker("tag", "quic-lab-test/kept:1", reference)
        docker("rmi", "quic-lab-test/kept:1", f"{place}/{reference}")


def test_a_registry_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(EngineError, match=r"pulling 127\.0\.0\.1:9/"):
        Registry("127.0.0.1:9").pull("quic-lab/curl:1", "0")
