"""What a stranger's store may try: links out of it, names that lead elsewhere, a few bytes that stand for many."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard

from harness.capture import files, qlog, qlog_parameters
from harness.capture.files import open_file, read_bytes
from harness.capture.qlog_thinning import thin
from harness.engine.docker import engine as compose_engine
from harness.engine.docker_cli import tail
from harness.engine.exit_rules import check_transfer, received_file
from harness.engine.images.cache import Cache
from harness.engine.images.contents import Contents
from harness.engine.run_dir import prepare_folder, random_bytes, read_events
from harness.errors import EngineError, ResultError
from harness.evaluation.cell_result import CellResult
from harness.execution.locks import claim_run, remove_stale_claims
from harness.execution.measured_store import StoredResults
from harness.execution.runner import remove_partial_downloads, special_files, thin_logs
from harness.outcome import Outcome, Run, Transfer, Verdict
from harness.reading import MAX_DEPTH, UnfitFileError, open_folder, open_regular, read_regular, read_tree
from harness.reading.parquet import read_footer
from harness.report.plots.stored import run_folder
from harness.scenario.schema import Implementation, Scenario
from harness.store.compression import compress_artefacts
from harness.store.frames import SERIES_SCHEMA, TableError, read_frame
from harness.store.merge import merge
from harness.store.parquet import ColumnStore, write_columns
from harness.store.parquet.tables import StoredRun
from harness.store.records import read_run
from harness.store.results import MEASURED, RUN, SERIES, Store
from harness.topology import Lab, build_lab
from harness.topology.lab_file import LabFacts
from harness.writing import copy_tree, path_below, replace_file, write_new_file
from tests.examples import ROOT, cell, scenario
from tests.plot_runs import download_run

SECRET = "the machine's own"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the machine's, outside every store."""
    file = tmp_path / "home" / "secret"
    file.parent.mkdir()
    file.write_text(SECRET)
    return file


def _store(root: Path) -> tuple[Store, Run, Path, list[str]]:
    """A store with one run, and what it says."""
    warnings: list[str] = []
    store, drawn = Store(root, warnings.append), download_run()
    place = store.finish(store.begin(drawn.run.cell.key, 0), drawn.run, drawn.measured, drawn.series)
    return store, drawn.run, place, warnings


# --- what reads and writes


def test_no_link_is_followed_wherever_it_stands_in_a_name(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "file").symlink_to(victim)
    (tmp_path / "folder").symlink_to(victim.parent)
    for place in ("file", "folder/secret"):
        with pytest.raises(UnfitFileError, match="link, which is not followed"):
            read_regular(tmp_path / place, 100)
        with pytest.raises(UnfitFileError):
            open_file(tmp_path / place)
        with pytest.raises(OSError, match="link"), open_folder((tmp_path / place).parent):
            open_regular(tmp_path / place)
    with pytest.raises(UnfitFileError, match=r"'\.\.' leads elsewhere"):
        open_regular(tmp_path / "a" / ".." / "home" / "secret")
    with pytest.raises(FileNotFoundError, match="nothing"):
        open_regular(tmp_path / "nothing")
    with pytest.raises(OSError, match=str(victim)):
        open_regular(victim / "below")


