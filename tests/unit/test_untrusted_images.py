"""What a stranger's image, or a worker's answer, may try with the disk of the machine that takes it."""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from simulator.container import Image

from harness.engine.images import contents, rootfs_export
from harness.engine.images.cache import EXPORT, Cache
from harness.engine.images.contents import folder_contents
from harness.engine.images.file_manifest import (
    differences,
    entries,
    quick_digest,
    read_entries,
    strip_privileges,
    write_entries,
)
from harness.engine.images.rootfs_export import FILES, ROOT, SET_IDS, RootFileSystems, RootFs
from harness.engine.virtual.guest_config import world_document
from harness.errors import EngineError
from harness.execution import cluster_backend
from harness.execution.cluster import image_transfer
from harness.execution.cluster.image_transfer import ReceivedRoots, SentImage
from harness.execution.cluster.messages import RunAnswer
from harness.topology import build_lab
from tests.examples import cell

IMAGE = "sha256:" + "a" * 64


def armed(root: Path) -> Path:
    """A root file system with programs that run as their owner or group, whoever starts them."""
    (root / "usr/bin").mkdir(parents=True)
    for name, mode in (("su", 0o4755), ("wall", 0o2755), ("both", 0o6711), ("plain", 0o755)):
        (root / "usr/bin" / name).write_text(name)
        (root / "usr/bin" / name).chmod(mode)
    (root / "usr/bin/alias").hardlink_to(root / "usr/bin/su")
    (root / "mail").mkdir()
    (root / "mail").chmod(0o2775)
    return root


def modes(root: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.lstat().st_mode) for file in (root / "usr/bin").iterdir()}


