"""The compose engine on an emulated machine with a stock kernel, nftables and systemd.

QEMU emulates the processor where it cannot use KVM. Then time does not hold: links are late, and nobody asks for proofs of
them. What is asked: that paths with a NAT and with faults run on the host's kernel, and that systemd's control groups
give labs' containers precedence.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.engine.docker.daemon import SLICE
from harness.outcome import MeasuredRun, Run
from tests.hosts.guests import FOLDER, build_docker_guest, build_images, prepare_share, stored_runs
from tests.lab.conftest import build_image

SCENARIOS = sorted((FOLDER / "rules").glob("*.yaml"))
#: Of the whole machine, s.
PATIENCE = 1500
_ORDER = f"""
cp -r /share/checkout /tmp/checkout
cd /tmp/checkout
export PYTHONPATH=/tmp/checkout:/tmp/checkout/images/sim
# Emulated, no link keeps its time: a run is not repeated for that, and its verdict is no pass.
export HARNESS_STATE=/tmp/state HARNESS_CACHE=/tmp/cache HARNESS_PATIENCE='0 s'
/venv/bin/python -m harness.cli run tests/hosts/rules --clients ngtcp2 --servers ngtcp2 --repeat 1 \\
  --engine compose --store /tmp/results --no-figures
echo "left over: $(docker ps --all --quiet | wc -l) containers"
simulator=$(docker image ls --format '{{{{.Repository}}}}:{{{{.Tag}}}}' | grep /sim:)
# A container as the engine makes one, beside a compiler in the user's own slice. It ends by itself: with all of the
# processor, it leaves little to a daemon that is to end it.
work="timeout 120 sh -c 'while :; do :; done'"
container=$(docker run --detach --cgroup-parent {SLICE} --entrypoint sh "$simulator" -c "$work & $work")
for _ in $(seq $(nproc)); do (while :; do :; done) & done
sleep 20
group=/sys/fs/cgroup/{SLICE}/docker-$container.scope
before=$(sed -n 's/^usage_usec //p' $group/cpu.stat) began=$(date +%s%N)
sleep 20
after=$(sed -n 's/^usage_usec //p' $group/cpu.stat) ended=$(date +%s%N)
echo "container's share: $(((after - before) * 100000 / (ended - began) / $(nproc))) %"
kill $(jobs -p)
docker wait "$container"
docker rm "$container"
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the machine left."""
    simulator, *endpoints = build_images(["ngtcp2"])
    guest = build_docker_guest(simulator, tmp_path_factory.mktemp("context"))
    words = ["--build-arg", f"HOSTS={guest}"]
    root = build_image("quic-lab-test/machine:1", FOLDER / "qemu", *words, "--target", "machine")
    emulator = build_image("quic-lab-test/emulator:1", FOLDER / "qemu", *words, "--target", "emulator")
    share = tmp_path_factory.mktemp("machine")
    prepare_share(share, [simulator, *endpoints], _ORDER)
    container = subprocess.run(
        ["docker", "create", root, "/sbin/init"], capture_output=True, text=True, check=True
    ).stdout.strip()
    try:
        subprocess.run(["docker", "export", "--output", str(share / "root.tar"), container], check=True)
    finally:
        subprocess.run(["docker", "rm", container], capture_output=True, check=True)
    kvm = ["--device", "/dev/kvm", "--env", "USE_KVM=1"] if os.environ.get("USE_KVM") else []
    docker = ["docker", "run", "--rm", "--network", "none", *kvm, "--volume", f"{share}:/share", emulator]
    with (share / "console").open("wb") as console:
        subprocess.run(
            [*docker, "/opt/boot", "/share/root.tar", "/share"], check=False, stdout=console, stderr=console,
            timeout=PATIENCE, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    return share


@pytest.fixture(scope="module")
def runs(machine: Path) -> dict[str, tuple[Run, MeasuredRun | None]]:
    """The run of each scenario, by its title."""
    return stored_runs(machine, len(SCENARIOS))


def test_paths_with_rules_run_on_the_hosts_kernel(runs: dict[str, tuple[Run, MeasuredRun | None]]) -> None:
    for title, (run, _) in runs.items():
        assert run.outcome.status == "completed", f"{title}: {run.outcome.detail}"
        assert run.sim_kernel.startswith("host 6."), title


def test_a_client_moved_and_datagrams_were_dropped(runs: dict[str, tuple[Run, MeasuredRun | None]]) -> None:
    for title in ("A NAT changes the client's port", "A client that migrates to another path"):
        _, measured = runs[title]
        assert measured is not None and measured.moves and not measured.moves[0].why_not, title
    _, dropped = runs["Datagrams dropped by number"]
    assert dropped is not None and dropped.link is not None
    assert not [problem for problem in dropped.link.problems if "were to be dropped" in problem]


def test_containers_outweigh_the_shell_that_compiles(machine: Path) -> None:
    (line,) = [
        line for line in (machine / "order.log").read_text().splitlines() if line.startswith("container's share")
    ]
    assert int(line.split()[-2]) >= 80, line
