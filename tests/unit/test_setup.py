"""What `make setup` does to a machine: it says so before, removes nothing, and starts nobody else's daemon unasked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.examples import ROOT

SETUP = ROOT / "harness" / "setup"
#: What the scripts take of the machine. Everything else they would run is not there, or is played.
_TOOLS = ("bash", "sh", "env", "id", "grep", "sed", "tail", "head", "tr", "ls", "mkdir", "touch", "find", "flock", "seq",
          "sleep", "cat", "dirname", "sort", "timeout", "rm", "mktemp", "xargs", "uname")  # fmt: skip
_DOCKER = """
case "$1" in
  version) [ -e "$PLAYED/answers" ] && echo 28.0 ;;
  info) cat "$PLAYED/groups" 2>/dev/null || echo cgroupfs 1 ;;
  context) cat "$PLAYED/context" 2>/dev/null || echo default ;;
  compose) [ -e "$PLAYED/compose" ] && echo 2.30.0 ;;
  buildx) [ -e "$PLAYED/compose" ] ;;
  image) [ -e "$PLAYED/image" ] ;;
  pull) touch "$PLAYED/image" ;;
esac
"""
_APT = """
[ "$1" = update ] && exit 0
[ -e "$PLAYED/would-remove" ] && { case " $* " in *' --no-remove '*) echo 'E: Packages need to be removed'; exit 100 ;; esac; }
case " $* " in
  *docker.io*) cp "$PLAYED/docker" "$PLAYED/dockerd" "$PLAYED/bin" ;;
  *compose*) touch "$PLAYED/compose" ;;
esac
"""


_SYSTEMCTL = """
case "$1" in
  start) touch "$PLAYED/answers" ;;
  show) cat "$PLAYED/weight" 2>/dev/null || echo '[not set]' ;;
  set-property) [ ! -e "$PLAYED/refuses" ] && echo "${3#CPUWeight=}" >"$PLAYED/weight" ;;
esac
"""


@dataclass(frozen=True)
class Machine:
    """One on which programs are played, and write down what they were called with."""

    folder: Path

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def called(self, *words: str) -> list[str]:
        return [call for call in self.calls if call.startswith(" ".join(words))]

    def play(self, name: str, script: str = "") -> None:
        """A program that is there."""
        self.put(name, script)
        shutil.copy(self.folder / name, self.folder / "bin" / name)

    def put(self, name: str, script: str = "") -> None:
        """A program that a package would bring."""
        (self.folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >>"$PLAYED/calls"\n{script}')
        (self.folder / name).chmod(0o755)

    def installed(self, *, containers: int = 0, systemd: bool = False) -> None:
        """Docker as somebody else has installed it, whose daemon stands still."""
        self.play("docker", _DOCKER)
        self.play("dockerd", 'touch "$PLAYED/answers"\n')
        for number in range(containers):
            (self.folder / "root/var/lib/docker/containers" / str(number)).mkdir(parents=True)
        if systemd:
            (self.folder / "root/run/systemd/system").mkdir(parents=True)

    def run(self, script: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        given = {"PATH": str(self.folder / "bin"), "PLAYED": str(self.folder), "SETUP_ROOT": str(self.folder / "root"),
                 "HOME": str(self.folder)}  # fmt: skip
        return subprocess.run(
            ["bash", str(SETUP / script), *words], env=given | environment, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=60, cwd=self.folder,
        )  # fmt: skip

    def engine(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("engine.sh", str(self.folder / "state"), **environment)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    fresh_machine = Machine(tmp_path)
    (tmp_path / "bin").mkdir()
    for tool in _TOOLS:
        where = shutil.which(tool)
        assert where is not None, tool
        (tmp_path / "bin" / tool).symlink_to(where)
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/os-release").write_text('ID=debian\nPRETTY_NAME="Debian 13"\nVERSION_CODENAME=trixie\n')
    cp = shutil.which("cp")
    assert cp is not None
    (tmp_path / "bin" / "cp").symlink_to(cp)
    fresh_machine.play("sudo", '[ "$1" = -n ] && shift\nexec "$@"\n')
    fresh_machine.play("setsid", 'exec "$@"\n')
    fresh_machine.play("systemctl", _SYSTEMCTL)
    fresh_machine.play("apt-get", _APT)
    fresh_machine.play("apt-cache", 'echo "  Candidate: 2.40"\n')
    fresh_machine.put("docker", _DOCKER)
    fresh_machine.put("dockerd", 'touch "$PLAYED/answers"\n')
    return fresh_machine


def test_an_engine_that_answers_is_used_as_it_is(machine: Machine) -> None:
    machine.installed(containers=3, systemd=True)
    (machine.folder / "answers").touch()
    assert machine.engine().returncode == 0
    assert {call.split()[0] for call in machine.calls} == {"docker"}


@pytest.mark.parametrize(("containers", "systemd"), [(0, True), (2, True), (2, False)])
def test_a_daemon_of_somebody_else_is_not_started_unasked(machine: Machine, containers: int, systemd: bool) -> None:
    machine.installed(containers=containers, systemd=systemd)
    process = machine.engine()
    assert process.returncode == 3
    assert "daemon stands still" in process.stderr and "hint: start it" in process.stderr
    assert "make setup YES=1" in process.stderr and "HARNESS_YES=1" in process.stderr
    assert not machine.called("systemctl") and not machine.called("dockerd") and not machine.called("apt-get")


@pytest.mark.parametrize("systemd", [True, False])
def test_it_is_started_where_that_was_said_and_says_so_first(machine: Machine, systemd: bool) -> None:
    machine.installed(containers=2, systemd=systemd)
    process = machine.engine(HARNESS_YES="1")
    assert process.returncode == 0, process.stderr
    assert "setup: about to start the Docker daemon" in process.stderr
    assert machine.called("systemctl start docker") if systemd else machine.called("dockerd")


def test_a_fresh_machine_needs_no_word(machine: Machine) -> None:
    """Nothing there would have started the daemon, and it has nothing of anybody's to start."""
    machine.installed()
    assert machine.engine().returncode == 0 and machine.called("dockerd")
    # Nor when it has ended, and runs that were killed left containers.
    (machine.folder / "answers").unlink()
    (machine.folder / "root/var/lib/docker/containers/1").mkdir(parents=True)
    assert machine.engine().returncode == 0 and len(machine.called("dockerd")) == 2


