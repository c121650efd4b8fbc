"""Real kernels, real endpoints, real transfers. What these tests need is built by the harness itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.engine.images import rootfs_export
from harness.engine.images.cache import Cache
from harness.execution import App, CheckoutPaths
from tests.chaos.machine import stolen_share, stolen_shares
from tests.examples import ROOT
from tools.bench.virtual import busy_cores

#: A short path with everything on it: 40 ms, asymmetric, a queue of one BDP.
LINKS = {
    "forward": {"rate": "20 Mbit/s", "delay": "20 ms", "queue": "1 BDP"},
    "return": {"rate": "5 Mbit/s", "delay": "20 ms", "queue": "1 BDP"},
}


#: What this machine's harness keeps.
CACHE = Path(os.environ.get("HARNESS_CACHE") or ROOT / ".cache")
#: How often a command is given while the machine does not keep a link's time, and the seconds that all tests together may
#: spend on what the hypervisor spoils.
ATTEMPTS, PATIENCE = 4, 600.0
#: How early a client's move may seem, s: it counts from when it read its clock on sending its first datagram, and the
#: capture from when that datagram came by, a moment later; in real time that moment is as long as the machine wants.
EARLY = {"virtual": 1e-5, "compose": 1e-3}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)


@dataclass
class Patience:
    """Seconds that are left."""

    seconds_left: float = PATIENCE


_patience = Patience()


def _stacks() -> str:
    """Has a Docker daemon that does not answer write down what it is about (dockerd: SIGUSR1), and says where."""
    process = subprocess.run(["pkill", "-USR1", "-x", "dockerd"], check=False)
    return "its goroutines: /var/run/docker/goroutine-stacks-*.log" if process.returncode == 0 else ""


@dataclass(frozen=True)
class Harness:
    """The command line, with a store of its own."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def scenario(self, name: str, **overrides: object) -> str:
        """Write a scenario file and return its path."""
        content: dict[str, Any] = {
            "schema": 1,
            "title": name,
            "references": ["a test"],
            "path": LINKS,
            "flows": [{"download": "1 MB"}],
            "milestones": ["1 MB"],
            "timeout": "30 s",
            **overrides,
        }
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        return str(file)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "harness.cli", *words, "--store", str(self.store)]

    def run(self, *words: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HARNESS_PATIENCE": "30 s" if _patience.seconds_left > 0 else "0 s"}
        return subprocess.run(
            self.command("run", *words),
            capture_output=True, text=True, cwd=ROOT, env=environment, timeout=timeout, check=False,
        )  # fmt: skip

    def stolen_shares(self) -> list[float]:
        return stolen_shares(self.store)

    def run_until_proven(self, *words: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """`run`, and once more for what a busy machine has spoilt, as a user would. Nothing spoils virtual time.

        Skips the test where the hypervisor leaves no real time to test in; what spoils a run on a machine of its own is
        the harness's doing.
        """
        if "virtual" in words:
            return self.run(*words, timeout=timeout)
        for _ in range(ATTEMPTS):
            began = time.monotonic()
            process = self.run(*words, timeout=timeout)
            if not self.stolen_shares():
                return process
            words = tuple(word for word in words if word != "--fresh")
            if share := stolen_share(self.store):
                _patience.seconds_left -= time.monotonic() - began
                if _patience.seconds_left <= 0:
                    break
        if share:
            pytest.skip(f"no real time to be had: the hypervisor took {share:.0%} of the processor's")
        return process

    def cells(self, *words: str, timeout: float = 900) -> list[dict[str, Any]]:
        """The cells of `run --json`, as soon as every link is proven. Nothing is drawn: a test of drawings uses `run`."""
        process = self.run_until_proven(*words, "--json", "--no-figures", timeout=timeout)
        assert process.stdout, process.stderr + (_stacks() if "did not end within" in process.stderr else "")
        content = json.loads(process.stdout)
        assert content["schema"] == 2
        cells: list[dict[str, Any]] = content["cells"]
        return cells

    def check(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`harness check --json`."""
        return subprocess.run(
            self.command("check", *words, "--json"), capture_output=True, text=True, cwd=ROOT, timeout=900, check=False
        )

    def cell(self, *words: str, timeout: float = 900) -> dict[str, Any]:
        cells = self.cells(*words, timeout=timeout)
        assert len(cells) == 1
        return cells[0]


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """Make all images once, so that no test waits for them inside its own time."""
    warm_harness = Harness(tmp_path_factory.mktemp("warm"))
    process = subprocess.run(
        [sys.executable, "-m", "harness.cli", "images"],
        capture_output=True, text=True, cwd=ROOT, timeout=3600, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return warm_harness


def left_overs() -> list[str]:
    """Containers and networks of the harness that are on this machine."""
    label = "label=org.quic-lab.owner"
    listings: Sequence[Sequence[str]] = (
        ("ps", "--all", "--filter", label, "--format", "{{.Names}}"),
        ("network", "ls", "--filter", label, "--format", "{{.Name}}"),
    )
    return [
        name
        for listing in listings
        for name in subprocess.run(["docker", *listing], capture_output=True, text=True, check=True).stdout.split()
    ]


Manifest = Callable[..., Path]


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Writes an image.yaml that names a local image."""

    def write(name: str, image: str, **overrides: object) -> Path:
        file = tmp_path / name / "image.yaml"
        file.parent.mkdir()
        file.write_text(yaml.safe_dump({"schema": 1, "name": name, "image": image, **overrides}))
        return file

    return write


def local_image(name: str) -> str:
    """Reference of an implementation's image, as the harness builds it from this checkout's recipe."""
    app = _app()
    return app.inventory.image_of(app.catalogue.implementations()[name][0], lambda event: None, pull=False).reference


def _app() -> App:
    """What knows the images of this checkout."""
    return App(CheckoutPaths(ROOT, ROOT / "results", ROOT / ".state", CACHE))


def build_image(tag: str, folder: Path, *words: str) -> str:
    """Build a test image, labelled as the project's so that `harness clean` knows it."""
    subprocess.run(
        ["docker", "buildx", "build", "--load", "--quiet", "--label", "org.quic-lab.image=1", "--tag", tag, *words,
         str(folder)],
        check=True, capture_output=True,
    )  # fmt: skip
    return tag


def own_cache(cache: Path, implementation: str) -> Cache:
    """A cache with the exports of the simulator and an implementation, as folders of its own with links to the files."""
    app = _app()
    with app.root_file_systems.use([app.images.sim("lab").reference, local_image(implementation)]) as exported:
        for root in exported.roots.values():
            folder = Path(root.rootfs).parent
            own = cache / "rootfs" / folder.name
            # What is said of the files is copied: a test that changes them may say so without the other export's saying it.
            shutil.copytree(folder, own, ignore=shutil.ignore_patterns(rootfs_export.ROOT))
            shutil.copytree(folder / rootfs_export.ROOT, own / rootfs_export.ROOT, symlinks=True, copy_function=os.link)
    return Cache(cache)


@pytest.fixture(scope="module")
def work_on_every_core() -> Iterator[None]:
    """Other work on every core: what runs in virtual time may not depend on the machine being idle."""
    with busy_cores():
        yield
