"""What was measured is compressed, reads as before, and survives whatever ends the process that does it."""

from __future__ import annotations

import errno
import io
import os
import random
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.metrics import measure_with_series
from harness.capture import qlog
from harness.capture.artefacts import capture_digests
from harness.capture.files import (
    ARCHIVE,
    CAPTURES,
    ZSTD,
    _Decompressed,
    _zstd,
    content_size,
    find_file,
    open_file,
    read_bytes,
)
from harness.capture.qlog_parameters import read_reduction
from harness.outcome import Evidence, MeasuredRun, Outcome, Run
from harness.store import compression
from harness.store.compression import RETAINED_ENTRIES, compress_artefacts, disk_use, is_compressed, remove_artefacts
from harness.store.results import Store
from tests.examples import cell
from tests.unit.captures import Recipe, write_run


class _Killed(BaseException):
    """The process ends here."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """A run's folder, as an engine leaves it; not to be changed."""
    folder = tmp_path_factory.mktemp("recorded")
    run = write_run(folder, Recipe(packets=600))
    logs = folder / "flow0" / "server" / "qlog"
    logs.mkdir(parents=True)
    start = run.transfers[0].started_ns / 1e6 + 400
    lines = [f'\x1e{{"trace":{{"common_fields":{{"reference_time":{start}}}}}}}']
    for number in range(300):
        window = 12_000 + 500 * number if number < 250 else 60_000
        lost = '\x1e{"time":249,"name":"recovery:packet_lost","data":{}}' if number == 249 else ""
        data = f'{{"congestion_window":{window},"bytes_in_flight":{number},"smoothed_rtt":100.5}}'
        lines += [f'\x1e{{"time":{number},"name":"recovery:metrics_updated","data":{data}}}', *([lost] if lost else [])]
        lines.append(f'\x1e{{"time":{number},"name":"transport:packet_sent","data":{{}}}}')
    (logs / "one.sqlog").write_text("\n".join(lines) + "\n")
    (logs.parent / "keys.log").write_text("CLIENT_TRAFFIC_SECRET_0 00 00\n" * 400)
    (folder / "server0.log").write_text("a line of a server's\n" * 500)
    (folder / "compose.yaml").write_text("services: {}\n" * 1000)
    (folder / "plan").mkdir()
    (folder / "plan" / "plan.json").write_text(" " * 9000)
    return folder, run


@pytest.fixture
def folder(recorded: tuple[Path, Run], tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(recorded[0], tmp_path / "run"))


def _written(folder: Path) -> dict[str, bytes]:
    """Every file of a run as it was written, by its name then; read by whatever name it has now."""
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    if f"sim/{ARCHIVE}" in names:
        names = names - {f"sim/{ARCHIVE}"} | {f"sim/{name}" for name in CAPTURES.values()}
    contents = {}
    for name in sorted(names):
        path = find_file(folder / name.removesuffix(ZSTD))
        assert path is not None, name
        contents[name.removesuffix(ZSTD)] = read_bytes(path)
    return contents


def test_a_compressed_run_has_the_same_bytes_and_the_same_figures(folder: Path, recorded: tuple[Path, Run]) -> None:
    plain, run = recorded
    measured = measure_with_series(plain, run)
    compress_artefacts(folder)
    assert _written(folder) == _written(plain)
    again = measure_with_series(folder, run)
    assert again[0].model_dump_json() == measured[0].model_dump_json()
    assert {measurement.name for measurement in measured[0].measurements} >= {
        "handshake",
        "first_byte",
        "ack_ratio",
        "wire_to_client",
    }
    assert disk_use(folder) < disk_use(plain) / 2
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert left >= {"lab.json", "compose.yaml", "plan/plan.json", "flow0/server/keys.log", "sim/capture.json"}
    assert left >= {f"sim/{ARCHIVE}", "sim/counters.jsonl.zst", "server0.log.zst", "flow0/server/qlog/one.sqlog.zst"}
    assert is_compressed(folder)
    assert not is_compressed(plain)


def test_both_captures_take_little_more_than_one(folder: Path) -> None:
    sim = folder / "sim"
    alone = zstandard.ZstdCompressor(level=3).compress((sim / CAPTURES["left"]).read_bytes())
    compress_artefacts(folder)
    # What is encrypted is found again; times, checksums and lifetimes are not.
    assert (sim / ARCHIVE).stat().st_size < 1.35 * len(alone)


