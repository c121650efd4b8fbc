"""The compose engine on a machine with a kernel of Debian's own, by an ordinary user in the group docker.

The machine is a guest: Debian's User Mode Linux 6.12 with Docker 26 and control groups of version 2 (tests/hosts/docker).
Its kernel has netem, RED and all other queues, and no nftables rules: scenarios with a NAT or faults need the lab kernel,
which does not run in it. `make hosts` runs this; it takes some 15 minutes.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.execution import App, CheckoutPaths
from harness.outcome import MeasuredRun, Run
from tests.examples import ROOT
from tests.lab.conftest import CACHE, build_image

FOLDER = Path(__file__).parent
SCENARIOS = sorted((FOLDER / "cells").glob("*.yaml"))
#: Of the whole guest, s. A cell takes 20 to 40 s there.
PATIENCE = 1500
_KERNEL = (
    "/opt/trixie/usr/bin/linux.uml", "mem=3G", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "quiet",
    "con=null", "con0=null,fd:1", "init=/opt/init-docker", "ubd0=/share/disk",
)  # fmt: skip
_ORDER = """
cd /checkout
export PYTHONPATH=/checkout:/checkout/images/sim PYTHONDONTWRITEBYTECODE=1
export HARNESS_STATE=/tmp/state HARNESS_CACHE=/tmp/cache
/venv/bin/python -m harness.cli run tests/hosts/cells --clients ngtcp2 --servers ngtcp2 --repeat 1 \\
  --engine compose --store /tmp/results --no-figures
code=$?
echo "left over: $(docker ps --all --quiet | wc -l) containers, $(docker network ls --quiet --filter label=org.quic-lab.owner | wc -l) networks"
exit $code
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the guest left: its results and what its user saw."""
    app = App(CheckoutPaths(ROOT, ROOT / "results", ROOT / ".state", CACHE))
    endpoint = app.images.build_of(*app.catalogue.implementations()["ngtcp2"])
    assert endpoint is not None
    builds = (app.images.sim_build("host"), endpoint)
    for build in builds:
        app.images.make(build, lambda name, seconds: None)
    hosts = build_image("quic-lab-test/hosts:1", FOLDER, "--build-arg", f"SIM={builds[0].reference}")
    context = tmp_path_factory.mktemp("context")
    shutil.copytree(FOLDER / "docker", context, dirs_exist_ok=True)
    shutil.copy(ROOT / "requirements.lock", context)
    authority = ["--secret", "id=ca,src=/etc/ssl/certs/ca-certificates.crt"]
    image = build_image("quic-lab-test/hosts-docker:1", context, "--build-arg", f"HOSTS={hosts}", *authority)

    share = tmp_path_factory.mktemp("guest")
    (share / "order").write_text(_ORDER)
    (share / "images").mkdir()
    references = [build.reference for build in builds]
    subprocess.run(["docker", "save", "--output", str(share / "images" / "all.tar"), *references], check=True)
    with (share / "disk").open("wb") as disk:
        disk.truncate(6 << 30)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(share / "disk")], check=True)
    docker = ["docker", "run", "--rm", "--network", "none", "--tmpfs", "/dev/shm:exec,size=4g"]
    mounts = ["--volume", f"{share}:/share", "--volume", f"{ROOT}:/checkout:ro"]
    subprocess.run(
        [*docker, *mounts, image, *_KERNEL],
        check=False,
        capture_output=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )
    return share


@pytest.fixture(scope="module")
def runs(guest: Path) -> dict[str, tuple[Run, MeasuredRun | None]]:
    """The run of each scenario, by its title."""
    app = App(CheckoutPaths(ROOT, guest / "results", ROOT / ".state", CACHE))
    log = (guest / "order.log").read_text()
    assert (guest / "code").read_text().strip() == "0", log[-4000:]
    stored = [run for key in app.store.cell_keys() for run in app.store.runs(key)]
    assert len(stored) == len(SCENARIOS), log[-4000:]
    return {run.cell.scenario.title: (run, app.results.measured(run)) for run in stored}


def test_every_scenario_runs_on_the_hosts_kernel_by_default(runs: dict[str, tuple[Run, MeasuredRun | None]]) -> None:
    for title, (run, _) in runs.items():
        assert run.outcome.status == "completed", f"{title}: {run.outcome.detail}"
        assert run.cell.sim_kernel == "auto" and run.sim_kernel.startswith("host 6.12."), title


def test_the_links_are_proven(runs: dict[str, tuple[Run, MeasuredRun | None]]) -> None:
    problems = {}
    for title, (_, measured) in runs.items():
        assert measured is not None and measured.link is not None, title
        if not measured.link.valid:
            problems[title] = measured.link.problems
    assert problems == {}


def test_nothing_is_left_behind(guest: Path) -> None:
    assert "left over: 0 containers, 0 networks" in (guest / "order.log").read_text()


def test_the_seeds_of_losses_are_taken(runs: dict[str, tuple[Run, MeasuredRun | None]]) -> None:
    for title, (run, _) in runs.items():
        assert not [warning for warning in run.warnings if "loses other packets" in warning], title
