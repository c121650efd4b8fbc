"""Figures are never drawn from less than a run was measured from: whatever becomes of its files, it keeps those it has."""

from __future__ import annotations

import gzip
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from harness import reading
from harness.analysis.metrics import measure_with_series
from harness.capture.artefacts import CAPTURE, capture_digests, find_changed_files, other_digests
from harness.capture.files import ARCHIVE, find_file
from harness.cli import main
from harness.errors import ResultError
from harness.execution.measured_store import StoredResults, remeasure
from harness.outcome import MeasuredRun, Run
from harness.store.compression import compress_artefacts
from harness.store.records import read_run
from harness.store.results import MEASURED, Store
from tests.examples import ROOT
from tests.unit.shared_flows import write_two_flows

_RECORDED = ROOT / "tests/replay/data"
_LUMPS = _RECORDED / "lumps"
#: Folders whose files' openings are noted, and what was opened there.
_watched: list[tuple[Path, set[Path]]] = []


def _note(event: str, given: tuple[object, ...]) -> None:
    if event == "open" and _watched and isinstance(given[0], str):
        _noted(Path(given[0]))


def _noted(path: Path) -> None:
    for folder, opened in _watched:
        if path.is_relative_to(folder):
            opened.add(path)


sys.addaudithook(_note)


@contextmanager
def _opened_below(folder: Path) -> Iterator[set[Path]]:
    """The files that are opened below a folder meanwhile, by whatever function.

    What is opened by its name in a folder that is held tells the system no more than that name.
    """
    opened: set[Path] = set()
    _watched.append((folder, opened))
    usual = reading.open_in

    def noted(held: int, name: str, file: Path) -> BinaryIO:
        content = usual(held, name, file)
        _noted(file)
        return content

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "open_in", noted)
        try:
            yield opened
        finally:
            _watched.pop()


def _known(folder: Path, run: Run) -> dict[str, str]:
    """Place → digest of all that a run is measured from."""
    flows = len(run.cell.scenario.flows)
    return {CAPTURE[side]: digest for side, digest in capture_digests(folder).items()} | other_digests(folder, flows)


def _with_digests(folder: Path, run: Run) -> Run:
    others = other_digests(folder, len(run.cell.scenario.flows))
    return run.model_copy(update={"captures": capture_digests(folder), "artefacts": others})


def _two_flows(folder: Path) -> Run:
    """A run of UDP and TCP with a file of every kind that there is beside QUIC's."""
    run = write_two_flows(folder)
    (folder / "waits.csv").write_text("t_ns,container,kind,ns\n")
    (folder / "sim/udp.json").write_text("{}")
    return run


def _lumps(folder: Path) -> Run:
    """A recorded run over QUIC, with key log and qlog."""
    shutil.copytree(_LUMPS, folder, dirs_exist_ok=True)
    for file in folder.rglob("*.gz"):
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()
    (folder / "sim/udp.json").write_text('{"server0":{"out_datagrams":100}}')
    return read_run((folder / "run.json").read_bytes())


@pytest.mark.parametrize("make", [_two_flows, _lumps])
@pytest.mark.parametrize("packed", [False, True])
def test_what_measuring_opens_is_what_a_record_has_digests_of(
    tmp_path: Path, make: Callable[[Path], Run], packed: bool
) -> None:
    run = make(tmp_path)
    known = _known(tmp_path, run)
    if packed:
        compress_artefacts(tmp_path)
        assert _known(tmp_path, run) == known
    with _opened_below(tmp_path) as opened:
        measure_with_series(tmp_path, run)
    files = {
        path.parent if path.parent.name == ARCHIVE else path for place in known if (path := find_file(tmp_path / place))
    }
    assert opened <= files
    # Nothing is held against a run that no figure of it is drawn from.
    assert files - opened <= {tmp_path / "sim/udp.json", tmp_path / "waits.csv", *tmp_path.glob("flow*/*/keys.log*")}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """A store with the recorded run, packed and measured; not to be changed."""
    root = tmp_path_factory.mktemp("store")
    return root, _store(Store(root), _lumps)


