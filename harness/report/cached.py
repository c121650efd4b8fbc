"""Content of the cache, for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

#: Rows of the table: (name, its folders in the cache). All other folders share the last row.
_PARTS = (
    ("exported images", ("rootfs", "files")),
    ("served files", ("www",)),
    ("what was found in images", ("contents",)),
)
_OTHER_FOLDERS = "certificates and the like"


@dataclass(frozen=True)
class CacheContent:
    """What `harness cache` shows."""

    folder: str
    limit: int
    """Bytes."""
    sizes: Mapping[str, int]
    """Bytes on the disk, by folder of the cache."""
    entries: Mapping[str, int]
    """Folder of the cache → how many things in it can go by themselves."""
    removed: Sequence[str]
    """What was removed just now."""
    beside: Mapping[str, int]
    """Bytes of what is kept in other places, by folder: no limit holds for them."""

    @property
    def bytes(self) -> int:
        """Size of the whole cache, bytes."""
        return sum(self.sizes.values())

    def parts(self) -> list[tuple[str, int | None, int]]:
        """(name, number of entries or None where they are not counted, bytes) per row."""
        named = {folder for _, folders in _PARTS for folder in folders}
        rows = [
            (name, self.entries.get(folders[0]), sum(self.sizes.get(folder, 0) for folder in folders))
            for name, folders in _PARTS
        ]
        return [*rows, (_OTHER_FOLDERS, None, sum(size for folder, size in self.sizes.items() if folder not in named))]


def cached_json(cached: CacheContent) -> dict[str, Any]:
    """What `cache --json` prints; sizes are bytes on the disk."""
    return {
        "schema": 1,
        "folder": cached.folder,
        "bytes": cached.bytes,
        "limit": cached.limit,
        "parts": [{"name": name, "entries": count, "bytes": size} for name, count, size in cached.parts()],
        "beside": dict(cached.beside),
        "removed": list(cached.removed),
    }


def show_cached(cached: CacheContent, console: Console) -> None:
    """Print what there is, and what was removed."""
    table = Table(title=f"cache: {cached.folder}", title_justify="left", header_style="bold", show_footer=True)
    table.add_column("", footer="in all")
    table.add_column("of them", justify="right")
    table.add_column("MB", justify="right", footer=f"{cached.bytes / 1e6:.1f}")
    for name, count, size in cached.parts():
        table.add_row(name, "" if count is None else str(count), f"{size / 1e6:.1f}")
    console.print(table)
    console.print(
        f"limit: {cached.limit / 1e6:.0f} MB (HARNESS_CACHE_LIMIT); what was used least recently goes first",
        markup=False,
        soft_wrap=True,
    )
    for place, size in cached.beside.items():
        console.print(f"beside it: {place}, {size / 1e6:.1f} MB", markup=False, soft_wrap=True)
    for name in cached.removed:
        console.print(f"removed {name}", markup=False, soft_wrap=True)