ARMED = {"usr/bin/su": 0o4755, "usr/bin/alias": 0o4755, "usr/bin/wall": 0o2755, "usr/bin/both": 0o6711}
HARMLESS = {"su": 0o755, "alias": 0o755, "wall": 0o755, "both": 0o711, "plain": 0o755}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A cache, and a Docker with one image."""
    image = {"Id": IMAGE, "Config": {"Entrypoint": ["/usr/bin/plain"], "User": "nobody"}}
    monkeypatch.setattr(rootfs_export, "inspect_image", lambda reference: image)
    monkeypatch.setattr(rootfs_export, "image_ids", lambda: {IMAGE})
    monkeypatch.setattr(rootfs_export, "_extract", lambda reference, folder: armed(folder))
    return Cache(tmp_path / "cache")


def test_no_program_of_an_image_runs_as_its_owner_on_this_disk(cache: Cache) -> None:
    root = RootFileSystems(cache).of("strange:1")
    assert modes(Path(root.rootfs)) == HARMLESS
    # What it was is there for who gives it to a guest, by whichever name it is asked for.
    assert root.set_ids == ARMED == RootFileSystems(cache).of("other:1").set_ids
    sealed = read_entries(Path(root.rootfs).parent / FILES)
    assert not [entry for entry in sealed if entry.is_file and entry.mode & 0o6000]
    assert {stat.S_IMODE(entry.mode) for entry in sealed if entry.path == "mail"} == {0o2775}
    assert not RootFileSystems(cache).damaged([root])


def test_nobody_else_comes_to_the_cache_or_its_images(cache: Cache) -> None:
    before = os.umask(0)
    try:
        root = RootFileSystems(cache).of("strange:1")
    finally:
        os.umask(before)
    for place in (cache.folder, cache.roots, cache.folder / "files", Path(root.rootfs).parent):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700, place
    # A guest sees the modes of the image from its root on.
    assert stat.S_IMODE(Path(root.rootfs).stat().st_mode) & 0o055 == 0o055


def test_a_cache_that_was_open_is_closed_and_other_folders_stay_as_they_are(tmp_path: Path) -> None:
    for name in ("cache/uses", "cache/rootfs", "cache/www", "shared/uses", "home/documents"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "cache").chmod(0o755)
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "home").chmod(0o755)
    for name in ("cache", "shared", "home"):
        Cache(tmp_path / name)
    kept = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("cache", "cache/rootfs", "cache/www",
                                                                             "shared", "home")}  # fmt: skip
    assert kept == {"cache": 0o700, "cache/rootfs": 0o700, "cache/www": 0o755, "shared": 0o1777, "home": 0o755}


def test_an_export_of_an_older_harness_is_disarmed_where_it_is(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Docker: the image may be gone."""
    root = RootFileSystems(cache).of("strange:1")
    folder = Path(root.rootfs).parent
    # As it was written before: nobody said which programs those were, since they still were.
    for path, mode in ARMED.items():
        (folder / ROOT / path).chmod(mode)
    content = json.loads((folder / EXPORT).read_text())
    del content[SET_IDS]
    (folder / EXPORT).write_text(json.dumps({**content, "appearance": quick_digest(folder / ROOT)}))
    write_entries(folder / FILES, entries(folder / ROOT))
    folder.chmod(0o755)
    monkeypatch.setattr(rootfs_export, "inspect_image", lambda reference: None)
    later = RootFileSystems(cache)
    assert later.of("strange:1") == root
    assert modes(folder / ROOT) == HARMLESS and stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert differences(folder / ROOT, read_entries(folder / FILES)) == [] and not later.damaged([root])
    # Damage shows as it did.
    (folder / ROOT / "usr/bin/su").write_text("other")
    with pytest.raises(EngineError, match="usr/bin/su was changed"):
        RootFileSystems(cache).of("strange:1")


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else can make a device")
def test_devices_do_not_stay_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "opt").mkdir()
    os.mknod(tmp_path / "opt" / "disk", stat.S_IFBLK | 0o666, os.makedev(8, 0))
    os.mknod(tmp_path / "opt" / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    os.mkfifo(tmp_path / "opt" / "pipe")
    assert strip_privileges(tmp_path) == {}
    assert [file.name for file in (tmp_path / "opt").iterdir()] == ["pipe"]


def test_a_guest_gets_them_back_where_it_is_not_root(cache: Cache) -> None:
    """To root they give nothing: what it is told is what it was told before."""
    root = RootFileSystems(cache).of("strange:1")
    lab = build_lab(cell(engine="virtual"), 0)
    for user, given in (("nobody", ARMED), ("", None), ("root", None), ("0:0", None)):
        images = {host.name: replace(root, user=user) for host in lab.hosts}
        image = world_document(lab, images, 1)["hosts"][0]["image"]
        assert image.get("set_ids") == given
        assert image.keys() - {"set_ids"} == {
            "reference", "rootfs", "command", "environment", "working_dir", "user", "stop_signal"
        }  # fmt: skip
        assert Image(**image).set_ids == (given or {})


def test_what_is_in_an_image_is_not_read_from_outside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Package: secret\nStatus: install ok installed\nVersion: 1\n"
    (tmp_path / "status").write_text(text)
    (tmp_path / "root/var/lib").mkdir(parents=True)
    (tmp_path / "root/var/lib/dpkg").symlink_to(tmp_path)
    assert folder_contents(tmp_path / "root").packages == {}
    (tmp_path / "root/var/lib/dpkg").unlink()
    (tmp_path / "root/var/lib/dpkg").mkdir()
    os.mkfifo(tmp_path / "root/var/lib/dpkg/status")
    assert folder_contents(tmp_path / "root").packages == {}
    (tmp_path / "root/var/lib/dpkg/status").unlink()
    (tmp_path / "root/var/lib/dpkg/status").write_text(text)
    assert folder_contents(tmp_path / "root").packages == {"secret": "1"}
    monkeypatch.setattr(contents, "_MOST_STATUS", 10)
    assert folder_contents(tmp_path / "root").packages == {}


# --- parcels


def _entry(path: str, mode: int = stat.S_IFREG | 0o644, size: int = 0, content: str = "") -> list[Any]:
    return [path, mode, size, 1, content]


_FOLDER = stat.S_IFDIR | 0o755


@pytest.mark.parametrize(
    ("listed", "links", "why"),
    [
        ([_entry("../outside")], {}, "lies outside"),
        ([_entry("/outside")], {}, "lies outside"),
        ([_entry("a", stat.S_IFLNK | 0o777, 0, ".."), _entry("a/outside")], {}, "in no folder of its own"),
        ([_entry("a"), _entry("a")], {}, "in no folder of its own"),
        ([_entry("a/b")], {}, "in no folder of its own"),
        ([_entry("su", stat.S_IFREG | 0o4755)], {}, "runs as its owner"),
        ([_entry("su", stat.S_IFREG | 0o2755)], {}, "runs as its owner"),
        ([_entry("a")], {"a": "../../outside"}, "another name of no file"),
        ([_entry("d", _FOLDER), _entry("a")], {"a": "d"}, "another name of no file"),
        ([_entry("a", size=1 << 60)], {}, "are free"),
        ([_entry("disk", stat.S_IFBLK | 0o666)], {}, "is no file, folder or link"),
        ([["a"]], {}, "not what was asked for"),
        ([_entry("a")], [], "not what was asked for"),
    ],
)
def test_a_parcel_with_what_no_export_has_is_refused(
    tmp_path: Path, listed: list[list[Any]], links: Any, why: str
) -> None:
    """Its digest is that of its head, which whoever made it chose."""
    head = json.dumps({"entries": listed, "links": links}).encode()
    arriving = zstandard.ZstdCompressor().compress(len(head).to_bytes(8, "big") + head)
    (tmp_path / "outside").write_text("own")
    (tmp_path / "there" / "root").mkdir(parents=True)
    with pytest.raises(EngineError, match=f"not what was asked for.*{why}|{why}"):
        image_transfer.unpack([arriving], image_transfer.parcel_digest(head), tmp_path / "there" / "root")
    assert (tmp_path / "outside").read_text() == "own" and not list(tmp_path.glob("there/outside"))


def test_what_ran_as_its_owner_is_known_where_an_image_has_travelled_to(cache: Cache, tmp_path: Path) -> None:
    root = RootFileSystems(cache).of("strange:1")
    export = Path(root.rootfs).parent
    sent = SentImage.from_root(root, image_transfer.parcel_digest(image_transfer.parcel_head(export)))
    there = Cache(tmp_path / "there")
    arrived: RootFs = ReceivedRoots(there, {"strange:1": sent}, lambda digest: image_transfer.parcel_pieces(export)).of(
        "strange:1"
    )
    assert arrived.set_ids == ARMED and modes(Path(arrived.rootfs)) == HARMLESS
    assert RootFileSystems(there).known("strange:1") == arrived
    assert stat.S_IMODE(Path(arrived.rootfs).parent.stat().st_mode) == 0o700


# --- what workers answer


def _archive(*members: tuple[str, bytes, str]) -> bytes:
    """(name, kind, target or content)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar_file:
        for name, kind, text in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, 0o6777
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                member.linkname = text
            member.size = len(text) if kind == tarfile.REGTYPE else 0
            tar_file.addfile(member, io.BytesIO(text.encode()) if kind == tarfile.REGTYPE else None)
    return buffer.getvalue()


def test_of_a_worker_s_archive_files_alone_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "partial"
    folder.mkdir()
    (tmp_path / "secret").write_text("own")
    archive = _archive(
        ("sim", tarfile.DIRTYPE, ""), ("sim/a", tarfile.REGTYPE, "content"), ("sim/same", tarfile.LNKTYPE, "sim/a"),
        ("sim/out", tarfile.SYMTYPE, ".."), ("sim/file", tarfile.SYMTYPE, "../../secret"), ("pipe", tarfile.FIFOTYPE, ""),
        ("deep/er/b", tarfile.REGTYPE, "b"),
    )  # fmt: skip
    before = os.umask(0o022)
    try:
        cluster_backend._write(
            RunAnswer("w", "h", files={"run.json": b"{}", "plan/plan.json": b"{}"}, archive=archive), folder
        )
    finally:
        os.umask(before)
    written = {file.relative_to(folder).as_posix(): file.read_text() for file in folder.rglob("*") if file.is_file()}
    assert written == {"run.json": "{}", "plan/plan.json": "{}", "sim/a": "content", "sim/same": "content",
                       "deep/er/b": "b"}  # fmt: skip
    assert stat.S_IMODE((folder / "sim/a").stat().st_mode) == 0o644
    assert not [path for path in folder.rglob("*") if path.is_symlink() or path.is_fifo()]


@pytest.mark.parametrize(
    ("files", "members"),
    [
        ({"../x": b""}, ()),
        ({"/x": b""}, ()),
        ({"..": b""}, ()),
        ({}, (("../x", tarfile.REGTYPE, ""),)),
        ({}, (("/x", tarfile.REGTYPE, ""),)),
        ({}, (("a", tarfile.REGTYPE, ""), ("a", tarfile.REGTYPE, ""))),
        ({"a": b""}, (("a", tarfile.REGTYPE, ""),)),
        ({}, (("a", tarfile.SYMTYPE, ".."), ("a/x", tarfile.REGTYPE, ""), ("a", tarfile.REGTYPE, ""))),
        ({}, (("a", tarfile.GNUTYPE_SPARSE, ""),)),
    ],
)
def test_an_answer_that_writes_elsewhere_or_twice_is_refused(
    tmp_path: Path, files: dict[str, bytes], members: tuple[tuple[str, bytes, str], ...]
) -> None:
    (tmp_path / "partial").mkdir()
    answer = RunAnswer("w", "h", files=files, archive=_archive(*members) if members else b"")
    with pytest.raises((OSError, ValueError, tarfile.TarError)):
        cluster_backend._write(answer, tmp_path / "partial")
    assert [file.name for file in tmp_path.iterdir()] == ["partial"]
