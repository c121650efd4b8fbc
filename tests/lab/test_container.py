"""The harness in a container: an image with ngtcp2 from a registry, by an ordinary user; through Docker's socket; refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples import ROOT
from tests.lab.conftest import CACHE, Harness
from tests.lab.test_registry import docker, place

__all__ = ["place"]

#: Its image comes and goes; and one test runs in real time.
pytestmark = pytest.mark.alone

SOCKET = "/var/run/docker.sock"
#: A user whom no file of the image belongs to.
USER = 4321


@pytest.fixture(scope="module")
def image(place: str) -> Iterator[str]:
    """The name of the image in the registry, from which it was pulled."""
    name = f"{place}/quic-lab-test/harness:1"
    build = subprocess.run(
        [sys.executable, "-m", "harness.cli", "images", "ngtcp2", "--container", name],
        capture_output=True, text=True, cwd=ROOT, timeout=600, check=False, env={**os.environ, "HARNESS_CACHE": str(CACHE)},
    )  # fmt: skip
    assert build.returncode == 0, build.stderr
    assert f"made {name}: " in build.stderr
    docker("push", "--quiet", name)
    # By all names that it has here, but for those that somebody else gave it.
    names = docker("image", "inspect", "--format", '{{join .RepoTags " "}}', name).split()
    docker("rmi", *(tag for tag in names if tag == name or tag.startswith("quic-lab/container:")))
    docker("pull", "--quiet", name)
    yield name
    docker("rmi", name)


@pytest.fixture(scope="module")
def cache() -> Iterator[str]:
    """A volume for what is unpacked, as `docker run --volume` names it."""
    volume = docker("volume", "create")
    yield f"{volume}:/cache"
    docker("volume", "rm", volume)


def tiny(harness: Harness) -> list[str]:
    harness.folder.chmod(0o777)
    name = Path(harness.scenario("tiny", flows=[{"download": "60 kB"}], milestones=["60 kB"])).name
    return ["run", name, "--clients", "ngtcp2", "--servers", "ngtcp2", "--repeat", "1", "--no-figures"]


def contained(image: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`docker run --rm WORDS`. IMAGE among them stands for the image."""
    command = ["docker", "run", "--rm", *(image if word == "IMAGE" else word for word in words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def only_run(store: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The only run of a store, and what was measured of it."""
    (file,) = store.glob("runs/*/0/run.json")
    return json.loads(file.read_text()), json.loads(file.with_name("measured.json").read_text())


def test_virtual_time_needs_no_socket_no_root_and_no_network_and_is_the_same_to_the_byte(
    harness: Harness, image: str, cache: str, tmp_path: Path
) -> None:
    words = tiny(harness)
    process = contained(
        image, "--user", str(USER), "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none",
        "--volume", cache, "--volume", f"{harness.folder}:/work", "--workdir", "/work", "IMAGE", *words,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "engine virtual" in process.stdout and "● measured" in process.stdout
    run, measured = only_run(harness.folder / "results")
    assert (harness.folder / "results" / "runs").stat().st_uid == USER

    alone = Harness(tmp_path / "alone")
    alone.folder.mkdir()
    here = subprocess.run(
        alone.command(words[0], str(harness.folder / words[1]), *words[2:], "--engine", "virtual"),
        capture_output=True, text=True, cwd=ROOT, timeout=300, check=False, env={**os.environ, "HARNESS_CACHE": str(CACHE)},
    )  # fmt: skip
    assert here.returncode == 0, here.stderr
    expected, expected_measured = only_run(alone.store)
    for name in ("captures", "trail", "random", "transfers", "contents", "outcome"):
        assert run[name] == expected[name], name
    assert run["cell"]["key"] == expected["cell"]["key"]
    assert run["commit"].rstrip("+") == expected["commit"].rstrip("+") != ""
    assert measured["measurements"] == expected_measured["measurements"]


def test_its_words_are_the_harness_s(image: str, cache: str) -> None:
    shown = contained(image, "IMAGE")
    assert "Usage: harness" in shown.stdout
    assert contained(image, "IMAGE", "--version").stdout.startswith("harness 0")
    wrong = contained(image, "IMAGE", "run", "no-such")
    assert wrong.returncode == 2
    assert "no folder is mounted at /results" in wrong.stderr
    # Without a daemon 'all' are those that it brings along.
    plan = contained(image, "--volume", cache, "IMAGE", "plan", "satellite/medium", "--repeat", "1")
    assert plan.returncode == 0 and "1 cells, 1 runs" in plan.stderr, plan.stderr


def test_results_belong_to_the_owner_of_their_folder(harness: Harness, image: str, cache: str) -> None:
    store = harness.folder / "mine"
    store.mkdir()
    os.chown(store, USER, USER)
    words = tiny(harness)
    process = contained(
        image, "--volume", cache, "--volume", f"{store}:/results",
        "--volume", f"{harness.folder / words[1]}:/{words[1]}:ro", "IMAGE", words[0], f"/{words[1]}", *words[2:],
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "no folder is mounted" not in process.stderr
    assert {path.stat().st_uid for path in store.rglob("*")} == {USER}


def test_real_time_through_the_socket(harness: Harness, image: str) -> None:
    here = str(harness.folder)
    words = tiny(harness)
    # What it has for itself alone is refused before anything starts.
    refused = contained(image, "--volume", f"{SOCKET}:{SOCKET}", "--volume", f"{here}:/results", "IMAGE", *words[:1],
                        "satellite/medium", *words[2:])  # fmt: skip
    assert refused.returncode == 3
    assert "the Docker daemon does not see /results, /cache, /tmp of this container by these paths" in refused.stderr
    assert '-v "$PWD:$PWD" -w "$PWD" -v /tmp:/tmp' in refused.stderr
    assert not list(harness.folder.glob("runs/*"))
    process = contained(
        image, "--pid", "host", "--cgroupns", "host", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup:ro",
        "--volume", f"{SOCKET}:{SOCKET}", "--volume", "/tmp:/tmp", "--volume", f"{here}:{here}", "--workdir", here,
        "IMAGE", *words,
    )  # fmt: skip
    assert process.returncode in (0, 3), process.stderr
    run, _ = only_run(harness.folder / "results")
    assert run["cell"]["engine"] == "compose"
    assert run["outcome"]["status"] == "completed", process.stderr
