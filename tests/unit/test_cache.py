"""What is kept between runs: files shared, damage found and made good, size bounded, nothing removed that is in use."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli.entry import cli
from harness.engine import EngineResult
from harness.engine.images import rootfs_export
from harness.engine.images.cache import UNFINISHED, Cache
from harness.engine.images.contents import ContentsCache, folder_contents
from harness.engine.images.file_manifest import differences, entries, quick_digest
from harness.engine.images.hardlink_pool import HardlinkPool
from harness.engine.images.rootfs_export import DAMAGED, RootFileSystems
from harness.engine.served_files import MODIFIED, locked_served_files, make_served_files, served_file
from harness.engine.virtual.engine import VirtualEngine
from harness.errors import EngineError
from harness.outcome import Outcome
from harness.scenario.schema import Flow
from harness.topology import Lab, build_lab
from harness.topology.build import served_size
from harness.topology.spec import LabFile
from tests.examples import cell, path, scenario

LIBRARY, PROGRAM = "usr/lib/libz.so.1", "usr/bin/server"
_THEN = 1_700_000_000


def tree(root: Path, **other: str) -> Path:
    """A small root file system; `other`: files whose content is another, by their last name."""
    for name in (LIBRARY, PROGRAM, "usr/bin/twin", "etc/os-release"):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(other.get(file.name, "the same words" if "bin" in name else name))
        file.chmod(0o755 if "bin" in name else 0o644)
        os.utime(file, (_THEN, _THEN))
    os.link(root / PROGRAM, root / "usr/bin/alias")
    (root / "lib").symlink_to("usr/lib")
    for folder in ("usr/lib", "usr/bin", "usr", "etc"):
        os.utime(root / folder, (_THEN, _THEN))
    return root


def flip(file: Path) -> None:
    """Another byte, and the times as they were: what a disk does."""
    status = file.stat()
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def relink(root: Path) -> None:
    (root / "lib").unlink()
    (root / "lib").symlink_to("usr/bin")


@pytest.mark.parametrize(
    ("damage", "shows", "words"),
    [
        (lambda root: None, False, []),
        (lambda root: (root / LIBRARY).unlink(), True, [f"{LIBRARY} is missing"]),
        (lambda root: os.truncate(root / PROGRAM, 3), True, ["usr/bin/alias was changed", f"{PROGRAM} was changed"]),
        (lambda root: (root / PROGRAM).chmod(0o644), True, ["usr/bin/alias was changed", f"{PROGRAM} was changed"]),
        (lambda root: (root / "etc/new").touch(), True, ["etc was changed", "etc/new was added"]),
        (relink, True, ["lib was changed"]),
        (lambda root: flip(root / LIBRARY), False, [f"{LIBRARY} was changed"]),
    ],
    ids=["none", "deleted", "cut", "mode", "added", "link", "flipped"],
)
def test_two_looks_at_a_folder(tmp_path: Path, damage: Callable[[Path], None], shows: bool, words: list[str]) -> None:
    root = tree(tmp_path)
    seen, sealed = quick_digest(root), entries(root)
    damage(root)
    assert (quick_digest(root) != seen) == shows
    words_of_changes = differences(root, sealed)
    assert [change for change in words_of_changes if not change.startswith(("usr/lib was", "usr was"))] == words or set(
        words
    ) <= set(words_of_changes)
    assert bool(words_of_changes) == bool(words)


def test_a_folder_looks_as_it_did_when_its_files_are_shared(tmp_path: Path) -> None:
    pool = HardlinkPool(tmp_path / "files")
    file, other = tree(tmp_path / "one"), tree(tmp_path / "other", server="later words")
    for root in (file, other):
        seen, sealed = quick_digest(root), entries(root)
        pool.share(root, sealed, tmp_path / "link")
        assert quick_digest(root) == seen
        assert differences(root, sealed) == []
        # Names of one file, and equal files that are two.
        assert (root / PROGRAM).samefile(root / "usr/bin/alias")
        assert not (root / PROGRAM).samefile(root / "usr/bin/twin")
    assert (file / LIBRARY).samefile(other / LIBRARY)
    assert (file / "usr/bin/twin").read_text() == (other / "usr/bin/twin").read_text()
    assert not (file / PROGRAM).samefile(other / PROGRAM)
    assert not (tmp_path / "link").exists()


def test_what_was_damaged_in_the_pool_is_shared_with_nobody(tmp_path: Path) -> None:
    pool = HardlinkPool(tmp_path / "files")
    file, other = tree(tmp_path / "one"), tree(tmp_path / "other")
    pool.share(file, entries(file), tmp_path / "link")
    flip(file / LIBRARY)
    pool.share(other, entries(other), tmp_path / "link")
    assert (other / LIBRARY).read_text() == LIBRARY
    assert (file / "etc/os-release").samefile(other / "etc/os-release")
    # And the next has the sound one.
    third = tree(tmp_path / "third")
    pool.share(third, entries(third), tmp_path / "link")
    assert (third / LIBRARY).samefile(other / LIBRARY)


def test_the_pool_keeps_what_a_folder_has(tmp_path: Path) -> None:
    pool = HardlinkPool(tmp_path / "files")
    root = tree(tmp_path / "root")
    pool.share(root, entries(root), tmp_path / "link")
    assert len(list((tmp_path / "files").glob("*/*"))) == 4
    (root / LIBRARY).unlink()
    assert pool.prune() > 0
    assert len(list((tmp_path / "files").glob("*/*"))) == 3


class FakeDocker:
    """Images by their names, each a small tree."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.images = {"alpha:1": "sha256:" + "a" * 64, "beta:1": "sha256:" + "b" * 64}
        self.exports: list[str] = []
        self.answers = True
        monkeypatch.setattr(rootfs_export, "inspect_image", self._inspect)
        monkeypatch.setattr(rootfs_export, "image_ids", lambda: set(self.images.values()))
        monkeypatch.setattr(rootfs_export, "_extract", self._extract)

    def _inspect(self, reference: str) -> dict[str, Any] | None:
        if not self.answers:
            raise EngineError("the Docker daemon does not answer")
        if reference not in self.images:
            return None
        return {"Id": self.images[reference], "Config": {"Entrypoint": ["/usr/bin/server"]}}

    def _extract(self, reference: str, folder: Path) -> None:
        self.exports.append(reference)
        tree(folder, **{"os-release": reference})