def test_what_comes_out_of_the_archive_has_the_digest_of_the_record(folder: Path) -> None:
    digests = capture_digests(folder)
    compress_artefacts(folder)
    assert capture_digests(folder) == digests
    with open_file(folder / "sim" / ARCHIVE) as content, tarfile.open(fileobj=content, mode="r|") as archive:
        archive.extractall(folder / "out", filter="data")
    for name in CAPTURES.values():
        (folder / "out" / name).rename(folder / "sim" / name)
    assert capture_digests(folder) == digests
    assert len(digests) == 2


def test_readers_of_a_trace_see_no_difference(folder: Path) -> None:
    logs = folder / "flow0" / "server" / "qlog"
    (plain,) = qlog.find_traces(logs)
    before = [read(plain) for read in _READERS]
    compress_artefacts(folder)
    (packed,) = qlog.find_traces(logs)
    assert packed.name == "one.sqlog.zst"
    assert [str(read(packed)) for read in _READERS] == [str(result) for result in before]
    assert read_reduction(packed) is not None
    assert content_size(packed) == len(read_bytes(packed)) > packed.stat().st_size


_READERS: tuple[Callable[[Path], Any], ...] = (
    lambda path: qlog.summarise_data("one", read_bytes(path)),
    lambda path: qlog.read_head(path, 100),
    lambda path: qlog.read_head(path, 1 << 20),
    qlog.first_event_ns,
    qlog.read_losses,
    qlog.read_recovery,
    read_reduction,
    content_size,
)


def _steps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """Every call by which packing changes the disk: its name and its number."""
    copy = Path(shutil.copytree(folder, folder.parent / "counted"))
    calls: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("fsync", "replace", "unlink"):
            _before(patch, name, lambda call=name: calls.append(call))  # type: ignore[misc]
        compress_artefacts(copy)
    yield from ((name, calls[: index + 1].count(name)) for index, name in enumerate(calls))


def _before(patch: pytest.MonkeyPatch, name: str, act: Callable[[], None]) -> None:
    usual = getattr(os, name)

    def instead(*words: Any, **overrides: Any) -> Any:
        act()
        return usual(*words, **overrides)

    patch.setattr(os, name, instead)


