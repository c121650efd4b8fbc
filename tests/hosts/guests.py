"""What the guests of these tests are made from: images of this checkout, and a folder that host and guest share."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.execution import App, CheckoutPaths
from harness.outcome import MeasuredRun, Run
from harness.store.provenance import copy_tracked_files
from tests.examples import ROOT
from tests.lab.conftest import CACHE, build_image

FOLDER = Path(__file__).parent
#: Authorities of this machine: a proxy may sign for the sources of packages.
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
#: The words of `docker build` that hand them on.
AUTHORITIES = ("--secret", f"id=ca,src={_AUTHORITIES}") if _AUTHORITIES.exists() else ()


def app_with(store: Path) -> App:
    return App(CheckoutPaths(ROOT, store, ROOT / ".state", CACHE))


def build_images(names: Sequence[str]) -> list[str]:
    """Build the simulator for the host's kernel and implementations. Their references, the simulator's first."""
    app = app_with(ROOT / "results")
    implementations = app.catalogue.implementations()
    builds = [app.images.sim_build("host"), *(app.images.build_of(*implementations[name]) for name in names)]
    references = []
    for build in builds:
        assert build is not None
        app.images.make(build, lambda name, seconds: None)
        references.append(build.reference)
    return references


def build_docker_guest(simulator: str, scratch: Path) -> str:
    """Build the root file system of a guest with Docker; its reference. `scratch`: an empty folder."""
    kernels = build_image("quic-lab-test/hosts:1", FOLDER, "--build-arg", f"SIM={simulator}")
    shutil.copytree(FOLDER / "docker", scratch, dirs_exist_ok=True)
    shutil.copy(ROOT / "requirements.lock", scratch)
    return build_image("quic-lab-test/hosts-docker:1", scratch, "--build-arg", f"HOSTS={kernels}", *AUTHORITIES)


def prepare_share(share: Path, references: Sequence[str], order: str) -> None:
    """Put into a shared folder what a guest needs: its user's order, this checkout, and the images that Docker loads."""
    # A guest's user comes in, too.
    share.chmod(0o755)
    (share / "order").write_text(order)
    copy_tracked_files(ROOT, share / "checkout", ":!results")
    (share / "images").mkdir()
    subprocess.run(["docker", "save", "--output", str(share / "images" / "all.tar"), *references], check=True)


def stored_runs(share: Path, count: int) -> dict[str, tuple[Run, MeasuredRun | None]]:
    """The runs that a guest left, by their scenarios' titles; there must be `count`, and its order must have passed."""
    log = (share / "order.log").read_text() if (share / "order.log").exists() else "the order was not begun"
    assert (share / "code").exists() and (share / "code").read_text().strip() == "0", log[-4000:]
    app = app_with(share / "results")
    runs = [run for key in app.store.cell_keys() for run in app.store.runs(key)]
    assert len(runs) == count, log[-4000:]
    return {run.cell.scenario.title: (run, app.results.measured(run)) for run in runs}