def _store(store: Store, make: Callable[[Path], Run], repetition: int = 0, *, digests: bool = True) -> Run:
    partial = store.begin("0" * 16, repetition)
    run = make(partial).model_copy(update={"repetition": repetition})
    run = _with_digests(partial, run) if digests else run.model_copy(update={"captures": capture_digests(partial)})
    store.finish(partial, run, *measure_with_series(partial, run))
    return run


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _change(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)


def _places() -> list[str]:
    """Places of all that the recorded run is measured from."""
    run = read_run((_LUMPS / "run.json").read_bytes())
    return sorted({*_known(_LUMPS, run), "sim/udp.json"})


@pytest.mark.parametrize("damage", [_cut, _empty, Path.unlink, _change], ids=["cut", "emptied", "removed", "changed"])
@pytest.mark.parametrize("place", _places())
def test_a_run_whose_artefact_was_damaged_keeps_its_figures(
    tmp_path: Path, stored: tuple[Path, Run], place: str, damage: Callable[[Path], None]
) -> None:
    root, run = stored
    store = Store(Path(shutil.copytree(root, tmp_path / "store")))
    folder = store.folder(run.cell.key, 0)
    before = (folder / MEASURED).read_bytes()
    remeasure(store, run)
    assert (folder / MEASURED).read_bytes() == before
    file = find_file(folder / place)
    assert file is not None
    damage(file.parent if file.parent.name == ARCHIVE else file)
    with pytest.raises(ResultError, match="the figures of the run are kept as they are") as exception_info:
        remeasure(store, run)
    # One archive holds both captures: what is named may be the other.
    assert place in exception_info.value.message or (
        place in CAPTURE.values() and "sim/trace_node_" in exception_info.value.message
    )
    assert str(folder) in exception_info.value.hint
    assert (folder / MEASURED).read_bytes() == before


def test_a_file_that_came_after_the_run_is_none_of_it(tmp_path: Path, stored: tuple[Path, Run]) -> None:
    root, run = stored
    folder = Store(Path(shutil.copytree(root, tmp_path / "store"))).folder(run.cell.key, 0)
    assert find_changed_files(folder, run) == {}
    (folder / "flow0/server/qlog/other.qlog").write_text("{}")
    assert find_changed_files(folder, run) == {"flow0/server/qlog/other.qlog": "it came after the run"}


def test_newer_code_does_not_measure_what_was_damaged(tmp_path: Path, stored: tuple[Path, Run]) -> None:
    root, run = stored
    store = Store(Path(shutil.copytree(root, tmp_path / "store")))
    folder = store.folder(run.cell.key, 0)
    older = MeasuredRun(version=1, warnings=("of long ago",))
    store.write_measured(folder, older)
    _cut(folder / "growth.csv")
    assert StoredResults(store, store).measured(run) == older


def test_a_run_of_an_older_record_is_measured_from_what_there_is(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = _store(store, _lumps, digests=False)
    folder = store.folder(run.cell.key, 0)
    (folder / "growth.csv").unlink()
    assert "growth.csv is missing" in remeasure(store, run).warnings
    (folder / "sim" / ARCHIVE).unlink()
    with pytest.raises(ResultError, match=r"trace_node_left\.pcap: it is gone"):
        remeasure(store, run)


def test_what_cannot_be_read_is_said_with_the_reason(tmp_path: Path, stored: tuple[Path, Run]) -> None:
    root, run = stored
    folder = Store(Path(shutil.copytree(root, tmp_path / "store"))).folder(run.cell.key, 0)
    (folder / "sim" / ARCHIVE).write_bytes(b"no archive")
    assert find_changed_files(folder, run)[CAPTURE["left"]].startswith("it cannot be read: ")


def test_one_damaged_run_costs_the_others_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    runs = [_store(store, _two_flows, repetition) for repetition in range(2)]
    places = [store.folder(run.cell.key, run.repetition) for run in runs]
    kept = (places[0] / MEASURED).read_bytes()
    _change(places[0] / "growth.csv")
    (places[1] / MEASURED).unlink()
    monkeypatch.setattr("sys.argv", ["harness", "measure", "--store", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    text = capsys.readouterr().err
    assert ended.value.code == 3
    assert f"warning: {places[0] / 'growth.csv'}: it is not what the run made" in text
    assert "1 run measured, 1 left as they were" in text
    assert (places[0] / MEASURED).read_bytes() == kept
    assert (places[1] / MEASURED).is_file()
