"""What is derived from files is kept until one of them changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import derived
from harness.catalogue import Catalogue, Positions, read_yaml
from harness.catalogue import catalogue as catalogue_module
from harness.derived import DerivedTable, DerivedValues, once_per_object
from harness.engine import docker_cli
from harness.engine.docker_cli import inspect_images
from harness.errors import EngineError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's last change need not be two seconds ago."""
    monkeypatch.setattr(derived, "_SETTLED", -60.0)


def _kept(tmp_path: Path) -> DerivedValues:
    values = DerivedValues()
    values.keep_in(tmp_path / "derived.json")
    return values


def _asked(values: DerivedValues, file: Path, version: str | None = "") -> bool:
    """Whether the value was derived anew."""
    calls: list[int] = []

    def derive() -> str:
        calls.append(1)
        return file.read_text()

    assert values.get("name", [file], derive, version) == file.read_text()
    return bool(calls)


@pytest.mark.usefixtures("settled")
def test_a_value_is_kept_until_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "source"
    file.write_text("1")
    values = _kept(tmp_path)
    assert _asked(values, file)
    assert not _asked(values, file)
    status = file.stat()
    file.write_text("2")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert _asked(values, file)
    assert _asked(values, file, "another version")


def test_a_file_that_just_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "source"
    file.write_text("1")
    values = _kept(tmp_path)
    assert _asked(values, file)
    assert _asked(values, file)


@pytest.mark.usefixtures("settled")
def test_values_reach_the_next_process(tmp_path: Path) -> None:
    file = tmp_path / "source"
    file.write_text("1")
    values = _kept(tmp_path)
    _asked(values, file)
    values._write()
    assert not _asked(_kept(tmp_path), file)
    (tmp_path / "derived.json").write_text('{"form": 1')
    assert _asked(_kept(tmp_path), file)


def test_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "source"
    file.write_text("1")
    values = DerivedValues()
    assert _asked(values, file) and _asked(values, file)


def _table(tmp_path: Path, code: Path) -> DerivedTable:
    table = _kept(tmp_path).table("labs", [code])
    assert table is not None
    return table


def _refuse() -> str:
    raise AssertionError("derived anew")


@pytest.mark.usefixtures("settled")
def test_a_table_is_kept_until_the_code_changes(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text("1")
    table = _table(tmp_path, code)
    assert table.get("a", lambda: "digest of a") == "digest of a"
    table.write()
    assert _table(tmp_path, code).get("a", _refuse) == "digest of a"
    (tmp_path / "derived-labs.json").write_text('{"form": 1, "stamp"')
    assert _table(tmp_path, code).get("a", lambda: "once more") == "once more"
    code.write_text("22")
    assert _table(tmp_path, code).get("a", lambda: "another") == "another"


@pytest.mark.usefixtures("settled")
def test_a_large_table_keeps_what_was_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "code.py"
    code.write_text("1")
    first = _table(tmp_path, code)
    for name in "ab":
        first.get(name, lambda: "kept")
    first.write()
    monkeypatch.setattr(derived, "_MOST_VALUES", 2)
    second = _table(tmp_path, code)
    assert second.get("b", _refuse) == "kept"
    second.get("c", lambda: "new")
    second.write()
    third = _table(tmp_path, code)
    assert (third.get("b", _refuse), third.get("c", _refuse)) == ("kept", "new")
    assert third.get("a", lambda: "derived anew") == "derived anew"


def test_without_a_file_there_is_no_table(tmp_path: Path) -> None:
    assert DerivedValues().table("labs", []) is None


def test_a_value_is_computed_once_for_each_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "_MOST_OBJECTS", 2)
    asked: list[list[int]] = []

    @once_per_object
    def total(numbers: list[int]) -> int:
        asked.append(numbers)
        return sum(numbers)

    first, same = [1, 2], [1, 2]
    assert [total(first), total(first), total(same), total(first)] == [3] * 4
    assert len(asked) == 2
    assert [total([number]) for number in range(10)] == [*range(10)]


