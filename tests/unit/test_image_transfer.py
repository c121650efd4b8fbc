"""Images on their way to another machine: what arrives is what was sent, to the last byte, or it is refused."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from harness.engine.images.cache import Cache
from harness.engine.images.contents import ContentsCache
from harness.engine.images.file_manifest import entries, write_entries
from harness.engine.images.rootfs_export import FILES, ROOT, RootFileSystems, RootFs, write_manifest
from harness.errors import EngineError
from harness.execution.cluster import image_transfer
from harness.execution.cluster.image_transfer import ParcelSource, ReceivedRoots, SentImage

IMAGE = "sha256:" + "ab" * 32


def export(folder: Path) -> Path:
    """An exported image with everything that a root file system has, but devices."""
    root = folder / ROOT
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/tool").write_bytes(os.urandom(100_000))
    (root / "usr/bin/tool").chmod(0o755)
    (root / "usr/bin/same").hardlink_to(root / "usr/bin/tool")
    (root / "usr/bin/equal").write_bytes((root / "usr/bin/tool").read_bytes())
    (root / "usr/bin/name").symlink_to("../bin/tool")
    (root / "empty").touch()
    os.mkfifo(root / "pipe")
    (root / "closed").mkdir()
    (root / "closed/in").write_text("in")
    os.utime(root / "usr/bin/tool", ns=(123_456_789, 987_654_321_123_456_789))
    (root / "closed").chmod(0o555)
    write_entries(folder / FILES, entries(root))
    return folder


def sent(export: Path) -> SentImage:
    digest = image_transfer.parcel_digest(image_transfer.parcel_head(export))
    return SentImage("lab/one:1", IMAGE, IMAGE, ("run",), ("A=1",), "/", "", 15, digest)


def test_what_arrives_is_what_was_sent(tmp_path: Path) -> None:
    path, file = export(tmp_path / "one"), tmp_path / "there"
    file.mkdir()
    unpacked = image_transfer.unpack(
        image_transfer.parcel_pieces(path), image_transfer.parcel_digest(image_transfer.parcel_head(path)), file
    )
    assert unpacked == entries(path / ROOT) == entries(file)
    assert (file / "usr/bin/same").samefile(file / "usr/bin/tool")
    assert not (file / "usr/bin/equal").samefile(file / "usr/bin/tool")
    assert stat.S_IMODE((file / "usr/bin/tool").stat().st_mode) == 0o755


def _changed(export: Path) -> bytes:
    """A parcel with one other byte in a file, well packed."""
    whole = bytearray(
        zstandard.ZstdDecompressor().decompressobj().decompress(b"".join(image_transfer.parcel_pieces(export)))
    )
    whole[-1] ^= 1
    return zstandard.ZstdCompressor().compress(bytes(whole))


def _outside(export: Path) -> bytes:
    head = json.loads(image_transfer.parcel_head(export))
    head["entries"][0][0] = "../outside"
    header = json.dumps(head, separators=(",", ":")).encode()
    return zstandard.ZstdCompressor().compress(len(header).to_bytes(8, "big") + header)


@pytest.mark.parametrize("how", ["changed", "cut", "torn", "more", "other"])
def test_what_is_not_what_was_asked_for_is_refused(tmp_path: Path, how: str) -> None:
    path, file = export(tmp_path / "one"), tmp_path / "there"
    file.mkdir()
    whole, digest = (
        b"".join(image_transfer.parcel_pieces(path)),
        image_transfer.parcel_digest(image_transfer.parcel_head(path)),
    )
    arriving = {
        "changed": _changed(path), "cut": whole[: len(whole) // 2],
        "torn": whole[:500] + bytes([whole[500] ^ 0xFF]) + whole[501:],
        "more": zstandard.ZstdCompressor().compress(zstandard.decompress(whole, 10**7) + b"more"),
        "other": _outside(path),
    }[how]  # fmt: skip
    with pytest.raises(EngineError, match="not what was asked for"):
        image_transfer.unpack([arriving], digest, file)
    assert not (tmp_path / "outside").exists()


class Sender:
    """Counts what it was asked for."""

    def __init__(self, export: Path) -> None:
        self._export = export
        self.requested = list[str]()
        self.damaged = False

    def __call__(self, digest: str) -> Iterator[bytes]:
        self.requested.append(digest)
        if self.damaged:
            yield _changed(self._export)
        else:
            yield from image_transfer.parcel_pieces(self._export)


def test_an_image_travels_once_and_again_only_where_it_was_damaged(tmp_path: Path) -> None:
    path = export(tmp_path / "one")
    image, sender, cache = sent(path), Sender(path), Cache(tmp_path / "cache")

    def root() -> RootFs:
        # Each is another worker's process.
        return ReceivedRoots(cache, {image.reference: image}, sender).of(image.reference)

    root_fs = root()
    assert (root_fs.id, root_fs.command, root_fs.reference) == (IMAGE, ["run"], "lab/one:1")
    assert entries(Path(root_fs.rootfs)) == entries(path / ROOT)
    assert root() == root_fs and sender.requested == [image.parcel]
    (Path(root_fs.rootfs) / "usr/bin/tool").write_bytes(b"something else")
    assert entries(Path(root().rootfs)) == entries(path / ROOT)
    assert sender.requested == [image.parcel] * 2


def test_what_a_worker_keeps_is_bounded(tmp_path: Path) -> None:
    path = export(tmp_path / "one")
    image, cache = sent(path), Cache(tmp_path / "cache", limit=0)
    old = SentImage("lab/old:1", "sha256:" + "cd" * 32, "old", ("run",), (), "/", "", 15, image.parcel)
    for sent_image in (old, image):
        ReceivedRoots(cache, {sent_image.reference: sent_image}, Sender(path)).of(sent_image.reference)
    # What is in use stays until it is not.
    assert [cache_item.name for cache_item in cache.kept()] == ["rootfs/" + "ab" * 12]


def test_a_tampered_image_is_refused_by_name_and_leaves_nothing(tmp_path: Path) -> None:
    path = export(tmp_path / "one")
    image, sender, cache = sent(path), Sender(path), Cache(tmp_path / "cache")
    sender.damaged = True
    with pytest.raises(EngineError, match="the image lab/one:1 did not arrive"):
        ReceivedRoots(cache, {image.reference: image}, sender).of(image.reference)
    assert list(cache.roots.iterdir()) == []


def test_a_depot_lays_parcels_down_where_workers_read_them(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    folder = export(cache.roots / f"{'ab' * 12}.0")
    root = RootFs("lab/one:1", IMAGE, IMAGE, str(folder / ROOT), ["run"], [], "/", "", 15)
    write_manifest(root, entries(folder / ROOT))

    class Here(RootFileSystems):
        def _image(self, reference: str) -> tuple[str, None]:
            return IMAGE, None

    files = tmp_path / "files"
    with ParcelSource(Here(cache), ContentsCache(cache.folder), str(files)) as depot:
        image = depot.describe("lab/one:1")
        assert b"".join(depot.pieces(image.parcel)) == (files / f"{image.parcel}.parcel").read_bytes()
        assert [file.name for file in files.iterdir()] == [f"{image.parcel}.parcel"]
        with pytest.raises(EngineError, match="the driver has no image"):
            next(depot.pieces("0" * 32))
        assert not cache.remove(cache.kept()[0])
    assert cache.remove(cache.kept()[0])