def ids(of: Lab) -> dict[str, str]:
    """Images of a lab → IDs."""
    names = sorted({of.sim_image, *(host.image for host in of.hosts)})
    return {name: f"sha256:{number:064}" for number, name in enumerate(names)}


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    return FakeDocker(monkeypatch)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def test_images_are_exported_once_and_share_their_files(docker: FakeDocker, cache: Cache) -> None:
    exported = RootFileSystems(cache)
    with exported.use(["alpha:1", "beta:1", "alpha:1"]) as first:
        assert first.repaired == ()
        alpha, beta = (Path(first.roots[name].rootfs) for name in ("alpha:1", "beta:1"))
        assert (alpha / LIBRARY).samefile(beta / LIBRARY)
        assert not (alpha / "etc/os-release").samefile(beta / "etc/os-release")
    assert exported.of("alpha:1") == first.roots["alpha:1"]
    assert docker.exports == ["alpha:1", "beta:1"]
    assert not list(cache.roots.glob(f"{UNFINISHED}*"))
    # Wherever the cache is moved to, its files are there.
    moved = Cache(cache.folder.rename(cache.folder.with_name("moved")))
    assert Path(RootFileSystems(moved).of("beta:1").rootfs).is_relative_to(moved.folder)
    assert docker.exports == ["alpha:1", "beta:1"]
    assert ContentsCache(moved.folder).contents_of("beta:1", docker.images["beta:1"]).digest == folder_contents(
        Path(RootFileSystems(moved).of("beta:1").rootfs)
    ).digest  # fmt: skip