def test_docker_is_asked_once_for_many_images(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    missing = "Error response from daemon: no such image: {0}: No such image: {0}:latest\n".format

    def docker(*words: str, check: bool) -> subprocess.CompletedProcess[str]:
        asked.append(words)
        present = [{"Id": f"sha256:{name}"} for name in words[2:] if name.startswith("here")]
        errors = "".join(missing(name) for name in words[2:] if not name.startswith("here"))
        return subprocess.CompletedProcess(words, bool(errors), json.dumps(present), errors)

    monkeypatch.setattr(docker_cli, "docker", docker)
    assert inspect_images(["here:1", "gone", "here:2", "gone"]) == {
        "here:1": {"Id": "sha256:here:1"},
        "here:2": {"Id": "sha256:here:2"},
    }
    assert asked == [("image", "inspect", "here:1", "gone", "here:2")]
    monkeypatch.setattr(
        docker_cli, "docker", lambda *words, check: subprocess.CompletedProcess(words, 1, "[]", "no daemon")
    )
    with pytest.raises(EngineError):
        inspect_images(["here:1"])


def test_lists_and_plans_load_no_measuring() -> None:
    code = "import sys, harness.execution.checkout, harness.report.catalogue; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "polars", "cryptography", "scipy", "distributed", "altair", "harness.analysis"} & {*loaded}


#: The names of these images are known without Docker: they are built here.
_PLAN = ("plan", "satellite/medium", "--clients", "ngtcp2", "--servers", "picoquic")


def _loaded_by_the_second(tmp_path: Path, words: tuple[str, ...]) -> set[str]:
    """The modules that a command loads when it has run before, and prints the same again."""
    text = "import sys; from harness.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    environment = {**os.environ, "HARNESS_STATE": str(tmp_path), "HARNESS_STORE": str(tmp_path / "none")}
    command = [sys.executable, "-c", text, *words]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment) for _ in range(2)
    )
    assert first.stdout == second.stdout
    return {*second.stderr.split()}


@pytest.mark.parametrize("words", [("list",), _PLAN], ids=["list", "plan"])
def test_the_second_list_and_plan_load_neither_tables_nor_metrics(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The first one derives what depends on files, and keeps it: durations of the reference, checked scenarios."""
    heavy = {"polars", "numpy", "scipy", "altair", "distributed", "harness.analysis", "harness.capture.artefacts"}
    assert not heavy & _loaded_by_the_second(tmp_path, words)


def test_the_second_report_loads_nothing_that_measures(tmp_path: Path) -> None:
    """The first one keeps the declarations of metrics."""
    words = ("report", "dumbbell/link-sharing", "--store", str(ROOT / "results" / "reference"))
    loaded = _loaded_by_the_second(tmp_path, words)
    assert {"harness.analysis.metric_registry", "harness.store.parquet"} <= loaded
    heavy = {"numpy", "scipy", "cryptography", "harness.analysis.metrics", "harness.analysis.run_view"}
    assert not heavy & loaded


def test_a_manifest_that_somebody_damaged_in_the_kept_values_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled: None
) -> None:
    file, times = ROOT / "images" / "quiche" / "image.yaml", list[Path]()

    def read(path: Path) -> tuple[Any, Positions]:
        times.append(path)
        return read_yaml(path)

    values = _kept(tmp_path)
    monkeypatch.setattr(catalogue_module, "DERIVED", values)
    monkeypatch.setattr(catalogue_module, "_schema_version", lambda: "code")
    monkeypatch.setattr(catalogue_module, "read_yaml", read)
    first, second = (Catalogue(ROOT).manifest(file) for _ in range(2))
    assert first == second and times == [file]
    (kept,) = values._values.values()
    for damaged in ("{", kept["value"].replace('"name":"quiche"', '"name":7'), None, 3):
        kept["value"] = damaged
        assert Catalogue(ROOT).manifest(file) == first
    assert times == [file] * 5
