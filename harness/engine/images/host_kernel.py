"""The kernel that containers share with this machine: its features for path programs, and what would bring others.

The simulator's image asks the kernel once (images/sim/simulator/features.py). It asks again when the kernel, its
installed modules, or the questions change.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulator.features import FEATURES, LAB_DISCIPLINES, MANAGED_QUEUES, needed_features

from harness.topology import Lab

#: Those that most paths need: a kernel that has them is one to run on.
COMMON_FEATURES = tuple(name for name in FEATURES if name not in (*MANAGED_QUEUES, *LAB_DISCIPLINES))


def lab_features(lab: Lab) -> tuple[str, ...]:
    """The features of a kernel that the path programs of a lab use."""
    programs = [simulator.program for simulator in lab.simulators]
    changes = (command for program in programs for change in program.changes for command in change.commands)
    return needed_features([*(command for program in programs for command in program.setup), *changes])


@dataclass(frozen=True)
class MachineFiles:
    """Where a machine describes its kernel."""

    release: str
    """As `uname -r` prints it."""
    root: Path = Path("/")

    @property
    def modules_stamp(self) -> str:
        """Changes when modules are installed or removed (depmod(8) writes the file); '0' where there is none."""
        try:
            return str((self.root / "lib/modules" / self.release / "modules.dep").stat().st_mtime_ns)
        except OSError:
            return "0"

    @property
    def options(self) -> Mapping[str, str] | None:
        """The kernel's configuration: option → 'y' or 'm'. None where it cannot be read."""
        for file in (self.root / "proc/config.gz", self.root / f"boot/config-{self.release}"):
            try:
                content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
            except OSError:
                continue
            return dict(re.findall(r"^(CONFIG_\w+)=([ym])$", content.decode(errors="replace"), re.MULTILINE))
        return None

    @property
    def distributions(self) -> frozenset[str]:
        """Names of the distribution and of those it is like (os-release(5)); empty where it is not known."""
        try:
            text = (self.root / "etc/os-release").read_text()
        except OSError:
            return frozenset()
        return frozenset(" ".join(re.findall(r'^ID(?:_LIKE)?="?([^"\n]*)', text, re.MULTILINE)).split())


def this_machine() -> MachineFiles:
    """The files of the machine that this process runs on."""
    return MachineFiles(os.uname().release)


def lacks_queues(machine: MachineFiles) -> bool:
    """Whether the kernel's configuration leaves out netem or RED; False where it cannot be read."""
    options = machine.options
    return options is not None and not options.keys() >= {"CONFIG_NET_SCH_NETEM", "CONFIG_NET_SCH_RED"}


def remedy(feature: str, machine: MachineFiles) -> str:
    """What would bring a missing feature to a machine's kernel, as half a sentence."""
    option, options = FEATURES[feature].option, machine.options
    if not option:
        return "only the lab kernel has it"
    if options is None:
        return f"it needs {option}"
    if option not in options:
        return f"this kernel was built without {option}, and no package brings it"
    if options[option] == "y":
        return "it is built into this kernel, which does not let a container use it"
    packages = {
        "ubuntu": f"the package linux-modules-extra-{machine.release} brings it",
        "fedora": "the package kernel-modules-extra brings it",
        "rhel": "the package kernel-modules-extra brings it",
        "arch": "the modules of the running kernel are gone since an upgrade: restart the machine",
        "debian": "the package linux-image-amd64 brings it (the 'cloud' kernels leave it out)",
    }
    package = next((text for name, text in packages.items() if name in machine.distributions), "")
    return package or f"it is a module of this kernel ({option}) that is not installed"


@dataclass(frozen=True)
class HostKernel:
    """What the host's kernel lacks of `FEATURES`."""

    missing: Mapping[str, str]
    """Feature → the command that failed, with its message."""

    def lacking(self, features: Iterable[str]) -> list[str]:
        """Those of `features` that it lacks."""
        return [name for name in features if name in self.missing]

    def explain(self, features: Sequence[str], machine: MachineFiles) -> str:
        """Why the host's kernel cannot run a path that needs `features`, in one line; empty where it can."""
        lacking = self.lacking(features)
        # Features that share an option have one remedy.
        remedies = {remedy(name, machine): name for name in reversed(lacking)}
        reasons = "; ".join(f"{name}: {text}" for text, name in reversed(remedies.items()))
        return f"the host's kernel lacks {', '.join(lacking)} ({reasons})" if lacking else ""


class HostKernelRecord:
    """The answer of the host's kernel, kept in the state folder between processes."""

    def __init__(self, state: Path, simulator: str, machine: Callable[[], MachineFiles] = this_machine) -> None:
        """`simulator`: identity of the image that asks."""
        self._state = state
        self._simulator = simulator
        self._machine = machine

    @property
    def file(self) -> Path:
        """The file of the answer. Another kernel, set of modules or simulator has another one."""
        machine = self._machine()
        return self._state / f"host-kernel-{machine.release}-{machine.modules_stamp}-{self._simulator[:12]}.json"

    def read(self) -> HostKernel | None:
        """The answer; None where the kernel was not asked yet."""
        try:
            return parse_features(self.file.read_text())
        except (OSError, ValueError):
            return None

    def write(self, text: str) -> HostKernel:
        """Keep what `python3 -m simulator.features` printed, in place of former answers. ValueError otherwise."""
        answer = parse_features(text)
        self._state.mkdir(parents=True, exist_ok=True)
        for former in self._state.glob("host-kernel-*"):
            former.unlink(missing_ok=True)
        self.file.write_text(text)
        return answer


def parse_features(text: str) -> HostKernel:
    """Read what `python3 -m simulator.features` printed: feature → why it is missing, or null. ValueError otherwise."""
    content = json.loads(text)
    if not isinstance(content, dict) or content.keys() != FEATURES.keys():
        raise ValueError("not the features of this simulator")
    return HostKernel({name: str(why) for name, why in content.items() if why is not None})
