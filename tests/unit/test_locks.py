"""What builds download is held against hashes that are committed, and no lock names a registry."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.examples import ROOT

IMAGES = ROOT / "images"
CRATES = sorted(file.parent for file in IMAGES.rglob("Cargo.toml"))
#: Recipes of the project, those of tests among them.
DOCKERFILES = sorted([*IMAGES.glob("*/Dockerfile"), *(ROOT / "tests").rglob("Dockerfile")])
LOCKS = sorted(
    [*IMAGES.rglob("crates.lock"), *IMAGES.rglob("requirements.txt"), *(ROOT / "tests").rglob("requirements.txt"),
     ROOT / "requirements.lock", ROOT / "requirements.compat.lock"]
)  # fmt: skip
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CARGO = """#!/bin/sh
printf '[[package]]\\nname = "known"\\nversion = "1.0.0"\\nsource = "registry+of this machine"\\nchecksum = "00ff"\\n' >Cargo.lock
"""


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _versions(requirements: Path) -> dict[str, str]:
    lines = re.findall(r"^([\w.-]+)==([^\s;\\]+)", requirements.read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in lines}


@pytest.mark.parametrize("folder", CRATES, ids=_name)
def test_every_crate_has_the_checksum_that_its_lock_says(folder: Path) -> None:
    wanted = tomllib.loads((folder / "Cargo.toml").read_text())
    packages = tomllib.loads((folder / "crates.lock").read_text())["package"]
    ours = {wanted["package"]["name"], "quic-endpoint"}
    for package in packages:
        assert "source" not in package
        assert package["name"] in ours or _SHA256.fullmatch(package["checksum"]), package["name"]
    locked = {(package["name"], package["version"]) for package in packages}
    for name, rule in wanted["dependencies"].items():
        version = rule if isinstance(rule, str) else rule.get("version", "")
        if version.startswith("="):
            assert (name, version.removeprefix("=")) in locked


def test_the_environment_s_lock_has_its_versions_by_hashes() -> None:
    lock = ROOT / "requirements.lock"
    assert _versions(lock) == _versions(ROOT / "requirements.txt")
    assert "--require-hashes --requirement requirements.lock" in (ROOT / "harness/setup/python.sh").read_text()
    (compatible,) = _versions(ROOT / "requirements.compat.lock").items()
    assert compatible == ("polars-runtime-compat", _versions(lock)["polars"])


@pytest.mark.parametrize("file", [lock for lock in LOCKS if lock.name.startswith("requirements")], ids=_name)
def test_every_version_of_python_s_packages_has_a_hash(file: Path) -> None:
    entries = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).strip())
    assert entries
    for entry in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry


@pytest.mark.parametrize("file", DOCKERFILES, ids=_name)
def test_a_recipe_downloads_nothing_but_what_it_can_hold_against_a_hash(file: Path) -> None:
    script = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", file.read_text(), flags=re.MULTILINE))
    commands = [command.strip() for line in script.splitlines() for command in re.split(r"[;&|]+", line)]
    for command in commands:
        if "pip install" in command:
            assert "--require-hashes" in command and "--no-deps" in command
        if re.search(r"\bcargo (build|test|install|run)\b", command):
            # A crate that is altered on the way is another one than the lock's: then what was fetched by the lock is all
            # that there is.
            assert "--locked" in command or ("--offline" in command and "cargo fetch --locked" in script)
        if "cargo info" in command:
            # Unpacks a crate, which is held against a checksum of ours.
            assert "sha256sum --check" in script
        if re.search(r"\bgo build\b", command):
            assert (file.parent / "go.sum").exists()
        assert not re.search(r"\b(curl|wget)\b.*://|\bgo install\b|\bnpm install\b", command)


@pytest.mark.parametrize("lock", LOCKS, ids=_name)
def test_no_lock_names_a_registry(lock: Path) -> None:
    assert not re.search(r"://|\bsource\b|registry\+|--(extra-)?index|--find-links", lock.read_text())


def test_a_lock_of_crates_is_written_and_renewed_with_the_registry_that_cargo_names(tmp_path: Path) -> None:
    cargo = tmp_path / "bin" / "cargo"
    cargo.parent.mkdir()
    cargo.write_text(_CARGO)
    cargo.chmod(0o755)
    (tmp_path / "Cargo.toml").touch()

    def lock(word: str) -> None:
        subprocess.run(
            ["sh", str(IMAGES / "rust" / "lock.sh"), word, str(tmp_path)], check=True,
            env={**os.environ, "PATH": f"{cargo.parent}:{os.environ['PATH']}"},
        )  # fmt: skip

    lock("renew")
    committed = (tmp_path / "crates.lock").read_text()
    assert committed == '[[package]]\nname = "known"\nversion = "1.0.0"\nchecksum = "00ff"\n'
    lock("write")
    assert tomllib.loads((tmp_path / "Cargo.lock").read_text())["package"] == [
        {"name": "known", "version": "1.0.0", "source": "registry+of this machine", "checksum": "00ff"}
    ]
