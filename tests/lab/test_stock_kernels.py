"""The path on stock kernels of Debian's, which have netem and RED of their own, in guests without Docker.

The guests are User Mode Linux processes (tests/hosts). They have all queueing disciplines, and no nftables rules for
the family inet.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from simulator.features import needed_features

from harness.engine.images.build import Images
from harness.netem import PathProgram, compile_path
from tests.examples import ROOT, catalogue, labs
from tests.golden.test_programs import PATHS
from tests.lab.conftest import build_image

#: Suite of Debian → release of its kernel.
SUITES = {"bookworm": "6.1", "trixie": "6.12"}
#: The features that Debian's User Mode Linux lacks.
NO_RULES = {"nft", "nft nat", "conntrack"}
#: And what else the package's kernel leaves out: two young disciplines, policy routing, and what only the lab kernel has.
LACKING = NO_RULES | {"dualpi2", "fq_pie", "rule", "serial", "transit"}
BOOT_SECONDS = 120
#: Changes of a program that are tried: all of them have the same shapes.
CHANGES = 6


def _programs() -> Iterator[tuple[str, PathProgram]]:
    """The path programs of all scenarios as the compose engine runs them, and of paths that no scenario has."""
    for file in catalogue().scenario_files():
        scenario = catalogue().scenario(file)
        for number, lab in enumerate(labs(scenario)):
            yield from (
                (f"{scenario.name} {number} {simulator.name}", simulator.program) for simulator in lab.simulators
            )
    yield from ((name, compile_path(path, "bucket")) for name, path in PATHS.items())


def _commands(program: PathProgram) -> dict[str, Any]:
    """Setup and changes of a program, as JSON has them."""
    changes = [[list(command) for command in change.commands] for change in program.changes[:CHANGES]]
    return {"setup": [list(command) for command in program.setup], "changes": changes}


def _shapes(program: dict[str, Any]) -> set[str]:
    """Its commands without their figures."""
    commands = [*program["setup"], *(command for change in program["changes"] for command in change)]
    return {" ".join(re.sub(r"[0-9.:a-f]*[0-9][0-9.:a-z%/]*", "N", word) for word in command) for command in commands}


@cache
def _covering() -> dict[str, dict[str, Any]]:
    """Programs that have the shapes of all: always the one that adds most."""
    programs = {name: _commands(program) for name, program in _programs()}
    shapes = {name: _shapes(program) for name, program in programs.items()}
    missing, chosen = set[str]().union(*shapes.values()), dict[str, dict[str, Any]]()
    while missing:
        name = max(shapes, key=lambda name: len(shapes[name] & missing))
        chosen[name] = programs[name]
        missing -= shapes[name]
    return chosen


@pytest.fixture(scope="module")
def guests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the kernel of each suite answered."""
    if "amx_tile" in Path("/proc/cpuinfo").read_text():
        pytest.skip("Debian's User Mode Linux spins on a processor with AMX: tests/hosts boots whole kernels instead")
    images = Images(ROOT / "images", ROOT / ".state")
    simulator = images.sim_build("host")
    images.make(simulator, lambda name, seconds: None)
    image = build_image("quic-lab-test/hosts:1", ROOT / "tests" / "hosts", "--build-arg", f"SIM={simulator.reference}")
    share = tmp_path_factory.mktemp("guests")
    programs = _covering()
    (share / "programs.json").write_text(json.dumps(programs))
    answers = {}
    for suite in SUITES:
        kernel = [f"/opt/{suite}/usr/bin/linux.uml", "mem=256M", "root=/dev/root", "rootfstype=hostfs", "rw", "quiet"]
        kernel += ["rootflags=/", "init=/opt/init", "con=null", "con0=null,fd:1"]
        docker = ["docker", "run", "--rm", "--network", "none", "--tmpfs", "/dev/shm:exec,size=512m"]
        booted = subprocess.run(
            [*docker, "--volume", f"{share}:/share", image, "timeout", "--signal=KILL", str(BOOT_SECONDS), *kernel],
            capture_output=True, text=True, timeout=2 * BOOT_SECONDS, check=False,
        )  # fmt: skip
        answer, log = share / "answer.json", share / "log"
        assert answer.exists(), f"{booted.stdout[-2000:]}{log.read_text() if log.exists() else ''}"
        answers[suite] = json.loads(answer.read_text())
        answer.unlink()
    return answers


def test_guests_run_the_kernels_they_should(guests: dict[str, dict[str, Any]]) -> None:
    for suite, release in SUITES.items():
        assert guests[suite]["release"].startswith(f"{release}.")


def test_a_stock_kernel_has_every_queue_and_names_what_it_lacks(guests: dict[str, dict[str, Any]]) -> None:
    assert guests["trixie"]["missing"].keys() == LACKING
    assert guests["bookworm"]["missing"].keys() == {*LACKING, "netem seed"}
    assert "ignores it" in guests["bookworm"]["missing"]["netem seed"]


def test_a_stock_kernel_takes_every_command_of_every_program(guests: dict[str, dict[str, Any]]) -> None:
    programs = _covering()
    for suite, answer in guests.items():
        assert {name: why for name, why in answer["programs"].items() if why is not None} == {}
        left_out = programs.keys() - answer["programs"].keys()
        commands = {name: [*item["setup"], *chain.from_iterable(item["changes"])] for name, item in programs.items()}
        assert left_out == {name for name in programs if not LACKING.isdisjoint(needed_features(commands[name]))}
        kinds = {word for name in answer["programs"] for command in commands[name] for word in command}
        assert {"netem", "tbf", "red", "prio", "gemodel", "slot"} <= kinds, suite


def test_one_seed_loses_the_same_packets_where_the_kernel_says_so(guests: dict[str, dict[str, Any]]) -> None:
    for suite, answer in guests.items():
        first, again, other = answer["losses"]
        assert first != other
        assert (first == again) is ("netem seed" not in answer["missing"]), suite
        for arrived, counted in zip(answer["losses"], answer["counters"], strict=True):
            assert arrived == sorted(set(arrived))
            assert counted == {"packets": len(arrived), "drops": 400 - len(arrived)}
            # 30 % of 400 packets, four standard deviations.
            assert 83 <= counted["drops"] <= 157
