"""Images: their sizes, their contents compared with their records; and what the cache keeps of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.engine.images.build import ImageBuild
from harness.report.document import Column, Document, Paragraph, Row, Table


def images_document(images: Mapping[str, ImageBuild], absent: Mapping[str, str]) -> Document:
    """Each image with its size and build time, and the names of those that could not be built."""
    data = [
        {
            "name": name,
            "reference": item.reference,
            "bytes": item.size,
            "seconds": round(item.seconds, 1),
            "was_there": item.was_present,
            "error": item.error.message if item.error else None,
        }
        for name, item in images.items()
    ]
    columns = [
        Column("name", identifies=True),
        Column("image"),
        Column("MB", right=True),
        Column("s", right=True),
        Column(""),
    ]
    rows = []
    for name, item in images.items():
        state = "failed" if item.error else "was there" if item.was_present else "built"
        rows.append(Row([name, item.reference, f"{item.size / 1e6:.0f}", f"{item.seconds:.1f}", state]))
    notes = [Paragraph(f"{name}: not built here: {why}") for name, why in absent.items()]
    return Document({"schema": 1, "images": data}, [Table(columns, rows, "images"), *notes])


# --- Contents compared with records.


@dataclass(frozen=True)
class ImageCheck:
    """Result of inspecting one image."""

    reference: str
    recorded: bool
    """There is a record."""
    differences: Sequence[str]
    """What differs from the record, each a sentence."""

    @property
    def as_recorded(self) -> bool:
        """Whether there is a record, and nothing differs from it."""
        return self.recorded and not self.differences


def image_checks_document(checks: Mapping[str, ImageCheck]) -> Document:
    """A line per image that matches its record, and a line per difference of the others."""
    data = [
        {
            "name": name,
            "reference": check.reference,
            "recorded": check.recorded,
            "as_recorded": check.as_recorded,
            "differences": list(check.differences),
        }
        for name, check in checks.items()
    ]
    lines = [Paragraph(f"{name}: {line}") for name, check in checks.items() for line in _lines(name, check)]
    return Document({"schema": 1, "images": data}, lines)


def _lines(name: str, check: ImageCheck) -> Sequence[str]:
    if not check.recorded:
        return [f"no record yet: 'harness images {name} --record' writes it"]
    return check.differences or ["as recorded"]


# --- The cache.


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


def cache_document(cached: CacheContent) -> Document:
    """What there is, and what was removed. Sizes of the data are bytes on the disk."""
    data = {
        "schema": 1,
        "folder": cached.folder,
        "bytes": cached.bytes,
        "limit": cached.limit,
        "parts": [{"name": name, "entries": count, "bytes": size} for name, count, size in cached.parts()],
        "beside": dict(cached.beside),
        "removed": list(cached.removed),
    }
    columns = [Column("", identifies=True), Column("of them", right=True), Column("MB", right=True)]
    rows = [
        Row([name, "" if count is None else str(count), f"{size / 1e6:.1f}"]) for name, count, size in cached.parts()
    ]
    total = Row(["in all", "", f"{cached.bytes / 1e6:.1f}"], reference=True)
    lines = [
        f"limit: {cached.limit / 1e6:.0f} MB (HARNESS_CACHE_LIMIT); what was used least recently goes first",
        *(f"beside it: {place}, {size / 1e6:.1f} MB" for place, size in cached.beside.items()),
        *(f"removed {name}" for name in cached.removed),
    ]
    table = Table(columns, [*rows, total], f"cache: {cached.folder}")
    return Document(data, [table, *(Paragraph(line) for line in lines)])