@pytest.mark.parametrize("systemd", [True, False])
def test_what_setup_installs_itself_it_starts(machine: Machine, systemd: bool) -> None:
    if systemd:
        (machine.folder / "root/run/systemd/system").mkdir(parents=True)
    process = machine.engine()
    assert process.returncode == 0, process.stderr
    log_lines = process.stderr.splitlines()
    assert log_lines[0] == "setup: about to install Docker Engine from Debian 13's packages, and to start its daemon"
    assert log_lines[1].startswith("setup: about to install docker.io iptables ca-certificates")
    assert log_lines[2] == "setup: about to start the Docker daemon"


def test_nothing_is_removed_for_what_is_installed(machine: Machine) -> None:
    (machine.folder / "would-remove").touch()
    process = machine.engine()
    assert process.returncode == 3 and "apt-get could not install docker.io" in process.stderr
    assert "need to be removed" in process.stderr and not machine.called("dockerd")


def test_all_that_apt_installs_is_said_and_removes_nothing() -> None:
    """One function of the scripts calls it, and nothing goes past it."""
    for file in SETUP.glob("*.sh"):
        lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
        text = "\n".join(lines)
        installs = re.findall(r"apt-get install\b[^\n]*", text)
        assert all("--no-remove" in install for install in installs), file
        assert bool(installs) == (file.name == "common.sh"), file
        assert not re.search(r"\bdpkg (-i|--install)\b|\bapt install\b|autoremove|\bremove -y|purge", text), file


@pytest.mark.parametrize(
    ("environment", "context", "says"),
    [({"DOCKER_HOST": "tcp://far:2376"}, "", "DOCKER_HOST=tcp://far:2376"), ({}, "far", "in the context far")],
)
def test_no_daemon_is_started_here_for_one_that_is_elsewhere(
    machine: Machine, environment: dict[str, str], context: str, says: str
) -> None:
    machine.installed()
    if context:
        (machine.folder / "context").write_text(context)
    process = machine.engine(**environment, HARNESS_YES="1")
    assert process.returncode == 3 and says in process.stderr and "hint: start it there" in process.stderr
    assert not machine.called("dockerd") and not machine.called("apt-get")


def test_compose_and_the_base_image_are_said_too(machine: Machine) -> None:
    machine.installed()
    (machine.folder / "answers").touch()
    process = machine.run("compose.sh", str(machine.folder / "state"))
    assert process.returncode == 0, process.stderr
    assert "setup: about to install docker-compose-v2 docker-buildx" in process.stderr
    (call,) = machine.called("apt-get install")
    assert "--no-remove" in call
    process = machine.run("base-image.sh", str(machine.folder / "state"))
    assert process.returncode == 0 and "setup: about to pull debian@sha256:" in process.stderr
    assert machine.called("docker tag debian@sha256:")


