"""Images for arm64, built by their own recipes and run on an x86-64 machine: a kernel of x86-64, and arm64 programs.

qemu-user translates the programs' instructions. The kernel starts it for them: a container registers it there
(binfmt_misc) for as long as the tests take, and nothing is installed on the machine. What this cannot show is in
docs/where-it-runs.md: an arm64 kernel with its queues, and the simulator's commands there.

The first run builds Debian for arm64 and takes some 15 minutes. Later ones use what Docker has kept, and take two.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples import ROOT
from tests.hosts.guests import AUTHORITIES, app_with
from tests.lab.conftest import Harness, build_image

FOLDER = Path(__file__).parent / "arm64"
#: One with programs and a library of Debian's and one of wheels, which a processor may lack.
IMPLEMENTATIONS = ("ngtcp2", "aioquic")
PATH = {"rate": "1 Mbit/s", "delay": "20 ms", "queue": "1 BDP"}
_ARM64 = ("--platform", "linux/arm64")
_HANDLER = "/mnt/quic-lab-arm64"
#: ELF's header of programs for AArch64 (e_machine 183), as Documentation/admin-guide/binfmt-misc.rst wants it. With F the
#: kernel opens the translator at once, so that it works in every container; with P programs see the name they were
#: called by.
_MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
_MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
_MOUNT = "set -eu; mount -t binfmt_misc binfmt_misc /mnt"
_REMOVE = f"[ ! -e {_HANDLER} ] || echo -1 >{_HANDLER}"
_REGISTER = f"""{_MOUNT}; {_REMOVE}
printf '%s' ':{Path(_HANDLER).name}:M::{_MAGIC}:{_MASK}:/usr/bin/qemu-aarch64:PF' >/mnt/register"""


def _as_root(image: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script that may mount."""
    rights = ("--cap-add", "SYS_ADMIN", "--security-opt", "apparmor=unconfined", "--network", "none")
    return subprocess.run(
        ["docker", "run", "--rm", *rights, image, "bash", "-c", script], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def translator() -> Iterator[None]:
    """The kernel starts arm64 programs within."""
    if platform.machine() != "x86_64":
        pytest.skip(f"this machine is {platform.machine()}: all other tests show what runs on it")
    image = build_image("quic-lab-test/arm64-qemu:1", FOLDER, "--target", "qemu")
    registered = _as_root(image, _REGISTER)
    if registered.returncode != 0:
        pytest.skip(f"this kernel takes no translator of arm64 programs: {registered.stderr.strip()}")
    yield
    removed = _as_root(image, f"{_MOUNT}; {_REMOVE}")
    assert removed.returncode == 0, removed.stderr


def _build(name: str, folder: Path, *words: str, **arguments: str) -> str:
    """Build an image for arm64. Returns its reference."""
    for argument, value in arguments.items():
        words = (*words, "--build-arg", f"{argument}={value}")
    return build_image(f"quic-lab-test/arm64-{name}:1", folder, *_ARM64, *AUTHORITIES, *words)


@pytest.fixture(scope="module")
def bases(translator: None) -> dict[str, str]:
    """What the recipes of images stand on, for arm64, by the argument that names it."""
    base = _build("base", FOLDER, "--target", "base")
    return {"BASE": base, "ENDPOINT": _build("endpoint", ROOT / "images" / "endpoint", BASE=base)}


@pytest.fixture(scope="module")
def images(bases: dict[str, str]) -> dict[str, str]:
    """Implementation → its image for arm64."""
    return {name: _build(name, ROOT / "images" / name, **bases) for name in IMPLEMENTATIONS}


def _machine(image: str) -> str:
    command = ["docker", "run", "--rm", *_ARM64, "--network", "none", "--entrypoint", "uname", image, "-m"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _container(image: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
    command = ["docker", "run", "--rm", *_ARM64, "--network", "none", *variables, *words, image]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_unknown_test_cases_are_refused(images: dict[str, str], name: str, role: str) -> None:
    assert _machine(images[name]) == "aarch64"
    completed = _container(images[name], ROLE=role, TESTCASE="nonsense")
    assert completed.returncode == 127, completed.stderr


@pytest.fixture(scope="module")
def transfers(images: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Harness, list[dict[str, Any]]]:
    """Everyone with everyone, in real time: the store, and the cells."""
    app = app_with(ROOT / "results")
    build = app.images.build_of(*app.catalogue.implementations()["ngtcp2"])
    assert build is not None
    native = build.bases["ENDPOINT"]
    app.images.make(native, lambda name, seconds: None)
    words = []
    for name, image in images.items():
        emulated = _build(f"emulated-{name}", FOLDER, "--target", "emulated", NATIVE=native.reference, ENDPOINT=image)
        assert _machine(emulated) == "aarch64"
        words += ["--image", f"{name}={emulated}"]
    harness = Harness(tmp_path_factory.mktemp("arm64"))
    # Slow enough for a translated program on a busy machine.
    scenario = harness.scenario(
        "slow", path={"forward": PATH, "return": PATH}, flows=[{"download": "60 kB"}], milestones=[], timeout="2 min"
    )
    everyone = ",".join(images)
    process = harness.run_until_proven(
        scenario, "--clients", everyone, "--servers", everyone, "--repeat", "1", "--engine", "compose", *words, "--json"
    )
    return harness, json.loads(process.stdout)["cells"]


def test_the_files_arrive(transfers: tuple[Harness, list[dict[str, Any]]]) -> None:
    """`completed` says that the client's files have the bytes of the server's. Times of translated programs say nothing."""
    _, cells = transfers
    assert len(cells) == len(IMPLEMENTATIONS) ** 2
    for cell in cells:
        assert cell["outcomes"] == {"completed": 1}, cell["sentence"]


def test_secrets_and_qlog_are_written(transfers: tuple[Harness, list[dict[str, Any]]]) -> None:
    harness, cells = transfers
    folders = [file.parent for file in harness.store.glob("runs/*/*/run.json")]
    assert len(folders) == len(cells)
    for folder in folders:
        for role in ("client", "server"):
            logs = folder / "flow0" / role
            assert "CLIENT_TRAFFIC_SECRET_0" in (logs / "keys.log").read_text(), logs
            assert [file for file in (logs / "qlog").iterdir() if file.stat().st_size > 0], logs


def test_the_simulator_is_built_and_its_programs_start(bases: dict[str, str]) -> None:
    """Its queues need an arm64 kernel, or a translator that knows tc's messages: this one does not."""
    image = _build("sim", ROOT / "images" / "sim", "--target", "host", BASE=bases["BASE"])
    programs = "tc -V && tcpdump --version && haproxy -v && python3 -c 'import simulator.agent, simulator.features'"
    completed = subprocess.run(
        ["docker", "run", "--rm", *_ARM64, "--network", "none", "--entrypoint", "sh", image, "-c", programs],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr
    assert _machine(image) == "aarch64"