def test_an_export_whose_damage_shows_is_made_anew_and_that_is_said(docker: FakeDocker, cache: Cache) -> None:
    exported = RootFileSystems(cache)
    before = Path(exported.of("alpha:1").rootfs)
    beta = Path(exported.of("beta:1").rootfs)
    (before / LIBRARY).unlink()
    with exported.use(["alpha:1"]) as locked_roots:
        (text,) = locked_roots.repaired
        assert "alpha:1" in text and f"{LIBRARY} is missing" in text and "exported anew" in text
        now = Path(locked_roots.roots["alpha:1"].rootfs)
        assert now != before
        assert (now / LIBRARY).samefile(beta / LIBRARY)
        # Who runs on the old one is not disturbed: it goes when nobody uses it.
        assert before.is_dir() and (before.parent / DAMAGED).exists()
    assert cache.remove_orphans() == ["rootfs/" + "a" * 24 + ".0"]
    assert not before.exists() and now.is_dir()
    assert exported.of("alpha:1").rootfs == str(now)
    assert docker.exports == ["alpha:1", "beta:1", "alpha:1"]


def test_damage_that_does_not_show_is_found_on_suspicion(docker: FakeDocker, cache: Cache) -> None:
    exported = RootFileSystems(cache)
    roots = [exported.of("alpha:1"), exported.of("beta:1")]
    assert not exported.damaged(roots)
    flip(Path(roots[0].rootfs) / "etc/os-release")
    # This process has counted its files already; another has not.
    another = RootFileSystems(cache)
    assert another.damaged(roots)
    with another.use(["alpha:1", "beta:1"]) as locked_roots:
        (text,) = locked_roots.repaired
        assert "alpha:1" in text and "etc/os-release was changed" in text
        assert (Path(locked_roots.roots["alpha:1"].rootfs) / "etc/os-release").read_text() == "alpha:1"
    assert docker.exports == ["alpha:1", "beta:1", "alpha:1"]


def test_without_docker_an_export_is_used_and_a_damaged_one_is_named(docker: FakeDocker, cache: Cache) -> None:
    exported = RootFileSystems(cache)
    root = exported.of("alpha:1")
    docker.answers = False
    assert exported.of("alpha:1") == root
    docker.answers = True
    del docker.images["alpha:1"]
    assert exported.of("alpha:1") == root
    (Path(root.rootfs) / LIBRARY).unlink()
    later = RootFileSystems(cache)
    for why in ("Docker does not have it", "there is no image alpha:1"):
        with pytest.raises(EngineError, match=f"{LIBRARY} is missing.*cannot be exported anew: {why}") as caught:
            later.of("alpha:1")
        assert str(Path(root.rootfs).parent) in caught.value.message
        assert "start Docker" in caught.value.hint
    # It is built again next time, since nothing is known of it.
    assert exported.known("alpha:1") is None


def test_without_docker_an_export_is_known_by_every_name_that_its_image_had(docker: FakeDocker, cache: Cache) -> None:
    docker.images["another:1"] = docker.images["alpha:1"]
    exported = RootFileSystems(cache)
    root = exported.of("alpha:1")
    assert exported.of("another:1").rootfs == root.rootfs and docker.exports == ["alpha:1"]
    docker.answers = False
    assert RootFileSystems(cache).of("another:1") == replace(root, reference="another:1")
    assert RootFileSystems(cache).of("alpha:1") == root
    # A name that went to another image is that image's.
    docker.answers = True
    docker.images["another:1"] = docker.images["beta:1"]
    root_fs = exported.of("another:1")
    docker.answers = False
    assert root_fs.rootfs != root.rootfs and RootFileSystems(cache).of("another:1") == root_fs
    # And back.
    docker.answers = True
    docker.images["another:1"] = docker.images["alpha:1"]
    RootFileSystems(cache).of("another:1")
    docker.answers = False
    assert RootFileSystems(cache).of("another:1").rootfs == root.rootfs


