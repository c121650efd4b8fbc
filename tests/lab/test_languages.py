"""Unmodified QUIC programs of other makes in virtual time: Python's event loop, and tokio's threads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.lab.conftest import Harness, Manifest, local_image

LANGUAGES = Path(__file__).parent / "languages"
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
PROGRAMS = ("python", "tokio")
#: client → server
PAIRS = [("python", "python"), ("tokio", "tokio"), ("python", "quic-go")]


@pytest.fixture(scope="session")
def programs(warm: Harness) -> dict[str, str]:
    """Program → image."""
    return {name: _image(name) for name in PROGRAMS}


def _image(program: str) -> str:
    tag = f"quic-lab-test/languages:{program}"
    secret = ["--secret", f"id=ca,src={CA_BUNDLE}"] if CA_BUNDLE.exists() else []
    done = subprocess.run(
        ["docker", "buildx", "build", "--load", "--progress", "plain", "--label", "org.quic-lab.image=1", *secret,
         "--build-arg", f"ENDPOINT={local_image('endpoint')}", "--tag", tag,
         "--file", str(LANGUAGES / program / "Dockerfile"), str(LANGUAGES)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return tag


@pytest.mark.parametrize(("client", "server"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_an_unmodified_program_runs_in_virtual_time(
    programs: dict[str, str], harness: Harness, manifest: Manifest, client: str, server: str
) -> None:
    words = []
    for name in {client, server} & programs.keys():
        words += ["--manifest", str(manifest(name, programs[name], protocols=["hq-interop"]))]
    cell = harness.cell(
        harness.scenario("languages"), "--engine", "virtual", "--clients", client, "--servers", server,
        "--repeat", "1", *words,
    )  # fmt: skip
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["engine"] == "virtual"
    assert cell["link"]["valid"], cell["link"]["problems"]
    # 40 ms for the handshake, 40 for the request, 1 MB at 20 Mbit/s: nothing can be faster.
    assert 0.48 < cell["measurements"]["completion"]["median"] < 2
