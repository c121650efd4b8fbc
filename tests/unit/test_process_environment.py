"""What a command is started in: streams, encodings, widths and folders, and files beside those that it is to read."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from harness.catalogue.validation import yaml_files
from harness.cli import main
from harness.cli.signals import CLOSED_PIPE, INFRASTRUCTURE, MET, USAGE
from harness.errors import disk_error
from harness.report.numbers import rate_text
from harness.store.merge import merge
from harness.store.results import Store
from tests.examples import ROOT
from tests.plot_runs import download_run
from tests.polling import wait_for

_FORMER = ROOT / "results/former"
_HARNESS = [sys.executable, "-c", "import sys; from harness.cli import program; program()"]


def _run(
    *words: str, cwd: Path = ROOT, stdout: int = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    path = os.pathsep.join(map(str, (ROOT, ROOT / "images/sim")))
    return subprocess.run(
        [*_HARNESS, *words], cwd=cwd, stdout=stdout, stderr=subprocess.PIPE, check=False,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )  # fmt: skip


_REPORT = ("report", "--store", str(_FORMER), "--clients", "quic-go")


@pytest.mark.parametrize("columns", ["0", "-5", "wide", "²", "1000000000"])
def test_a_width_that_is_none_is_as_if_there_was_none(columns: str) -> None:
    process = _run(*_REPORT, COLUMNS=columns)
    assert process.returncode != 70
    text = process.stdout.decode()
    assert "quic-go" in text and max(map(len, text.splitlines())) < 400


def test_an_encoding_of_few_letters_has_others_instead() -> None:
    process = _run(*_REPORT, PYTHONIOENCODING="latin-1")
    assert b"Traceback" not in process.stderr and b"measured" in process.stdout
    as_data = _run(*_REPORT, "--json", PYTHONIOENCODING="ascii")
    assert json.loads(as_data.stdout.decode("ascii")) == json.loads(_run(*_REPORT, "--json").stdout)


def test_nobody_reads_on() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        for words in (("list",), ("list", "--json")):
            process = _run(*words, stdout=writer)
            assert (process.returncode, process.stderr) == (CLOSED_PIPE, b"")
    finally:
        os.close(writer)


def test_a_disk_that_is_full_for_what_is_printed_says_so() -> None:
    with Path("/dev/full").open("w") as full:
        process = _run("list", stdout=full.fileno())
    assert process.returncode == INFRASTRUCTURE
    assert process.stderr.startswith(b"error: the disk is full: standard output")


def test_without_any_standard_output_a_file_does_not_take_its_place(tmp_path: Path) -> None:
    command = f"import os; os.close(1); os.chdir({str(ROOT)!r}); from harness.cli import main; import sys; "
    command += "sys.argv = ['harness', 'list']; main()"
    process = subprocess.run([sys.executable, "-c", command], capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (MET, b"")


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    file = tmp_path / "gone"
    file.mkdir()
    command = f"import os; os.chdir({str(file)!r}); os.rmdir({str(file)!r}); import sys; "
    command += "from harness.cli import main; sys.argv = ['harness', 'plan', 'satellite/medium']; main()"
    path = os.pathsep.join(map(str, (ROOT, ROOT / "images/sim")))
    environment = {**os.environ, "PYTHONPATH": path}
    process = subprocess.run([sys.executable, "-c", command], capture_output=True, check=False, env=environment)
    assert process.returncode == USAGE
    assert process.stderr.startswith(b"error: the folder that this command is started in is gone")


def test_many_files_that_could_not_be_copied_are_one_error(tmp_path: Path) -> None:
    full = shutil.Error([("a", "b", "[Errno 28] No space left on device: 'b'"), ("c", "d", "[Errno 28] No space")])
    assert disk_error(full, tmp_path).message == "the disk is full: b"
    engine_error = disk_error(shutil.Error([("a", "b", "`a` is a named pipe")]), tmp_path)
    assert engine_error.message == "b: `a` is a named pipe"
    assert disk_error(shutil.Error("odd"), tmp_path).message == f"{tmp_path}: odd"
    assert disk_error(OSError(errno.EIO, "Input/output error"), tmp_path).message == f"{tmp_path}: Input/output error"


def test_a_run_with_a_pipe_in_its_folder_is_merged_without_it(tmp_path: Path) -> None:
    drawn, store, own = download_run(), Store(tmp_path / "other"), Store(tmp_path / "own")
    place = store.finish(store.begin(drawn.run.cell.key, 0), drawn.run, drawn.measured, drawn.series)
    os.mkfifo(place / "pipe")
    (place / "file").write_text("kept")
    assert merge(own, [store]).merged == 1
    copied = own.folder(drawn.run.cell.key, 0)
    assert (copied / "file").read_text() == "kept" and not (copied / "pipe").exists()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.0"), (0.0423, "0.0423"), (0.0999, "0.0999"), (0.1, "0.1"), (2.345, "2.3"), (31.0, "31.0")],
)
def test_a_slow_rate_is_not_zero(value: float, text: str) -> None:
    assert rate_text(value) == text


def test_folders_stand_for_the_files_below(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    for name in ("a/one.yaml", "a/b/two.yaml", "a/three.txt"):
        (tmp_path / name).touch()
    assert yaml_files([tmp_path / "a", tmp_path / "a/one.yaml"]) == [tmp_path / "a/b/two.yaml", tmp_path / "a/one.yaml"]


def _checkout(folder: Path) -> Path:
    """A checkout with two scenarios, one of which is wrong, and two implementations."""
    for name, text in {
        "good": "path: {forward: {rate: 9 Mbit/s, delay: 9 ms}, return: {rate: 9 Mbit/s, delay: 9 ms}}",
        "bad": "path: {forward: {rate: 1, delay: 1 ms}}",
    }.items():
        (folder / "scenarios").mkdir(exist_ok=True)
        (folder / "scenarios" / f"{name}.yaml").write_text(
            f"schema: 1\ntitle: The {name}\nflows: [{{download: 10 kB}}]\nmilestones: []\n{text}\n"
        )
    for name in ("one", "two"):
        (folder / "images" / name).mkdir(parents=True)
        (folder / "images" / name / "image.yaml").write_text(f"schema: 1\nname: {name}\nimage: example/{name}:1\n")
    return folder


def test_one_bad_file_hides_none_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("harness.cli.environment.ROOT", _checkout(tmp_path))
    monkeypatch.setattr("harness.engine.images.build.inspect_images", lambda references: {})
    monkeypatch.setattr("sys.argv", ["harness", "list"])
    for bad in (False, True):
        if bad:
            (tmp_path / "images" / "two" / "image.yaml").write_text("schema: 1\nname: two\n")
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == USAGE
        output = capsys.readouterr()
        assert "one" in output.out and ("two" in output.out) is not bad
        if bad:
            assert output.err.count("two/image.yaml") == 1
        else:
            assert "The good" in output.out and "/bad.yaml:" in output.err


def test_what_checks_can_demand_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for words in (["--checks"], ["--checks", "--markdown"], ["--checks", "--json"]):
        monkeypatch.setattr("sys.argv", ["harness", "report", "interop", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        output = capsys.readouterr().out
        assert "amplification" in output and "RFC 9000 §8.1" in output


def test_a_matrix_of_nothing_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["harness", "report", "interop", "media/app-limited", "--store", str(_FORMER)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 5
    assert "error: media/app-limited is none of the interop runner's test cases" in capsys.readouterr().err


def test_a_build_ends_with_the_harness_that_was_killed(tmp_path: Path) -> None:
    """`docker` stands for one that takes its time: nobody is told but by the kernel."""
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\necho $$ > "$BUILD_PID"\nexec sleep 60\n')
    docker.chmod(0o755)
    code = textwrap.dedent(f"""
        from pathlib import Path
        from harness.engine.images.build import Images
        images = Images.__new__(Images)
        import threading
        images._lock, images._cancelled, images._processes = threading.Lock(), False, set()
        images._wait_for(["docker", "buildx", "build"], Path({str(tmp_path / "log")!r}).open("wb"))
    """)
    pid_file = tmp_path / "pid"
    environment = {
        **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "BUILD_PID": str(pid_file),
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "images/sim"))),
    }  # fmt: skip
    harness = subprocess.Popen([sys.executable, "-c", code], env=environment)
    wait_for(lambda: pid_file.exists() and pid_file.read_text().strip() != "")
    build = int(pid_file.read_text())
    harness.kill()
    harness.wait()
    wait_for(lambda: not Path(f"/proc/{build}").exists() or " Z " in Path(f"/proc/{build}/stat").read_text())