def test_a_name_is_read_relative_to_a_folder_that_is_held(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever swaps a folder for a link between the look and the opening gains nothing."""
    (tmp_path / "store" / "run").mkdir(parents=True)
    (tmp_path / "store" / "run" / "secret").write_text("a run's")
    usual, swapped = os.open, False

    def swap(path: Any, flags: int, *more: Any, **named: Any) -> int:
        nonlocal swapped
        if path == "secret" and not swapped:
            swapped = True
            (tmp_path / "store" / "run").rename(tmp_path / "aside")
            (tmp_path / "store" / "run").symlink_to(victim.parent)
        return usual(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", swap)
    assert read_regular(tmp_path / "store" / "run" / "secret", 100) == b"a run's" and swapped


def test_nothing_is_written_through_a_link_nor_over_what_is_there(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "file").symlink_to(victim)
    (tmp_path / "file.new").symlink_to(victim)
    (tmp_path / "folder").symlink_to(victim.parent)
    with pytest.raises(FileExistsError):
        write_new_file(tmp_path / "file", b"x")
    for place in ("folder/new", "folder/secret"):
        with pytest.raises(UnfitFileError):
            replace_file(tmp_path / place, b"x")
    replace_file(tmp_path / "file", b"own")
    assert (tmp_path / "file").read_text() == "own" and not (tmp_path / "file").is_symlink()
    assert victim.read_text() == SECRET and [file.name for file in victim.parent.iterdir()] == ["secret"]


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "..", "", ".", "a/../../../etc/passwd", "a\0b"])
def test_no_place_is_made_of_a_name_that_leads_out(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="lies outside"):
        path_below(tmp_path, name)
    assert path_below(tmp_path, "a/b.json") == tmp_path / "a" / "b.json"


def test_a_folder_is_looked_through_so_deep_and_so_wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d" / "d").mkdir(parents=True)
    (tmp_path / "d" / "file").touch()
    (tmp_path / "d" / "link").symlink_to(".")
    os.mkfifo(tmp_path / "d" / "pipe")
    tree = read_tree(tmp_path)
    assert (tree.files, tree.folders, tree.links, tree.special_files) == (
        ["d/file"],
        ["d", "d/d"],
        ["d/link"],
        ["d/pipe"],
    )
    deep = tmp_path / "deep" / "/".join("d" * (MAX_DEPTH + 2))
    deep.mkdir(parents=True)
    with pytest.raises(UnfitFileError, match="folders within folders"):
        read_tree(tmp_path / "deep")
    monkeypatch.setattr("harness.reading.MAX_ENTRIES", 3)
    with pytest.raises(UnfitFileError, match="more than 3 files"):
        read_tree(tmp_path / "d")


# --- stores


@pytest.mark.parametrize("name", [RUN, MEASURED, SERIES])
def test_a_record_that_is_a_link_is_none(tmp_path: Path, name: str) -> None:
    """It leads to an honest one: what a link leads to is no part of a store."""
    store, run, place, warnings = _store(tmp_path / "store")
    (place / name).rename(tmp_path / "aside")
    (place / name).symlink_to(tmp_path / "aside")
    assert [stored_run.repetition for stored_run, _ in StoredResults(store, None).result_of(run.cell).runs] == (
        [0] if name == SERIES else []
    )
    assert store.series(run.cell.key, 0) is None or name != SERIES
    assert len(warnings) == 1 and f"{run.cell.key}/0" in warnings[0]
    if name != MEASURED:
        assert "a link, which is not followed" in warnings[0]


@pytest.mark.parametrize("above", ["runs", "runs/KEY", "runs/KEY/0"])
def test_no_run_is_read_behind_a_link(tmp_path: Path, above: str) -> None:
    store, run, _, warnings = _store(tmp_path / "store")
    place = store.root / above.replace("KEY", run.cell.key)
    place.rename(tmp_path / "aside")
    place.symlink_to(tmp_path / "aside")
    assert [stored_run for key in store.cell_keys() for stored_run in store.runs(key)] == []
    assert store.measured(run.cell.key, 0) is None
    assert any("a link, which is not followed" in text for text in warnings)
    own = Store(tmp_path / "own")
    assert merge(own, [store]).merged == 0


def test_a_store_itself_may_be_named_by_a_link(tmp_path: Path) -> None:
    _, run, _, _ = _store(tmp_path / "store")
    (tmp_path / "named").symlink_to("store")
    assert Store(tmp_path / "named").runs(run.cell.key) == [run]


@pytest.mark.parametrize("name", ["runs", "partial", "images", "claims"])
def test_no_run_is_begun_in_a_store_with_a_folder_elsewhere(tmp_path: Path, victim: Path, name: str) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / name).symlink_to(victim.parent)
    store = Store(tmp_path / "store")
    with pytest.raises(EngineError, match=rf"{name} is a link") as caught:
        store.begin("0" * 16, 0)
    assert caught.value.hint
    # Nor is anything taken for what a killed harness left.
    assert store.remove_orphans() == []
    remove_stale_claims(store.root)
    assert victim.read_text() == SECRET


def test_figures_are_not_written_through_a_link(tmp_path: Path, victim: Path) -> None:
    store, _, place, _ = _store(tmp_path / "store")
    for name in (MEASURED, SERIES, RUN):
        (place / f"{name}.new").symlink_to(victim)
    drawn = download_run()
    store.write_measured(place, drawn.measured, drawn.series)
    assert victim.read_text() == SECRET
    assert not (place / MEASURED).is_symlink()


def test_a_claim_that_is_a_link_is_not_emptied(tmp_path: Path, victim: Path) -> None:
    claims = tmp_path / "store" / "claims"
    claims.mkdir(parents=True)
    (claims / f"{'0' * 16}.0").symlink_to(victim)
    remove_stale_claims(tmp_path / "store")
    with pytest.raises(OSError, match=r"."):
        claim_run(tmp_path / "store", "0" * 16, 0)
    assert victim.read_text() == SECRET


# --- merging


def test_merging_takes_files_alone_and_names_the_rest(tmp_path: Path, victim: Path) -> None:
    store, run, place, _ = _store(tmp_path / "store")
    (place / "sim").mkdir()
    (place / "sim" / "events.jsonl").write_text("{}")
    (place / "client0.log").symlink_to(victim)
    (place / "sim" / "home").symlink_to(victim.parent)
    for name in (MEASURED, SERIES, RUN):
        (place / f"{name}.new").symlink_to(victim)
    os.mkfifo(place / "sim" / "pipe")
    own = Store(tmp_path / "own")
    merge_result = merge(own, [store])
    assert merge_result.merged == 1
    assert {left for _, left in merge_result.skipped} == {
        "client0.log", "sim/home", "sim/pipe", *(f"{name}.new" for name in (MEASURED, SERIES, RUN))
    }  # fmt: skip
    path = own.folder(run.cell.key, 0)
    tree = read_tree(path)
    assert (tree.links, tree.special_files) == ([], []) and "sim/events.jsonl" in tree.files
    assert own.runs(run.cell.key) == [run] and victim.read_text() == SECRET


def test_a_run_that_claims_more_than_there_is_disk_is_left_out(tmp_path: Path) -> None:
    store, _, place, warnings = _store(tmp_path / "store")
    with (place / "hole").open("wb") as content:
        content.truncate(1 << 42)
    own = Store(tmp_path / "own")
    assert merge(own, [store]).merged == 0
    assert "its files have" in warnings[0] and list((tmp_path / "own" / "partial").iterdir()) == []


def test_copies_have_no_modes_but_those_of_new_files(tmp_path: Path) -> None:
    for name, mode in (("set-id", 0o6755), ("open", 0o666), ("closed", 0o600)):
        (tmp_path / "from").mkdir(exist_ok=True)
        (tmp_path / "from" / name).write_text("x")
        (tmp_path / "from" / name).chmod(mode)
    (tmp_path / "to").mkdir()
    before = os.umask(0o022)
    try:
        copy_tree(tmp_path / "from", tmp_path / "to")
    finally:
        os.umask(before)
    modes = {file.name: file.stat().st_mode & 0o7777 for file in (tmp_path / "to").iterdir()}
    assert modes == {"set-id": 0o755, "open": 0o644, "closed": 0o644}


# --- artefacts


def test_what_was_measured_is_not_compressed_or_removed_behind_a_link(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in files.CAPTURES.values():
        (victim.parent / name).write_bytes(bytes(9000))
    (tmp_path / "run" / "sim").symlink_to(victim.parent)
    (tmp_path / "run" / "sim-far").symlink_to(victim.parent)
    (tmp_path / "run" / "big.csv").write_text("x" * 9000)
    # As if it had been compressed already.
    (tmp_path / "run" / "big.csv.zst").symlink_to(victim)
    compress_artefacts(tmp_path / "run")
    assert {file.name for file in victim.parent.iterdir()} == {"secret", *files.CAPTURES.values()}
    assert read_bytes(tmp_path / "run" / "big.csv") == b"x" * 9000 and victim.read_text() == SECRET


def test_a_trace_is_not_thinned_into_what_a_link_names(tmp_path: Path, victim: Path) -> None:
    """An endpoint knows what its trace is called while it is written anew, and may have put a link there."""
    line = '{"time": %d, "name": "recovery:metrics_updated", "data": {"congestion_window": 1}}\n'
    trace = tmp_path / "flow0" / "server" / "a.qlog"
    trace.parent.mkdir(parents=True)
    trace.write_text('{"qlog_format": "NDJSON"}\n' + "".join(line % at for at in range(500)))
    (trace.parent / "a.qlog.thin").symlink_to(victim)
    thinned_sizes = thin(trace, 100, 200)
    assert thinned_sizes is not None and victim.read_text() == SECRET
    assert trace.stat().st_size == thinned_sizes.after < thinned_sizes.before


def test_links_of_endpoints_are_findings_and_are_not_followed(tmp_path: Path, victim: Path) -> None:
    logs = tmp_path / "flow0" / "client" / "qlog"
    logs.mkdir(parents=True)
    (tmp_path / "flow0" / "downloads").mkdir()
    (logs / "own.qlog").write_text("{}")
    (logs / "strange.qlog").symlink_to(victim)
    (logs / "far").symlink_to(victim.parent)
    os.mkfifo(logs / "pipe.qlog")
    (tmp_path / "flow0" / "downloads" / "10MB.bin").symlink_to(victim)
    assert [file.name for file in qlog.find_traces(logs)] == ["own.qlog"]
    assert thin_logs(tmp_path, 1) == []
    findings = special_files(tmp_path, 1)
    assert findings == [
        "flow0/client/qlog/far is a link, which is not followed",
        "flow0/client/qlog/strange.qlog is a link, which is not followed",
        "flow0/client/qlog/pipe.qlog is no file, and is not read",
        "flow0/downloads/10MB.bin is a link, which is not followed",
    ]
    lab = build_lab(cell(), 0)
    assert remove_partial_downloads(lab, tmp_path) == {} and victim.read_text() == SECRET


def test_of_many_links_some_are_named(tmp_path: Path) -> None:
    (tmp_path / "flow0" / "client").mkdir(parents=True)
    for number in range(20):
        (tmp_path / "flow0" / "client" / f"{number:02}").symlink_to("x")
    findings = special_files(tmp_path, 1)
    assert len(findings) == 9 and findings[-1] == "12 more files of that kind"


# --- names


def _changed(run: Run, place: str, value: object) -> bytes:
    content: Any = json.loads(run.model_dump_json(by_alias=True))
    inner = content
    *above, last = place.split("/")
    for part in above:
        inner = inner[part]
    inner[last] = value
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("cell/key", "../../../x"), ("cell/key", "/etc/cron.d/x"), ("cell/key", "0" * 15),
        ("repetition", -1),
        ("cell/scenario/name", "../../x"), ("cell/scenario/name", "a/../../x"), ("cell/scenario/name", "/x"),
        ("cell/scenario/name", "a/.ssh"), ("cell/scenario/name", "a//b"),
        ("cell/client/name", "../x"), ("cell/server/name", "a/b"),
        ("artefacts", {"../../x": "0"}), ("artefacts", {"/etc/passwd": "0"}), ("artefacts", {"a/../b": "0"}),
        ("captures", {"../x left": "0"}), ("captures", {"sim-a/../.. left": "0"}), ("captures", {"up": "0"}),
        ("contents", {"sim": "../../x"}), ("contents", {"sim": "/x"}), ("contents", {"sim": "x.y"}),
    ],
)  # fmt: skip
def test_a_record_with_a_name_that_leads_elsewhere_is_none(place: str, value: object) -> None:
    run = download_run().run
    assert read_run(_changed(run, "warnings", [])) == run.model_copy(update={"warnings": ()})
    with pytest.raises(ValueError, match=r"."):
        read_run(_changed(run, place, value))


def test_no_file_of_a_lab_is_looked_for_outside_its_run(tmp_path: Path) -> None:
    link = {"device": "d", "egress": "e", "rate_bps": 1, "delay_ns": 1}
    links = {"to_client": link, "to_server": link}
    path = {"path": "a", "simulator": "sim-a", "networks": ["10.0.0.0/8"], "links": links}
    assert LabFacts.model_validate({"flows": [], "links": links, "paths": [path]}).paths
    for simulator in ("../../x", "/x", "sim/../..", "sim-a/b"):
        with pytest.raises(ValueError, match="simulator"):
            LabFacts.model_validate({"flows": [], "links": links, "paths": [{**path, "simulator": simulator}]})
    with pytest.raises(ValueError, match="proxy"):
        LabFacts.model_validate({"flows": [], "links": links, "proxies": [{"proxy": "../x", "left": "", "right": ""}]})


@pytest.mark.parametrize("build", ["..", "../x", "/", "a/../b", "/etc"])
def test_an_image_is_built_from_its_own_folder(build: str) -> None:
    assert Implementation(name="a", build="rust/client").build == "rust/client"
    with pytest.raises(ValueError, match="build"):
        Implementation(name="a", build=build)


def test_columns_with_such_names_write_nothing_elsewhere(tmp_path: Path) -> None:
    drawn = download_run()
    wrong = drawn.run.cell.model_copy(update={"key": "../../../../escaped"})
    write_columns(
        tmp_path / "a" / "columns", [StoredRun(drawn.run.model_copy(update={"cell": wrong}), drawn.measured)], []
    )
    warnings: list[str] = []
    own = Store(tmp_path / "a" / "own")
    assert merge(own, [ColumnStore(tmp_path / "a" / "columns", warnings.append)]).merged == 0
    assert "key" in warnings[0] and not list(tmp_path.rglob("*escaped*"))
    write_columns(tmp_path / "b", [], [Contents("../../../escaped", {"a": "1"}, {})])
    with pytest.raises(ResultError, match="is the digest of no image's contents"):
        ColumnStore(tmp_path / "b").every_contents()


def test_contents_are_kept_under_their_own_digest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / "images").mkdir()
    for name, text in (("d1", "../../escaped"), ("d2", "d3")):
        (tmp_path / "images" / f"{name}.json").write_text(json.dumps({"digest": text, "packages": {}, "programs": {}}))
        assert store.contents(name) is None
    (tmp_path / "escaped.json").write_text("{}")
    assert store.contents("../escaped") is None
    store.keep_contents([Contents("../../escaped", {}, {})])
    assert not (tmp_path.parent / "escaped.json").exists()


def test_figures_of_a_run_stay_in_their_folder() -> None:
    run = download_run().run
    place = run_folder(run)
    assert not place.is_absolute() and ".." not in place.parts
    with pytest.raises(ValueError, match="name"):
        Scenario.model_validate({**json.loads(run.cell.scenario.model_dump_json(by_alias=True)), "name": "../x"})


# --- what a few bytes stand for


def test_a_stream_is_unpacked_a_piece_at_a_time_and_so_much_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = bytes(1 << 23)
    (tmp_path / "a.zst").write_bytes(zstandard.ZstdCompressor(write_content_size=False).compress(zeros))
    (tmp_path / "a.gz").write_bytes(gzip.compress(zeros))
    monkeypatch.setattr(files, "MAX_STREAMED_SIZE", 1 << 20)
    for name in ("a.zst", "a.gz"):
        assert (tmp_path / name).stat().st_size < 10_000
        with open_file(tmp_path / name) as content:
            raw, steps = getattr(content, "raw"), list[int]()  # noqa: B009
            raw._stream = _Counted(raw._stream.read, steps)
            with pytest.raises(OSError, match=r"more than 1\.0 MB"):
                while content.read(1 << 16):
                    pass
        assert max(steps) <= 128 << 10 and sum(steps) <= (1 << 20) + (128 << 10)


class _Counted:
    """A stream that notes how much it gives at a time."""

    def __init__(self, read: Callable[[int], bytes], steps: list[int]) -> None:
        self._read, self._steps = read, steps

    def read(self, most: int) -> bytes:
        content = self._read(most)
        self._steps.append(len(content))
        return content


@pytest.mark.parametrize("suffix", [".zst", ".gz"])
def test_what_can_be_had_of_a_damaged_file_is_had(tmp_path: Path, suffix: str) -> None:
    content = os.urandom(700_000)
    packed = zstandard.ZstdCompressor().compress(content) if suffix == ".zst" else gzip.compress(content)
    for name, data in {"cut": packed[:500_000], "more": packed + b"and something else"}.items():
        (tmp_path / f"{name}{suffix}").write_bytes(data)
        had = read_bytes(tmp_path / f"{name}{suffix}")
        assert content.startswith(had) and len(had) > (450_000 if name == "cut" else 699_999)


def _bomb(**columns: Any) -> pl.DataFrame:
    return pl.DataFrame(columns)


@pytest.mark.parametrize(
    ("frame", "limit", "why"),
    [
        (_bomb(name=["x" * 1000] * 5000), "MAX_ROWS", "5000 rows, and there is room for 1000"),
        (_bomb(t=[[1.0] * 5000] * 2), "MAX_VALUES", "10000 values, and there is room for 1000"),
        (_bomb(name=["\0" * 200_000] * 3), "MAX_UNPACKED_SIZE", "it has .* once it is unpacked"),
        (_bomb(name=["\0" * 200_000]), "MAX_PAGE_SIZE", "a page of it has .* once it is unpacked"),
    ],
)
def test_a_table_is_not_read_that_would_become_too_much(
    tmp_path: Path, frame: pl.DataFrame, limit: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame.write_parquet(tmp_path / "t.parquet", compression="zstd")
    assert (tmp_path / "t.parquet").stat().st_size < 10_000
    monkeypatch.setattr(f"harness.store.frames.{limit}", 1000)
    with pytest.raises(TableError, match=why):
        read_frame(tmp_path / "t.parquet", SERIES_SCHEMA)


def test_what_a_table_becomes_is_counted_page_by_page(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": ["word"] * 100_000, "b": range(100_000)})
    frame.write_parquet(tmp_path / "t.parquet", compression="zstd", row_group_size=10_000)
    with (tmp_path / "t.parquet").open("rb") as content:
        claimed = read_footer(content, (tmp_path / "t.parquet").stat().st_size)
    assert (claimed.rows, claimed.values) == (100_000, 200_000)
    assert 100_000 <= claimed.unpacked < frame.estimated_size()


def test_whatever_a_table_s_bytes_are_they_are_an_error_of_ours(tmp_path: Path) -> None:
    series = download_run().series
    assert series is not None
    series.write_parquet(tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 150)):
        content = bytearray(whole)
        content[at] ^= 0xFF
        (tmp_path / "t.parquet").write_bytes(content)
        try:
            read_frame(tmp_path / "t.parquet", SERIES_SCHEMA, exact=True)
        except (OSError, TableError):
            continue


def test_links_in_the_repository_s_own_folders_are_none() -> None:
    """Stores and images of this checkout are read by the same rules."""
    assert not read_tree(ROOT.resolve() / "results").links


# --- what endpoints leave


def _transfer(folder: Path, put: Callable[[Path], object]) -> Outcome | None:
    """What comes of a download in whose file's place something was put."""
    lab = build_lab(cell(), 0)
    flow = lab.flows[0]
    www = folder / "www"
    www.mkdir()
    (www / flow.file).write_bytes(b"served")
    (folder / "flow0").mkdir()
    put(received_file(folder, 0, 0))
    transfer = Transfer(flow=0, index=0, size=flow.size, started_ns=0, ended_ns=1, exit_code=0)
    return check_transfer(transfer, flow, folder, www).outcome


@pytest.mark.parametrize(
    ("put", "why"),
    [
        (lambda place: place.symlink_to(place.parents[1] / "www" / "100MB.bin"), "a link, which is not followed"),
        (lambda place: place.symlink_to("/dev/zero"), "a link, which is not followed"),
        (os.mkfifo, "a pipe, a socket or a device"),
        (lambda place: place.mkdir(), "a folder"),
    ],
)
def test_a_download_that_is_no_file_is_a_finding(tmp_path: Path, put: Callable[[Path], object], why: str) -> None:
    """A link to the served file would be the file to the last byte."""
    outcome = _transfer(tmp_path, put)
    assert outcome is not None and outcome.status == "wrong_file" and outcome.role == "client"
    assert outcome.detail.endswith(f"is no file but {why}")


def test_of_several_files_one_that_is_none_is_a_finding(tmp_path: Path, victim: Path) -> None:
    lab = build_lab(cell(scenario(flows=[{"files": [{"count": 3, "size": "1 KiB"}]}], objectives=[])), 0)
    flow = lab.flows[0]
    (tmp_path / "www" / flow.folder).mkdir(parents=True)
    path = tmp_path / "flow0" / "downloads"
    path.mkdir(parents=True)
    for lab_file in flow.files:
        (tmp_path / "www" / flow.folder / lab_file.name).write_bytes(b"x")
    (path / flow.files[0].name).symlink_to(tmp_path / "www" / flow.folder / flow.files[0].name)
    (path / "more").symlink_to(victim.parent)
    transfer = Transfer(flow=0, index=0, size=flow.size, started_ns=0, ended_ns=1, exit_code=0)
    file_comparison = check_transfer(transfer, flow, tmp_path, tmp_path / "www")
    assert file_comparison.wrong == f"{flow.files[0].name} is no file but a link, which is not followed"
    assert not (path / "more").is_symlink() and victim.read_text() == SECRET


def test_what_simulator_and_endpoints_said_is_not_read_behind_a_link(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "run" / "sim").mkdir(parents=True)
    victim.write_text('{"event": "kernel", "kernel": "lab", "release": "1"}\n')
    for name in ("sim/events.jsonl", "sim/random.json", "client0.log"):
        (tmp_path / "run" / name).symlink_to(victim)
    assert read_events(tmp_path / "run") == [] and random_bytes(tmp_path / "run") == {}
    assert tail(tmp_path / "run" / "client0.log") == ()


def test_a_run_in_containers_is_its_owner_s_alone_while_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts are there for any user of an image to write to, and so for any of the machine."""
    seen: list[int] = []

    def session(lab: Lab, folder: Path, *more: object) -> None:
        prepare_folder(lab, folder, tmp_path / "cache")
        seen.extend([folder.stat().st_mode & 0o777, (folder / "flow0" / "client").stat().st_mode & 0o777])
        raise EngineError("it is over")

    monkeypatch.setattr(compose_engine, "_Session", session)
    monkeypatch.setattr(compose_engine, "locked_served_files", lambda lab, cache: contextlib.nullcontext())
    engine = compose_engine.ComposeEngine(Cache(tmp_path / "cache"))
    store = Store(tmp_path / "store")
    folder = store.begin("0" * 16, 0)
    with pytest.raises(EngineError, match="it is over"):
        engine.run(build_lab(cell(), 0), folder, lambda phase: None)
    assert seen == [0o700, 0o777]


def test_what_is_stored_is_nobody_s_to_write_and_runs_as_nobody_else(tmp_path: Path) -> None:
    drawn = download_run()
    store = Store(tmp_path / "store")
    before = os.umask(0o027)
    try:
        partial = store.begin(drawn.run.cell.key, 0)
        (partial / "flow0" / "client").mkdir(parents=True)
        (partial / "flow0" / "client" / "shell").write_text("#!/bin/sh\n")
        (partial / "flow0" / "client" / "shell").chmod(0o6777)
        (partial / "flow0" / "client").chmod(0o1777)
        (partial / "flow0" / "link").symlink_to("/etc/passwd")
        partial.chmod(0o700)
        place = store.finish(partial, drawn.run, drawn.measured, drawn.series)
    finally:
        os.umask(before)
    modes = {name: (place / name).stat().st_mode & 0o7777 for name in (".", "flow0/client", "flow0/client/shell", RUN)}
    assert modes == {".": 0o750, "flow0/client": 0o750, "flow0/client/shell": 0o750, RUN: 0o640}


# --- the lab by hand


def _by_hand(folder: Path, cache: Path) -> CellResult:
    """A stored run in real time with the lab that was written for it."""
    tested_cell = cell()
    run = Run(cell=tested_cell, repetition=0, outcome=Outcome(status="completed"), started_at="")
    with Cache(cache).use("www/x"):
        prepare_folder(build_lab(tested_cell, 0), folder, cache)
    return CellResult(tested_cell, ((run, None),), Verdict(status="pass", reason="met", sentence=""), (folder,))


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("compose.yaml", ":/www:ro", ":/www"),
        ("compose.yaml", "volumes:\n    - ", "volumes:\n    - /:/host\n    - "),
        ("compose.yaml", "services:", "services:\n  mine: {image: a, privileged: true}"),
        ("cell.env", "LAB_OUT=./by-hand", "LAB_OUT=/root/.ssh"),
        ("cell.env", "LAB_PLAN=./plan", "LAB_PLAN=/"),
        ("cell.env", "/cache/www", "/home/www"),
        ("cell.env", "/cache/certs", "/home/certs"),
        ("cell.env", "LAB_OWNER=", "DOCKER_HOST=tcp://far:1\nLAB_OWNER="),
        ("cell.env", "LAB_OUT=./by-hand", "LAB_OUT=./by-hand\nLAB_OUT=/"),
    ],
)
def test_no_line_brings_up_a_lab_that_somebody_else_wrote(tmp_path: Path, file: str, before: str, after: str) -> None:
    result = _by_hand(tmp_path / "run", tmp_path / "cache")
    (tmp_path / "home" / "uses").mkdir(parents=True)
    assert result.reproduction.startswith("docker compose --env-file")
    text = (tmp_path / "run" / file).read_text()
    assert before in text
    (tmp_path / "run" / file).write_text(text.replace(before, after, 1))
    assert result.reproduction.startswith(f"harness run {cell().scenario.name} ")


def test_merging_takes_no_lab_that_is_to_be_brought_up(tmp_path: Path) -> None:
    store, run, place, _ = _store(tmp_path / "store")
    (place / "plan").mkdir()
    for name in ("compose.yaml", "cell.env", "plan/plan.json", "lab.json"):
        (place / name).write_text("{}")
    (place / "plan" / "link").symlink_to("/")
    own = Store(tmp_path / "own")
    merge_result = merge(own, [store])
    assert (merge_result.merged, merge_result.skipped) == (1, [])
    assert {file.name for file in own.folder(run.cell.key, 0).iterdir()} == {RUN, MEASURED, SERIES, "lab.json"}


def test_an_event_without_an_end_is_not_kept_until_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qlog_parameters, "_CHUNK", 1000)
    monkeypatch.setattr(qlog_parameters, "_LONGEST", 3000)
    (tmp_path / "a.qlog").write_bytes(b"x" * 100_000 + b"{}")
    assert max(map(len, qlog_parameters._parts(tmp_path / "a.qlog"))) <= 4000
