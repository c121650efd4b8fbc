"""Copies runs into a columnar store, where they replace older copies and older cells of the same point."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.analysis.interop.registry import case_of
from harness.engine.images.contents import Contents
from harness.errors import ResultError
from harness.evaluation.cell_result import CellResult, point_of
from harness.outcome import DirectionProof, Run
from harness.store.identity import Ledger, cell_key
from harness.store.parquet import ColumnStore, write_columns
from harness.store.parquet.tables import StoredRun
from harness.store.results import StoreReader, disk_error, is_columnar


@dataclass(frozen=True)
class PublishedRuns:
    """The result of a copy."""

    runs: int
    """Number of copied runs."""
    replaced: int
    """Number of cells that others have replaced."""


def publish_runs(
    root: Path, results: Sequence[CellResult], source: StoreReader, with_series: Callable[[Run], bool]
) -> PublishedRuns:
    """Copy runs of `source` into the columnar store below `root`. EngineError if the disk refuses; ResultError.

    `with_series`: whether a run's series are kept, too. A cell that differs from a newer one only in code and image
    versions is removed.
    """
    columns = _open_for_rewrite(root) if is_columnar(root) else None
    entries = {_place(entry): entry for entry in (columns.entries() if columns else ())}
    old_keys = {key for key, _ in entries}
    incoming = [
        StoredRun(run, measured, source.series(run.cell.key, run.repetition) if with_series(run) else None)
        for result in results
        for run, measured in result.runs
    ]
    entries |= {_place(entry): entry for entry in incoming}
    newest = _newest(list(entries.values()))
    remaining = [_evidence(entry) for entry in entries.values() if entry.run.cell.key in newest]
    contents = {content.digest: content for content in (columns.every_contents() if columns else ())}
    digests = {digest for entry in remaining for digest in entry.run.contents.values()}
    contents |= {digest: content for digest in sorted(digests) if (content := source.contents(digest)) is not None}
    _write(root, remaining, _select_contents(contents, digests))
    return PublishedRuns(len(incoming), len((old_keys | {key for key, _ in entries}) - newest))


def rekey(root: Path, ledger: Ledger) -> int:
    """Update the keys of the runs in the columnar store below `root` to a ledger. Returns how many keys changed.

    EngineError if the disk refuses; ResultError.
    """
    columns = _open_for_rewrite(root)
    entries = columns.entries()
    rekeyed = [_with_key(entry, ledger) for entry in entries]
    changed = sum(entry is not original for entry, original in zip(rekeyed, entries, strict=True))
    if changed:
        # If two runs get the same key and repetition, the one that began last is kept.
        places = {_place(entry): entry for entry in sorted(rekeyed, key=lambda entry: entry.run.started_at)}
        _write(root, list(places.values()), columns.every_contents())
    return changed


def _with_key(entry: StoredRun, ledger: Ledger) -> StoredRun:
    cell = entry.run.cell
    # A cell without a digest of its lab was made before such digests existed: its key cannot be computed again.
    key = cell_key(cell, ledger) if cell.compiled else cell.key
    if key == cell.key:
        return entry
    return replace(entry, run=entry.run.model_copy(update={"cell": cell.model_copy(update={"key": key})}))


def remove_cells(root: Path, keys: Collection[str]) -> None:
    """Remove cells, with their runs, from the columnar store `root`. EngineError if the disk refuses; ResultError."""
    columns = _open_for_rewrite(root)
    remaining = [entry for entry in columns.entries() if entry.run.cell.key not in keys]
    contents = {content.digest: content for content in columns.every_contents()}
    _write(
        root,
        remaining,
        _select_contents(contents, {digest for entry in remaining for digest in entry.run.contents.values()}),
    )


def _open_for_rewrite(root: Path) -> ColumnStore:
    """A store that is to be rewritten. It raises ResultError for an unreadable run, which would be lost."""

    def refuse(text: str) -> None:
        raise ResultError(
            f"{root} is not written: {text}",
            "use the harness that wrote it, or take it from the project's history again",
        )

    return ColumnStore(root, refuse)


def _write(root: Path, entries: Sequence[StoredRun], contents: Sequence[Contents]) -> None:
    try:
        write_columns(root, entries, contents)
    except OSError as error:
        raise disk_error(error, root) from error


def _evidence(entry: StoredRun) -> StoredRun:
    """For a run of a test case the data behind its verdict; for another all data, with the trail of a cell's first run.

    There are thousands of test case runs, and their other measurements would be most of the reference. Trails would be
    half of the rest. The digests of the captures are kept, so every run can be verified. The packet from which on
    another run differs can be found with a cell's first run.
    """
    run, measured = entry.run, entry.measured
    is_case = case_of(run.cell.scenario.name) is not None
    if run.trail and (is_case or run.repetition > 0):
        entry = replace(entry, run=run.model_copy(update={"trail": ""}))
    if measured is None or not is_case:
        return entry
    dropped = {"measurements": (), "observed": (), "absent": (), "moves": (), "attributed": None}
    link = measured.link
    if link is not None:
        empty_proof = DirectionProof()
        link = link.model_copy(update={"to_client": empty_proof, "to_server": empty_proof, "further": {}})
    return replace(entry, measured=measured.model_copy(update={**dropped, "link": link}))


def _place(entry: StoredRun) -> tuple[str, int]:
    return entry.run.cell.key, entry.run.repetition


def _newest(entries: Sequence[StoredRun]) -> set[str]:
    """Keys of the newest cell of each point, by the start of its last run."""
    last: dict[object, tuple[str, str]] = {}
    for entry in entries:
        point, start = point_of(entry.run.cell), (entry.run.started_at, entry.run.cell.key)
        last[point] = max(last.get(point, ("", "")), start)
    return {key for _, key in last.values()}


def _select_contents(contents: dict[str, Contents], digests: set[str]) -> list[Contents]:
    return [content for digest, content in sorted(contents.items()) if digest in digests]
