"""Releases of one implementation run beside each other, and the one that changed something is found."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.examples import ROOT
from tests.lab.conftest import Harness, local_image

#: The current release of quic-go and the one before; of a third, none is published between them.
SINCE, OLDER, NEWER = "2026-10-18", "quic-go@0.64.1", "quic-go@0.65.0"
TAG = "quic-lab-test/bisected"
#: Fewer bytes in flight than the 100 kB that the path holds.
NARROW = "--stream-window=32768 --connection-window=32768"


def answer(harness: Harness, *words: str) -> tuple[int, dict[str, Any]]:
    process = subprocess.run(
        harness.command(*words, "--json"), capture_output=True, text=True, cwd=ROOT, timeout=900, check=False
    )
    assert process.stdout, process.stderr
    data: dict[str, Any] = json.loads(process.stdout)
    return process.returncode, data


@pytest.mark.usefixtures("warm")
def test_a_history_and_a_search_over_the_same_runs(harness: Harness) -> None:
    scenario = harness.scenario("short")
    code, history = answer(
        harness, "history", "quic-go", scenario, "--since", SINCE, "--repeat", "1", "--evidence", "full"
    )
    assert code == 0
    releases = history["scenarios"][0]["releases"]
    assert [item["name"] for item in releases] == [OLDER, NEWER]
    assert all(item["outcomes"] == {"completed": 1} and item["medians"]["milestone_1MB"] > 0.4 for item in releases)
    change = releases[1]["change"]
    assert change["before"] == OLDER and not change["identical"]
    # The same runs answer the search: with their captures there, none is made again.
    before = {file: file.stat().st_mtime_ns for file in harness.store.glob("runs/*/*/run.json")}
    code, bisection = answer(harness, "bisect", f"{OLDER}..0.65.0", scenario, "--changed", "--repeat", "1")
    assert (code, bisection["first"], bisection["before"]) == (1, NEWER, OLDER)
    assert bisection["divergence"]["packets"] and {file: file.stat().st_mtime_ns for file in before} == before
    code, bisection = answer(harness, "bisect", f"{OLDER}..0.65.0", scenario, "--worse", "50%", "--repeat", "1")
    assert (code, bisection["first"]) == (0, None)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of four commits whose trees are images: from the third on the client's windows are smaller."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    image = local_image("quic-go")
    for label, windows in (("first", ""), ("second", ""), ("narrow", NARROW), ("later", NARROW)):
        entry = f'#!/bin/sh\nexport CLIENT_PARAMS="$CLIENT_PARAMS {windows}"\nexec /run_endpoint_of_base.sh\n'
        (folder / "run_endpoint.sh").write_text(entry)
        (folder / "Dockerfile").write_text(
            f"FROM {image}\nRUN mv /run_endpoint.sh /run_endpoint_of_base.sh\n"
            f"COPY --chmod=0755 run_endpoint.sh /\nLABEL commit={label}\n"
        )
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", label)
    return folder


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    names = ("-c", "user.name=A test", "-c", "user.email=test@example.org")
    return subprocess.run(["git", *names, *words], cwd=folder, capture_output=True, text=True, check=True)


@pytest.mark.usefixtures("warm")
def test_git_bisect_finds_the_commit_with_the_smaller_window(
    harness: Harness, repository: Path, tmp_path: Path
) -> None:
    scenario = harness.scenario("short")
    words = harness.command(
        "run", scenario, "--clients", "quic-go", "--servers", "quic-go", "--image", f"quic-go={TAG}",
        "--engine", "virtual", "--repeat", "1", "--no-figures", "--expect", "'milestone_1MB at_most 0.9 s'",
    )  # fmt: skip
    script = tmp_path / "try.sh"
    script.write_text(
        f"#!/bin/sh\ndocker buildx build --load --quiet --label org.quic-lab.image=1 --tag {TAG} . || exit 125\n"
        f"cd {ROOT} && exec {' '.join(words)}\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    git(repository, "bisect", "start", "HEAD", "HEAD~3")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        ["git", "bisect", "run", str(script)], cwd=repository, env=environment, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    assert "is the first bad commit" in process.stdout
    assert git(repository, "log", "--format=%s", "-1", "refs/bisect/bad").stdout.strip() == "narrow"
    # Two commits were tried, of which one is good.
    verdicts = [json.loads(file.read_text()) for file in harness.store.glob("runs/*/*/run.json")]
    assert len(verdicts) == 2 and all(run["outcome"]["status"] == "completed" for run in verdicts)


@pytest.mark.usefixtures("warm")
def test_what_cannot_be_told_is_skipped(harness: Harness) -> None:
    words = ("--clients", "quic-go", "--servers", "quic-go", "--engine", "virtual", "--repeat", "1", "--no-figures")
    scenario = harness.scenario("short")
    for image, expected, code in (
        ("quic-lab-test/nowhere:1", "milestone_1MB at_most 0.9 s", 125),
        (local_image("quic-go"), "milestone_1MB at_most", 128),
        (local_image("quic-go"), "milestone_2MB at_most 1 s", 128),
        (local_image("quic-go"), "milestone_1MB at_most 0.9 s", 0),
        (local_image("quic-go"), "milestone_1MB at_most 0.1 s", 1),
    ):
        process = harness.run(scenario, *words, "--image", f"quic-go={image}", "--expect", expected)
        assert process.returncode == code, (expected, process.stderr)
