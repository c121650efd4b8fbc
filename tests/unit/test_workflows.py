"""What GitHub would run: who is given a token, which code of others, and what becomes of what somebody types in."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.examples import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LOGIN = ROOT / ".github" / "login.sh"
_TOKEN = re.compile(r"secrets\.|github\.token|GITHUB_TOKEN")


def _jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in WORKFLOWS:
        content = yaml.safe_load(file.read_text())
        assert not _TOKEN.search(str(content.get("env", {}))), file
        for name, job in content["jobs"].items():
            yield f"{file.name}: {name}", job


def _steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, job in _jobs():
        for number, step in enumerate(job["steps"]):
            yield f"{name}, step {number}", step


def test_actions_are_named_by_commits() -> None:
    lines = [line for file in WORKFLOWS for line in file.read_text().splitlines() if re.match(r"\s*(- )?uses:", line)]
    assert len(lines) > 8
    for line in lines:
        # The version is for people, and for who looks for a newer one.
        assert re.fullmatch(r"\s*(- )?uses: actions/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    commits: dict[str, set[str]] = {}
    for line in lines:
        name, _, commit = line.partition("uses: ")[2].partition("@")
        commits.setdefault("/".join(name.split("/")[:2]), set()).add(commit)
    assert all(len(actions) == 1 for actions in commits.values()), commits


def test_no_expression_stands_in_a_script() -> None:
    scripts = [(name, step["run"]) for name, step in _steps() if "run" in step]
    assert len(scripts) > 8
    for name, script in scripts:
        assert "${{" not in script, name


def test_a_token_is_known_to_the_step_that_logs_in_and_to_no_other() -> None:
    used = 0
    for name, job in _jobs():
        assert not _TOKEN.search(str(job.get("env", {}))), name
    for name, step in _steps():
        if _TOKEN.search(str(step)):
            used += 1
            assert re.fullmatch(r'\.github/login\.sh "\$(REGISTRY|FROM)"', step["run"]), name
            token = str(step["env"]["TOKEN"])
            # Of the host that it belongs to, and of no other.
            assert "startsWith(vars.REGISTRY, format('{0}/', vars.TOKEN_REGISTRY))" in token, name
            assert "github.token" not in str({**step["env"], "TOKEN": ""}), name
    assert used == 2


def test_the_workflow_s_token_stays_in_no_checkout_and_may_do_little() -> None:
    for name, step in _steps():
        if str(step.get("uses", "")).startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}, name
    for file in WORKFLOWS:
        assert yaml.safe_load(file.read_text())["permissions"] == {"contents": "read"}
    for name, job in _jobs():
        assert "write" not in str(job.get("permissions", {}).get("contents", "")), name


# --- logging in


def _login(folder: Path, **environment: str) -> tuple[str, str]:
    """(what docker was called with, what it was given)."""
    (folder / "docker").write_text('#!/bin/sh\necho "$*" >"$SAID.words"\ncat >"$SAID.given"\n')
    (folder / "docker").chmod(0o755)
    process = subprocess.run(
        ["bash", str(LOGIN), "registry.example/us/lab"], capture_output=True, text=True, check=True,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "SAID": str(folder / "said"), "REGISTRY_USER": "me", **environment},
    )  # fmt: skip
    assert "hidden" not in process.stdout + process.stderr
    files = [folder / f"said.{name}" for name in ("words", "given")]
    words, given = (file.read_text().strip() if file.exists() else "" for file in files)
    return words, given


def test_one_logs_in_to_the_host_with_a_password_that_is_on_no_command_line(tmp_path: Path) -> None:
    assert LOGIN.stat().st_mode & stat.S_IXUSR
    expected = "login --username me --password-stdin registry.example"
    assert _login(tmp_path, REGISTRY_PASSWORD="hidden", TOKEN="other") == (expected, "hidden")
    assert _login(tmp_path, REGISTRY_PASSWORD="", TOKEN="hidden") == (expected, "hidden")


def test_without_a_password_nobody_logs_in(tmp_path: Path) -> None:
    assert _login(tmp_path, REGISTRY_PASSWORD="", TOKEN="") == ("", "")


# --- the Makefile, through which what is typed in comes to commands


@pytest.mark.parametrize("target", ["run", "night", "gate", "interop"])
@pytest.mark.parametrize(
    "typed", ["$(touch PWN)", "`touch PWN`", "; touch PWN", "$(shell touch PWN)", "a' 'b", '"; touch PWN; "']
)
def test_what_is_typed_in_is_words_and_no_script(tmp_path: Path, target: str, typed: str) -> None:
    bait = typed.replace("PWN", str(tmp_path / "run-by-a-shell"))
    (tmp_path / "harness").write_text('#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done >>"$SAID"\n')
    (tmp_path / "harness").chmod(0o755)
    names = ("SCENARIO", "CLIENTS", "REPEAT", "ENGINE", "INTEROP", "KEEP", "SHARD", "ALLOW", "UNTIL", "BASELINE")
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment |= dict.fromkeys(names, bait) | {"SAID": str(tmp_path / "said"), "NIGHT": str(tmp_path / "night")}
    (tmp_path / "night").mkdir()
    subprocess.run(
        ["make", "--old-file=setup", target, f"HARNESS={tmp_path / 'harness'}"], cwd=ROOT, env=environment,
        capture_output=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    text = (tmp_path / "said").read_text()
    assert not (tmp_path / "run-by-a-shell").exists()
    assert bait in text.splitlines()


def test_several_scenarios_and_further_words_are_words(tmp_path: Path) -> None:
    (tmp_path / "harness").write_text('#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done >>"$SAID"\n')
    (tmp_path / "harness").chmod(0o755)
    given = ["SCENARIO=a b", "CLIENTS=x,y", "SHARD=1/2", "WORDS=--image quiche=mine:1", f"NIGHT={tmp_path / 'night'}"]
    subprocess.run(
        ["make", "--old-file=setup", "night", f"HARNESS={tmp_path / 'harness'}", *given], cwd=ROOT, check=True,
        env={**os.environ, "SAID": str(tmp_path / "said")}, capture_output=True, timeout=60,
    )  # fmt: skip
    assert (tmp_path / "said").read_text().splitlines() == [
        "run", "a", "b", "--clients", "x,y", "--servers", "x,y", "--repeat", "1", "--engine", "compose",
        "--store", str(tmp_path / "night"), "--no-figures", "--shard", "1/2", "--image", "quiche=mine:1",
    ]  # fmt: skip
