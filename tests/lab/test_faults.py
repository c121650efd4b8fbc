"""Endpoints that misbehave: each is one cell's outcome with a reason, and the matrix goes on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.lab.conftest import Harness, Manifest, build_image, left_overs, local_image

pytestmark = pytest.mark.alone

FAULTS = [
    # fault, status, reason, words of the sentence or the log
    ("client-crash", "crashed", "client", "exit code 7"),
    ("server-crash", "crashed", "server", "exit code 7"),
    # By its own hand, which cannot be told from another's: the sentence says that it happened each time.
    ("client-suicide", "infrastructure", "client", "by itself if it happens each time"),
    ("client-refuse", "unsupported", "client", "does not support TESTCASE=http3"),
    ("server-refuse", "unsupported", "server", "does not support TESTCASE=http3"),
    ("server-hang", "crashed", "server", "Version Negotiation"),
    ("client-hang", "timed_out", "client", "did not finish within 3 s"),
    ("client-short", "wrong_file", "client", "99999 of 100000 bytes"),
    ("client-wrong", "wrong_file", "client", "byte 4711"),
]


def faulty_image(fault: str) -> str:
    """An endpoint with one fault."""
    return build_image(
        f"quic-lab-test/faulty:{fault}", Path(__file__).parent / "faulty",
        "--build-arg", f"ENDPOINT={local_image('ngtcp2')}", "--build-arg", f"FAULT={fault}",
    )  # fmt: skip


def check_fault(
    harness: Harness, manifest: Manifest, fault: str, status: str, role: str, words: str, *options: str
) -> None:
    """A fault is one cell's outcome with its reason, and the cell beside it is sound."""
    name = f"faulty-{fault}"
    file = manifest(name, faulty_image(fault), protocols=["h3"])
    short = harness.scenario("fault", flows=[{"download": "100 kB"}], milestones=["100 kB"], timeout="3 s")
    clients = f"{name},ngtcp2" if role == "client" else "ngtcp2"
    servers = f"{name},ngtcp2" if role == "server" else "ngtcp2"
    asked = ("--clients", clients, "--servers", servers, "--manifest", str(file), "--repeat", "1")
    cells = harness.cells(short, *asked, *options)
    broken, sound = (
        next(cell for cell in cells if (name in (cell["client"], cell["server"])) is value) for value in (True, False)
    )
    assert broken["outcomes"] == {status: 1}, broken["sentence"]
    assert sound["outcomes"] == {"completed": 1}
    run = json.loads((Path(broken["evidence"][0]) / "run.json").read_text())
    assert run["outcome"]["role"] == role
    assert words in broken["sentence"]


@pytest.mark.parametrize(("fault", "status", "role", "words"), FAULTS, ids=[item[0] for item in FAULTS])
def test_a_fault_is_one_outcome_and_the_matrix_goes_on(
    warm: Harness, harness: Harness, manifest: Manifest, fault: str, status: str, role: str, words: str
) -> None:
    check_fault(harness, manifest, fault, status, role, words)
    assert left_overs() == []


def test_the_last_words_of_a_crash_are_shown(warm: Harness, harness: Harness, manifest: Manifest) -> None:
    file = manifest("faulty", faulty_image("client-crash"), protocols=["h3"])
    process = harness.run(
        harness.scenario("fault"),
        "--clients",
        "faulty",
        "--servers",
        "ngtcp2",
        "--manifest",
        str(file),
        "--repeat",
        "1",
    )
    assert process.returncode == 1
    assert "the last words of the client" in process.stdout


def test_a_log_that_floods_ends_the_cell(
    warm: Harness, harness: Harness, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_LOG_LIMIT", "50 MB")
    file = manifest("flood", faulty_image("client-flood"), protocols=["h3"])
    cell = harness.cell(
        harness.scenario("fault"), "--clients", "flood", "--servers", "ngtcp2", "--manifest", str(file), "--repeat", "1"
    )
    assert cell["outcomes"] == {"log_overflow": 1}
    assert left_overs() == []


def test_an_image_nobody_has_is_said_with_what_to_do(harness: Harness, manifest: Manifest) -> None:
    file = manifest("nowhere", "quic-lab-test/there-is-no-such-image:1")
    process = harness.run(
        harness.scenario("fault"), "--clients", "nowhere", "--servers", "nowhere", "--manifest", str(file)
    )
    assert process.returncode == 3
    assert "could not be pulled" in process.stderr
    assert "hint:" in process.stderr


def test_a_daemon_that_is_not_there(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    process = harness.run(harness.scenario("fault"), "--clients", "ngtcp2", "--servers", "ngtcp2")
    assert process.returncode == 3
    assert "hint: start the Docker daemon" in process.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_that_is_full(warm: Harness, harness: Harness) -> None:
    harness.store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(harness.store)], check=True)
    try:
        process = harness.run(harness.scenario("full"), "--clients", "ngtcp2", "--servers", "ngtcp2", "--repeat", "1")
    finally:
        subprocess.run(["umount", str(harness.store)], check=True)
    assert process.returncode == 3
    assert "MB free" in process.stderr
    assert "hint: free space" in process.stderr
    assert left_overs() == []


def test_a_subnet_that_is_taken(warm: Harness, harness: Harness) -> None:
    subprocess.run(
        ["docker", "network", "create", "--subnet", "193.167.100.0/24", "qh-taken"], check=True, capture_output=True
    )
    try:
        process = harness.run(harness.scenario("fault"), "--clients", "ngtcp2", "--servers", "ngtcp2", "--repeat", "1")
    finally:
        subprocess.run(["docker", "network", "rm", "qh-taken"], check=True, capture_output=True)
    assert process.returncode == 3
    assert "193.167.x.0/24" in process.stderr
    assert left_overs() == []
