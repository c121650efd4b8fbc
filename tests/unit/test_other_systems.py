"""Other systems than Linux: what reads works, and what runs labs is refused at once, in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.entry import COMMANDS, LINUX_COMMANDS
from harness.cli.environment import cores
from harness.cli.gate import _repeat
from harness.errors import EngineError
from harness.report.gate import GateReport
from tests.examples import ROOT

#: What Python's `os` has on Linux alone, of what this project uses or might.
_LINUX_CALLS = (
    "sched_getaffinity", "sched_setaffinity", "pidfd_open", "posix_fallocate", "posix_fadvise", "fdatasync", "O_PATH",
    "O_TMPFILE", "memfd_create", "copy_file_range", "setns", "unshare",
)  # fmt: skip
#: Libraries ask for the system as they are imported, so these go first. Then everything of the harness is loaded.
_MACOS = f"""
import os, sys, urllib.request
import altair, cryptography, jinja2, numpy, polars, pydantic, rich.console, scipy.stats, typer, vl_convert, yaml, zstandard
for name in {_LINUX_CALLS}:
    if hasattr(os, name):
        delattr(os, name)
sys.platform = "darwin"
sys.argv[0] = "harness"
from harness.cli import program
program()
"""
#: Python on Windows lacks these, too; a module that is None cannot be imported.
_WINDOWS = """
import os, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
sys.platform = "win32"
os.name = "nt"
del os.EX_SOFTWARE
sys.argv[0] = "harness"
from harness.cli import program
program()
"""


def _harness(prelude: str, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if folder is not None:
        environment |= {"HARNESS_STATE": str(folder / "state"), "HARNESS_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-c", prelude, *words],
        capture_output=True, text=True, check=False, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("validate", "scenarios/check"), "files are valid"),
        (("list", "--json"), '"satellite/medium"'),
        (("explain", "satellite/medium"), "tc qdisc add"),
        (("report", "parameters"), "congestion_control"),
        (("report", "dumbbell/alone", "--store", "results/reference"), "dumbbell/alone"),
        (("run", "--help"), "Usage: harness run"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_reads_works_on_macos(tmp_path: Path, words: tuple[str, ...], printed: str) -> None:
    completed = _harness(_MACOS, *words, folder=tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert printed in completed.stdout + completed.stderr


@pytest.mark.parametrize("command", sorted(LINUX_COMMANDS))
def test_what_runs_labs_is_refused_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    from harness.cli import main

    assert command in COMMANDS
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("sys.argv", ["harness", command])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"error: 'harness {command}' needs Linux, and this is darwin: here the harness works in a container",
        "hint: docs/where-it-runs.md has the command; what only reads stored runs and scenarios works here",
    ]


def test_windows_gets_a_sentence_instead_of_a_traceback() -> None:
    completed = _harness(_WINDOWS, "report")
    assert completed.returncode == 3
    assert completed.stdout == ""
    assert completed.stderr.splitlines() == [
        "error: the harness needs Linux, and this is Windows: here it works in a container",
        "hint: docs/where-it-runs.md has the command; WSL 2 has a Linux of its own",
    ]


def test_cores_are_counted_where_a_process_has_no_set_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sched_getaffinity")
    assert cores() == os.cpu_count()


def test_large_arrays_are_on_the_disk_without_a_call_that_reserves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.capture.files import MAX_IN_MEMORY
    from harness.capture.memmap import allocate

    monkeypatch.delattr("os.posix_fallocate")
    array = allocate((MAX_IN_MEMORY + 1,), "u1")
    array[-1] = 7
    assert array.nbytes == MAX_IN_MEMORY + 1 and array[-1] == 7


@pytest.mark.parametrize(("machine", "first"), [("arm64", "ngtcp2"), ("x86_64", "picoquic")])
def test_make_run_on_macos_ends_with_the_sentence_of_setup(tmp_path: Path, machine: str, first: str) -> None:
    (tmp_path / "uname").write_text(f'#!/bin/sh\n[ "$1" = -m ] && echo {machine} || echo Darwin\n')
    (tmp_path / "uname").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    completed = subprocess.run(
        ["make", "--no-print-directory", "run"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 2
    assert completed.stdout == ""
    error, hint, make = completed.stderr.splitlines()
    assert error == "error: labs need Linux, and this is Darwin: here the harness works in a container"
    assert hint.startswith("hint: docs/where-it-runs.md") and make.endswith("Error 3")
    clients = subprocess.run(
        ["make", "--no-print-directory", "--eval", "clients: ; @echo $(CLIENTS)", "clients"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert clients.stdout.startswith(f"{first},")


def test_a_gate_that_repeats_runs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate() -> GateReport:
        raise AssertionError

    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(EngineError, match=r"^'harness gate --until' needs Linux"):
        _repeat(None, evaluate, 2, None)