def test_a_cache_that_does_not_do_is_named(docker: FakeDocker, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a folder")
    with pytest.raises(EngineError, match=str(tmp_path / "cache")) as caught:
        RootFileSystems(Cache(tmp_path / "cache")).of("alpha:1")
    assert "HARNESS_CACHE" in caught.value.hint


def test_a_cache_that_is_only_read_does(docker: FakeDocker, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is used; what cannot be locked is not removed."""
    exported = RootFileSystems(cache)
    root = exported.of("alpha:1")

    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("harness.engine.images.cache.os.open", refuse)
    assert RootFileSystems(cache).of("alpha:1") == root
    assert cache.tidy([]) == []
    assert Path(root.rootfs).is_dir()


def test_exports_go_when_no_image_needs_them_and_nobody_uses_them(docker: FakeDocker, cache: Cache) -> None:
    exported = RootFileSystems(cache)
    for name in ("alpha:1", "beta:1"):
        ContentsCache(cache.folder).contents_of(name, exported.of(name).id)
    broken_off = cache.roots / f"{UNFINISHED}1-1-0.1"
    broken_off.mkdir()
    needed = {docker.images["beta:1"]}
    with exported.use(["alpha:1"]):
        assert cache.tidy(needed) == [f"rootfs/{broken_off.name}"]
    # Where Docker does not answer all are needed.
    assert cache.tidy(None) == []
    assert not broken_off.exists()
    files = len(list((cache.folder / "files").glob("*/*")))
    assert cache.tidy(needed) == ["rootfs/" + "a" * 24]
    assert [cache_item.name for cache_item in cache.kept()] == ["rootfs/" + "b" * 24]
    assert [file.name[0] for file in (cache.folder / "contents").iterdir()] == ["b"]
    assert len(list((cache.folder / "files").glob("*/*"))) == files - 1
    assert (Path(exported.of("beta:1").rootfs) / LIBRARY).read_text() == LIBRARY


def lab(*flows: dict[str, str]) -> Lab:
    return build_lab(cell(scenario(flows=list(flows), objectives=[])), 0)


def test_a_large_served_file_costs_no_exported_image(tmp_path: Path) -> None:
    """Of images there is less than their half of the limit, and the oldest thing in the cache is one of them."""
    cache = Cache(tmp_path, limit=4 * 10**5)
    export = cache.roots / "a.1"
    export.mkdir(parents=True)
    (export / "content").write_bytes(bytes(10**5))
    (export / "export.json").write_text("{}")
    with locked_served_files(lab({"download": "100 kB"}), cache):
        pass
    with locked_served_files(lab({"download": "1 MB"}), cache):
        assert (export / "export.json").exists()
        assert [file.name for file in cache.www.iterdir()] == ["1MB.bin"]
    assert cache.bound() == ["www/1MB.bin"]
    assert (export / "export.json").exists()


def test_images_beyond_their_half_cost_no_served_file_within_its_own(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=4 * 10**5)
    with locked_served_files(lab({"download": "100 kB"}), cache):
        pass
    for name in ("a.1", "b.1"):
        (cache.roots / name).mkdir(parents=True)
        (cache.roots / name / "content").write_bytes(bytes(2 * 10**5))
        (cache.roots / name / "export.json").write_text("{}")
    assert cache.bound() == ["rootfs/a"]
    assert [file.name for file in cache.www.iterdir()] == ["100kB.bin"]


def test_the_cache_is_bounded_and_what_is_in_use_stays(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=3 * 10**5)
    for size in (101, 102, 103, 104):
        with locked_served_files(lab({"download": f"{size} kB"}), cache):
            pass
        os.utime(tmp_path / "uses" / f"www-{size}kB.bin", (size, size))
    assert sorted(file.name for file in cache.www.iterdir()) == ["103kB.bin", "104kB.bin"]
    with cache.use("www/103kB.bin"), locked_served_files(lab({"download": "105 kB"}), cache):
        assert sorted(file.name for file in cache.www.iterdir()) == ["103kB.bin", "105kB.bin"]
    # A run's own files are more than the limit: they stay while it lasts.
    with locked_served_files(lab({"download": "300 kB"}, {"download": "301 kB"}), cache):
        assert cache.bound() == []
        assert sorted(file.name for file in cache.www.iterdir()) == ["300kB.bin", "301kB.bin"]
    assert cache.bound() == ["www/300kB.bin", "www/301kB.bin"][: 2 if sum(cache.sizes().values()) else 1]


def test_what_is_served_is_made_again_when_it_was_written_to(tmp_path: Path) -> None:
    file = served_file(tmp_path, LabFile(name="f", size=1000))
    content = file.read_bytes()
    file.write_bytes(b"x" * 1000)
    assert served_file(tmp_path, LabFile(name="f", size=1000)).read_bytes() == content
    assert file.stat().st_mtime == MODIFIED
    with pytest.raises(EngineError, match="not a folder"):
        (tmp_path / "not a folder").touch()
        make_served_files(lab({"download": "1 kB"}), Cache(tmp_path / "not a folder"))


def test_flows_with_a_stop_share_a_handful_of_files() -> None:
    """Whatever their stops: 1, 2 or 5 times a power of ten, which the flow cannot use up."""
    file = path(forward={"rate": "10 Mbit/s", "delay": "1 s"})
    flows = [Flow.model_validate({"start": "1 s", "stop": f"{stop} s"}) for stop in range(2, 802, 2)]
    sizes = {served_size(flow, file).bytes for flow in flows}
    assert sizes == {step * 10**6 for step in (5, 10, 20, 50, 100, 200, 500, 1000)} | {
        size for size in sizes if size < 5 * 10**6
    }
    for flow in flows:
        assert flow.stop is not None
        assert (
            1.25e6 * (flow.stop.seconds - 1) < served_size(flow, file).bytes <= 2.5 * 1.25e6 * flow.stop.seconds + 2e6
        )


def _result(status: str, **overrides: Any) -> EngineResult:
    return EngineResult(Outcome.model_validate({"status": status, **overrides}))


@pytest.mark.parametrize(
    "fails",
    [
        _result("unsupported", role="server", exit_code=127, reason="exit_127"),
        _result("crashed", role="client", exit_code=127),
        _result("infrastructure", role="sim", reason="kernel_ended"),
        EngineError("/cache/linux: Exec format error"),
    ],
    ids=["127", "crash", "kernel", "not started"],
)
def test_a_damaged_export_is_nobodys_fault(
    docker: FakeDocker, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: EngineResult | EngineError
) -> None:
    """Damage that shows only in what comes of a run: the run is made again, on a new export, in an empty folder."""
    built_lab = lab({"download": "1 kB"})
    docker.images = ids(built_lab)
    folder = tmp_path / "run"
    folder.mkdir()
    ran: list[str] = []

    def run(
        self: VirtualEngine, lab: Lab, folder: Path, progress: object, roots: dict[str, Any], kernel: object
    ) -> EngineResult:
        assert not (folder / "left over").exists()
        server = Path(roots[lab.hosts[1].image].rootfs)
        ran.append(server.parent.name)
        (folder / "left over").touch()
        if (server / PROGRAM).read_text() == "the same words":
            return _result("completed")
        if isinstance(fails, EngineError):
            raise fails
        return fails

    monkeypatch.setattr(VirtualEngine, "_run", run)
    server = Path(RootFileSystems(cache).of(built_lab.hosts[1].image).rootfs)
    flip(server / PROGRAM)
    result = VirtualEngine(cache, [0]).run(built_lab, folder, lambda phase: None)
    assert result.outcome.status == "completed"
    assert len(ran) == 2 and ran[0] != ran[1]
    (text,) = result.warnings
    assert built_lab.hosts[1].image in text and text.endswith("exported anew, and the run made again")


def test_what_a_sound_export_did_is_what_it_did(
    docker: FakeDocker, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_lab = lab({"download": "1 kB"})
    docker.images = ids(built_lab)
    crashed = _result("crashed", role="client", exit_code=1)
    monkeypatch.setattr(VirtualEngine, "_run", lambda *_: crashed)
    (tmp_path / "run").mkdir()
    assert VirtualEngine(cache, [0]).run(built_lab, tmp_path / "run", lambda phase: None) == crashed


def test_the_cache_says_its_size(docker: FakeDocker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    for name in docker.images:
        RootFileSystems(cache).of(name)
    make_served_files(lab({"download": "100 kB"}), cache)
    (tmp_path / "script.js").write_bytes(b"x" * 5000)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    monkeypatch.setenv("HARNESS_CACHE_LIMIT", "2 GB")
    report = json.loads(CliRunner().invoke(cli, ["cache", "--json"]).stdout)
    assert (report["folder"], report["limit"]) == (str(tmp_path), 2 * 10**9)
    parts = {part["name"]: part for part in report["parts"]}
    assert (parts["exported images"]["entries"], parts["served files"]["entries"]) == (2, 1)
    assert 100_000 <= parts["served files"]["bytes"] < 110_000
    blocks = {file.stat().st_ino: file.lstat().st_blocks * 512 for file in tmp_path.rglob("*")}
    assert report["bytes"] == sum(part["bytes"] for part in report["parts"]) == sum(blocks.values())
    assert "served files" in CliRunner().invoke(cli, ["cache"]).stdout
