"""The compose engine on a machine with a kernel of Debian's own, by an ordinary user in the group docker.

The machine is a guest: Debian's User Mode Linux 6.12 with Docker 26 and control groups of version 2 (tests/hosts/docker).
Its kernel has netem, RED and all other queues, and no nftables rules: scenarios with a NAT or faults need the lab kernel,
which does not run in it. `make hosts` runs this; it takes some 15 minutes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.outcome import MeasuredRun, Run
from tests.hosts.guests import FOLDER, build_docker_guest, build_images, prepare_share, stored_runs

SCENARIOS = sorted((FOLDER / "cells").glob("*.yaml"))
#: Of the whole guest, s. A cell takes 20 to 40 s there.
PATIENCE = 1500
_KERNEL = (
    "/opt/trixie/usr/bin/linux.uml", "mem=3G", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "quiet",
    "con=null", "con0=null,fd:1", "init=/opt/init-docker", "ubd0=/share/disk",
)  # fmt: skip
_ORDER = """
cp -r /share/checkout /tmp/checkout
cd /tmp/checkout
export PYTHONPATH=/tmp/checkout:/tmp/checkout/images/sim
export HARNESS_STATE=/tmp/state HARNESS_CACHE=/tmp/cache
/venv/bin/python -m harness.cli run tests/hosts/cells --clients ngtcp2 --servers ngtcp2 --repeat 1 \\
  --engine compose --store /tmp/results --no-figures
code=$?
# The part of the lab's own tests that goes on where one cell ends: networks, simulators, seeds.
/venv/bin/python -m pytest -q -p no:cacheprovider tests/lab/test_networks.py >/tmp/results/networks.log 2>&1
echo "left over: $(docker ps --all --quiet | wc -l) containers, $(docker network ls --quiet --filter label=org.quic-lab.owner | wc -l) networks"
exit $code
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the guest left: its results and what its user saw."""
    simulator, *endpoints = build_images(["ngtcp2", "picoquic"])
    image = build_docker_guest(simulator, tmp_path_factory.mktemp("context"))
    share = tmp_path_factory.mktemp("guest")
    prepare_share(share, [simulator, *endpoints], _ORDER)
    with (share / "disk").open("wb") as disk:
        disk.truncate(6 << 30)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(share / "disk")], check=True)
    docker = ["docker", "run", "--rm", "--network", "none", "--tmpfs", "/dev/shm:exec,size=4g"]
    subprocess.run(
        [*docker, "--volume", f"{share}:/share", image, *_KERNEL], check=False, capture_output=True, timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return share


@pytest.fixture(scope="module")
def runs(guest: Path) -> dict[str, tuple[Run, MeasuredRun | None]]:
    """The run of each scenario, by its title."""
    return stored_runs(guest, len(SCENARIOS))


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


def test_the_labs_tests_of_networks_pass(guest: Path) -> None:
    log = (guest / "results" / "networks.log").read_text()
    assert "2 passed" in log, log[-4000:]


def test_the_seeds_of_losses_are_taken(runs: dict[str, tuple[Run, MeasuredRun | None]]) -> None:
    for title, (run, _) in runs.items():
        assert not [warning for warning in run.warnings if "loses other packets" in warning], title