def test_whatever_ends_it_nothing_is_lost_and_the_next_one_goes_on(
    recorded: tuple[Path, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _written(recorded[0])
    steps = list(_steps(Path(shutil.copytree(recorded[0], tmp_path / "run")), monkeypatch))
    assert {name for name, _ in steps} == {"fsync", "replace", "unlink"}
    monkeypatch.setattr(compression, "lives", lambda owner: False)
    for number, (name, count) in enumerate(steps):
        folder = Path(shutil.copytree(recorded[0], tmp_path / str(number)))
        seen = 0

        def kill(at: int = count) -> None:
            nonlocal seen
            seen += 1
            if seen == at:
                raise _Killed

        with monkeypatch.context() as patch:
            # What tidies up after a failure does not run in a process that is killed.
            if name != "unlink":
                patch.setattr(os, "unlink", lambda *words, **overrides: None)
            _before(patch, name, kill)
            with pytest.raises(_Killed):
                compress_artefacts(folder)
        shown = {key: value for key, value in _written(folder).items() if ".packing-" not in key}
        assert shown == before, (name, count)
        compress_artefacts(folder)
        assert _written(folder) == before, (name, count)
        assert is_compressed(folder)
        assert not list(folder.rglob("*.packing-*"))


def test_a_trace_that_is_there_twice_is_one_trace(folder: Path) -> None:
    logs = folder / "flow0" / "server" / "qlog"
    content = (logs / "one.sqlog").read_bytes()
    compress_artefacts(folder)
    # So it is for a moment, and where a process was killed then.
    (logs / "one.sqlog").write_bytes(content)
    assert [path.name for path in qlog.find_traces(logs)] == ["one.sqlog"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_what_cannot_be_compressed_stays_as_it_is(
    folder: Path, recorded: tuple[Path, Run], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*words: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(compression, "_compress", refuse)
    compress_artefacts(folder)
    assert (folder / "server0.log").exists()
    assert _written(folder) == _written(recorded[0])
    assert not list(folder.rglob("*.packing-*"))


def test_links_and_what_is_compressed_already_are_left_alone(folder: Path) -> None:
    (folder / "flow0" / "link").symlink_to(folder / "growth.csv")
    (folder / "flow0" / "more.gz").write_bytes(bytes(9000))
    compress_artefacts(folder)
    compress_artefacts(folder)
    names = {path.name for path in (folder / "flow0").iterdir()}
    assert names >= {"link", "more.gz"}
    assert not list(folder.rglob("*.zst.zst"))


@given(content=st.binary(max_size=3000), times=st.integers(1, 60), cut=st.floats(0, 1))
def test_of_a_file_cut_short_what_can_be_had_is_its_beginning(content: bytes, times: int, cut: float) -> None:
    data = content * times
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    part = packed[: round(len(packed) * cut)]

    assert data.startswith(_Decompressed(io.BytesIO(part), _zstd).readall())
    # Frames in a row are one file (RFC 8878 §3.1).
    assert io.BufferedReader(_Decompressed(io.BytesIO(packed + packed), _zstd)).read() == data + data


def test_of_a_damaged_archive_the_packets_before_the_damage_are_had(folder: Path) -> None:
    left_file = folder / "sim" / CAPTURES["left"]
    capture = random.Random(1).randbytes(1 << 20)
    left_file.write_bytes(capture)
    compress_artefacts(folder)
    archive = folder / "sim" / ARCHIVE
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    left = find_file(folder / "sim" / CAPTURES["left"])
    assert left is not None
    assert capture.startswith(read_bytes(left))
    assert len(read_bytes(left)) > len(capture) // 4
    right = find_file(folder / "sim" / CAPTURES["right"])
    assert right is not None
    with pytest.raises(OSError, match=str(ARCHIVE)):
        read_bytes(right)


def test_a_file_that_is_compressed_after_it_was_found_is_read_all_the_same(folder: Path) -> None:
    files = [find_file(folder / name) for name in ("server0.log", f"sim/{CAPTURES['right']}")]
    before = [read_bytes(path) for path in files if path is not None]
    compress_artefacts(folder)
    assert [read_bytes(path) for path in files if path is not None] == before


# --- in the store


def _run(repetition: int = 0, evidence: Evidence = "full") -> Run:
    outcome = Outcome(status="completed")
    return Run(cell=cell(), repetition=repetition, outcome=outcome, started_at="2026-11-21", evidence=evidence)


def _begun(store: Store, recorded: tuple[Path, Run]) -> Path:
    partial = store.begin(cell().key, 0)
    shutil.copytree(recorded[0], partial, dirs_exist_ok=True)
    return partial


def test_a_finished_run_is_compressed_or_keeps_its_figures_alone(tmp_path: Path, recorded: tuple[Path, Run]) -> None:
    for evidence in get_args(Evidence):
        store = Store(tmp_path / evidence)
        partial = _begun(store, recorded)
        (partial / "flow0" / "client" / "qlog").mkdir(parents=True, exist_ok=True)
        (partial / "flow0" / "client" / "qlog" / "trace.qlog").write_text("{}")
        place = store.finish(partial, _run(evidence=evidence), MeasuredRun(version=1))
        assert (place / "sim").is_dir() is (evidence != "figures")
        assert (place / "flow0" / "client" / "qlog").is_dir() is (evidence == "full")
        assert store.runs(cell().key)[0].evidence == evidence
        assert {item.name for item in place.iterdir()} >= {
            "run.json",
            "measured.json",
            "lab.json",
            "compose.yaml",
            "plan",
        }
        if evidence == "figures":
            assert {item.name for item in place.iterdir()} <= RETAINED_ENTRIES
        assert is_compressed(place)
        assert list((store.root / "partial").iterdir()) == []


@pytest.mark.parametrize("evidence", ["full", "figures"])
def test_a_run_that_a_killed_harness_had_finished_is_compressed_by_the_next_command(
    tmp_path: Path, recorded: tuple[Path, Run], monkeypatch: pytest.MonkeyPatch, evidence: Evidence
) -> None:
    def kill(*words: object) -> None:
        raise _Killed

    store = Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("harness.store.results.compress_artefacts", kill)
        patch.setattr("harness.store.results.remove_artefacts", kill)
        with pytest.raises(_Killed):
            store.finish(_begun(store, recorded), _run(evidence=evidence), MeasuredRun(version=1))
    assert store.runs(cell().key) == [_run(evidence=evidence)]
    # While its harness lives, it is that one's business.
    assert store.remove_orphans() == []
    assert not is_compressed(store.folder(cell().key, 0))
    monkeypatch.setattr("harness.store.results.lives", lambda owner: False)
    assert store.remove_orphans(lambda owner: False) == []
    assert is_compressed(store.folder(cell().key, 0))
    assert _written(store.folder(cell().key, 0)).items() >= _written(recorded[0]).items()


def test_artefacts_are_gone_before_anybody_could_measure_a_part_of_them(folder: Path, tmp_path: Path) -> None:
    moved: list[str] = []
    usual = Path.rename

    def watch(self: Path, target: Path) -> Path:
        moved.append(self.name)
        return usual(self, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", watch)
        remove_artefacts(folder, tmp_path / "aside")
    assert moved[0] == "sim"
    assert set(moved) & RETAINED_ENTRIES == set()
    assert not (tmp_path / "aside").exists()