def test_setup_takes_yes_and_no_other_word(tmp_path: Path) -> None:
    process = subprocess.run(
        ["bash", str(SETUP / "setup.sh"), "--force"], capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert process.returncode == 2 and "hint: usage: setup.sh [--yes]" in process.stderr
    completed = subprocess.run(["make", "--dry-run", "setup"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "harness/setup/setup.sh"
    for words in (["make", "--dry-run", "setup", "YES=1"], ["env", "HARNESS_YES=1", "make", "--dry-run", "setup"]):
        completed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        assert completed.stdout.strip() == "harness/setup/setup.sh --yes"


def test_what_must_pass_before_anything_lands_asks_nobody() -> None:
    assert "exec make test YES=1" in (ROOT / ".ci" / "run").read_text()


def test_labs_get_a_slice_with_weight_where_systemd_has_the_groups(machine: Machine) -> None:
    machine.installed(systemd=True)
    (machine.folder / "answers").touch()
    assert machine.engine().returncode == 0
    assert not machine.called("systemctl"), "Docker has the groups itself"
    (machine.folder / "groups").write_text("systemd 2\n")
    done = machine.engine()
    assert done.returncode == 0
    assert "setup: about to give the containers of labs precedence" in done.stderr
    assert machine.called("systemctl set-property") == ["systemctl set-property quiclab.slice CPUWeight=10000"]
    # Once is enough.
    assert machine.engine().stderr == ""
    assert len(machine.called("systemctl set-property")) == 1


def test_a_slice_that_systemd_refuses_is_said_and_stops_nothing(machine: Machine) -> None:
    machine.installed(systemd=True)
    for name, text in (("answers", ""), ("refuses", ""), ("groups", "systemd 2\n")):
        (machine.folder / name).write_text(text)
    done = machine.engine()
    assert done.returncode == 0
    assert "systemd did not take it" in done.stderr


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("ID=fedora\n", "sudo dnf install moby-engine docker-compose docker-buildx && "),
        ('ID="rhel"\nID_LIKE="fedora"\n', "sudo dnf install docker-ce docker-compose-plugin docker-buildx-plugin && "),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "sudo dnf install docker-ce "),
        ("ID=arch\n", "sudo pacman -S --needed docker docker-compose docker-buildx && "),
        ("ID=endeavouros\nID_LIKE=arch\n", "sudo pacman -S --needed docker "),
        ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n', "sudo zypper install docker "),
        ("ID=alpine\n", "apk add docker docker-cli-compose docker-cli-buildx bash && "),
        ("ID=plan9\n", "install and start Docker Engine 20.10 or newer"),
    ],
)
def test_other_distributions_get_the_command_in_one_line(machine: Machine, release: str, command: str) -> None:
    (machine.folder / "root/etc/os-release").write_text(release)
    done = machine.engine()
    assert done.returncode == 3
    (hint,) = [line for line in done.stderr.splitlines() if line.startswith("hint: ")]
    assert command in hint
    assert not machine.called("apt-get")


_FLAGS = "fpu sse4_2 avx avx2 fma bmi1 bmi2 abm movbe popcnt avx512f"


@pytest.mark.parametrize(
    ("cpuinfo", "lacks"),
    [
        (f"flags\t\t: {_FLAGS}\n", ""),
        (f"flags\t\t: {_FLAGS.replace(' avx2', '')}\n", "avx2"),
        (f"flags\t\t: {_FLAGS.replace(' movbe', '')}\nflags\t\t: {_FLAGS}\n", "movbe"),
        # Another architecture has no such line, and another runtime.
        ("Features\t: fp asimd\n", ""),
        (None, ""),
    ],
)
def test_a_processor_without_avx2_gets_the_compatible_runtime(
    machine: Machine, cpuinfo: str | None, lacks: str
) -> None:
    checkout = machine.folder / "checkout"
    checkout.mkdir()
    for name in ("requirements.lock", "requirements.compat.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, checkout)
    if cpuinfo is not None:
        (machine.folder / "root/proc").mkdir()
        (machine.folder / "root/proc/cpuinfo").write_text(cpuinfo)
    for tool in ("sha256sum", "cut", "chmod"):
        where = shutil.which(tool)
        assert where is not None
        (machine.folder / "bin" / tool).symlink_to(where)
    pip = "mkdir -p .venv/bin\nfor name in pip harness; do\n" + (
        """  printf '#!/bin/sh\\necho "pip $*" >>"$PLAYED/calls"\\n' >.venv/bin/$name; chmod +x .venv/bin/$name\ndone\n"""
    )
    machine.play("python3", f'case "$1$2" in -c*) exit 0 ;; -mvenv) {pip} ;; esac\n')
    done = machine.run("python.sh", str(checkout))
    assert done.returncode == 0, done.stderr
    assert (f"this processor lacks {lacks}: polars gets its compatible runtime" in done.stderr) is bool(lacks)
    (install, _) = machine.called("pip install")
    assert ("--requirement requirements.compat.lock" in install) is bool(lacks)
    assert "--require-hashes --requirement requirements.lock" in install
    # It is there: another call does nothing. On another processor it is installed anew.
    assert machine.run("python.sh", str(checkout)).stderr == ""
    (machine.folder / "root/proc").mkdir(exist_ok=True)
    (machine.folder / "root/proc/cpuinfo").write_text(f"flags : {_FLAGS if lacks else 'fpu sse2'}\n")
    assert "about to install the Python environment" in machine.run("python.sh", str(checkout)).stderr


@pytest.mark.parametrize("system", ["Darwin", "MINGW64_NT-10.0", "FreeBSD"])
def test_another_system_than_linux_is_refused_at_once(machine: Machine, system: str) -> None:
    (machine.folder / "bin" / "uname").unlink()
    machine.play("uname", f"echo {system}\n")
    process = machine.run("setup.sh")
    assert process.returncode == 3
    assert process.stderr.splitlines() == [
        f"error: labs need Linux, and this is {system}: here the harness works in a container",
        "hint: docs/where-it-runs.md has the command",
    ]
    assert machine.calls == ["uname -s"]
