"""What Docker is told, without Docker."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from harness.engines.docker import OWNER_LABEL, docker
from harness.engines.owner import lives


def test_a_container_that_is_only_created_says_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images are exported from one. A harness that was killed meanwhile left it behind, and nobody could tell whose."""
    given: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        given.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("harness.engines.docker.shutil.which", lambda name: name)
    monkeypatch.setattr("harness.engines.docker.subprocess.run", run)
    docker("create", "an-image")
    docker("start", "a-container")
    (_, create, label, owned, image), start = given
    assert (create, label, image) == ("create", "--label", "an-image")
    name, _, owner = owned.partition("=")
    assert name == OWNER_LABEL
    assert lives(owner)
    assert start == ["docker", "start", "a-container"]
