from __future__ import annotations

import io
import json
import os
import re
import tarfile
from pathlib import Path

import pytest

from harness.engine.images import contents
from harness.engine.images.contents import Contents, ContentsCache, comparable, folder_contents
from harness.engine.images.file_manifest import entries, write_entries

_STATUS = """Package: openssl
Status: install ok installed
Version: 3.5.1-1
Description: a
 b: c

Package: gone
Status: deinstall ok config-files
Version: 1
"""
_FILES = {
    "var/lib/dpkg/status": _STATUS,
    "usr/bin/openssl": "program",
    "usr/lib/x/libssl.so.3": "library",
    "usr/local/bin/server": "ours",
    "opt/data.txt": "data",
    "var/log/dpkg.log": "today",
    "usr/lib/python3/__pycache__/a.pyc": "compiled today",
    "etc/hostname": "a",
}
_PROGRAMS = {"usr/bin/openssl", "usr/local/bin/server"}


def _tree(root: Path, files: dict[str, str] | None = None) -> Path:
    for name, content in (_FILES if files is None else files).items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        file.chmod(0o755 if name in _PROGRAMS else 0o644)
    (root / "lib").symlink_to("usr/lib")
    os.link(root / "usr/local/bin/server", root / "usr/local/bin/alias")
    return root


def _tar(root: Path) -> io.BytesIO:
    """The tree as `docker export` gives it, other times and owners included."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path in sorted(root.rglob("*"), reverse=True):
            member = archive.gettarinfo(str(path), str(path.relative_to(root)))
            member.mtime, member.uid = 7, 1000
            archive.addfile(member, path.open("rb") if member.isfile() else None)
    stream.seek(0)
    return stream


def test_packages_programs_and_libraries(tmp_path: Path) -> None:
    image_contents = folder_contents(_tree(tmp_path))
    assert image_contents.packages == {"openssl": "3.5.1-1"}
    assert set(image_contents.programs) == {
        f"/{name}" for name in (*_PROGRAMS, "usr/lib/x/libssl.so.3", "usr/local/bin/alias")
    }


def test_an_export_and_the_folder_it_fills_are_the_same(tmp_path: Path) -> None:
    root = _tree(tmp_path)
    assert contents._tar_contents(_tar(root)) == folder_contents(root)


@pytest.mark.parametrize(
    ("name", "content", "same"),
    [
        ("usr/local/bin/server", "our5", False),
        ("opt/data.txt", "other", False),
        ("opt/more.txt", "", False),
        ("var/lib/dpkg/status", _STATUS.replace("3.5.1-1", "3.5.1-2"), False),
        ("var/log/dpkg.log", "tomorrow", True),
        ("usr/lib/python3/__pycache__/a.pyc", "compiled tomorrow", True),
        ("etc/hostname", "b", True),
        ("var/cache/ldconfig/aux-cache", "inodes", True),
        # Of the day of the build: the day of the last change, and what was there before it.
        ("etc/shadow", "root:*:20783:0:99999:7:::", True),
        ("etc/passwd-", "root", True),
        ("var/lib/dpkg/status-old", "", True),
        ("etc/ssl/private/ssl-cert-snakeoil.key", "made when it was installed", True),
        ("etc/ssl/private/server.key", "somebody's", False),
        ("etc/passwd", "root:x:0:0::/root:/bin/sh", False),
        ("var/lib/dpkg/diversions", "/bin/sh", False),
    ],
)
def test_what_makes_another_image(tmp_path: Path, name: str, content: str, same: bool) -> None:
    image_contents = folder_contents(_tree(tmp_path / "one"))
    other = folder_contents(_tree(tmp_path / "other", _FILES | {name: content}))
    assert (image_contents.digest == other.digest) == same


def test_a_link_to_a_certificate_that_an_installation_made_does_not(tmp_path: Path) -> None:
    root = _tree(tmp_path)
    before = folder_contents(root)
    (root / "4e920119.0").symlink_to("ssl-cert-snakeoil.pem")
    assert folder_contents(root) == before
    (root / "5e920119.0").symlink_to("ISRG_Root_X1.pem")
    assert folder_contents(root) != before


def test_digests_are_comparable_by_their_rule() -> None:
    assert comparable("a0", "b1")
    assert comparable("2-a0", "2-b1")
    assert not comparable("a0", "2-a0")
    assert not comparable("2-a0", "3-a0")


def test_a_digest_is_a_file_name_with_the_mark_of_its_rule(tmp_path: Path) -> None:
    assert re.fullmatch(r"3-[0-9a-f]{32}", folder_contents(_tree(tmp_path)).digest)


def test_an_execute_bit_does(tmp_path: Path) -> None:
    root = _tree(tmp_path)
    before = folder_contents(root)
    (root / "opt/data.txt").chmod(0o755)
    assert folder_contents(root).digest != before.digest


def test_an_image_is_looked_into_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def export(reference: str) -> Contents:
        asked.append(reference)
        return Contents("3-d", {}, {})

    monkeypatch.setattr(contents, "exported_contents", export)
    contents_cache = ContentsCache(tmp_path)
    assert (
        contents_cache.contents_of("example/a:1", "sha256:0123")
        == contents_cache.contents_of("example/a:1", "sha256:0123")
        == Contents("3-d", {}, {})
    )
    assert asked == ["example/a:1"]
    # A damaged note of it is no answer.
    next((tmp_path / "contents").iterdir()).write_text("{")
    assert contents_cache.contents_of("example/a:1", "sha256:0123").digest == "3-d"
    assert len(asked) == 2
    assert contents_cache.by_digest("3-d") == Contents("3-d", {}, {})
    assert contents_cache.by_digest("3-e") is None
    # Nor is one by a former rule.
    for number, digest in enumerate(("d", "2-d"), 3):
        next((tmp_path / "contents").iterdir()).write_text(
            json.dumps({"digest": digest, "packages": {}, "programs": {}})
        )
        assert contents_cache.contents_of("example/a:1", "sha256:0123").digest == "3-d"
        assert len(asked) == number


def test_an_exported_image_needs_no_docker(tmp_path: Path) -> None:
    root = _tree(tmp_path / "rootfs" / "0123.0" / "rootfs")
    (root.parent / "export.json").touch()
    write_entries(root.parent / "files.json", entries(root))
    assert ContentsCache(tmp_path).contents_of("example/a:1", "sha256:0123") == folder_contents(root)
