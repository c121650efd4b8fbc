"""Two lab kernels, or the two ways in which one enters programs: what primitives and cells cost under each."""

from __future__ import annotations

import base64
import os
import zlib
from pathlib import Path

from rich.console import Console

from harness.engine.kernel import LabKernel
from harness.engine.virtual.engine import VirtualEngine
from harness.engine.virtual.uml_guest import Guest, GuestEnd
from harness.errors import EngineError
from harness.execution import App
from harness.execution.matrix import PlannedRun
from harness.outcome import Cell
from harness.scenario.schema import Flow
from harness.units import Size
from tools.bench.cells import cells_per_hour, mixed_cells
from tools.bench.kernels import SideBySide, kernel_of, side_by_side
from tools.bench.session import Line, Session, line, scenario
from tools.bench.virtual import DELAY, RATES, SIZE

#: How often each is measured.
TURNS = 3
#: Who carries the 100 MB that speed is told by, and how many times as long a kernel in another process should take.
STANDARD = {"ngtcp2": "≥ 2.2", "quiche": "≥ 1.6", "quic-go": "≥ 1.6", "picoquic": "≥ 1.5"}
#: Flows that have two endpoints each.
FLOWS = 20

#: What is compared where nobody names two kernels.
ENTERED = ("host", "inproc")

#: What a guest's init does so often: name → (count, what it is called).
PRIMITIVES = {
    "call": (200_000, "a system call"),
    "fault": (20_000, "a page touched for the first time"),
    "switch": (5_000, "a byte to another process and one back"),
    "fork": (200, "a process that forks and ends"),
    "start": (50, "a program that starts and ends"),
}
#: That init. The guest's clock stands still while a program computes: the wall's tells, where a phase begins.
_INIT = r"""
import ctypes, mmap, os

libc = ctypes.CDLL(None, use_errno=True)
libc.mount(b"devtmpfs", b"/dev", b"devtmpfs", 0, None)
console = os.open("/dev/console", os.O_RDWR)

def timed(phase, act):
    os.write(console, b"@0 %s\n" % phase.encode())
    if phase == "fault":
        pages = mmap.mmap(-1, 4096 * COUNTS[phase])
        for place in range(0, len(pages), 4096):
            pages[place] = 1
        return
    for _ in range(COUNTS.get(phase, 0)):
        act()

def child(act):
    process = os.fork()
    if process == 0:
        act()
        os._exit(0)
    os.waitpid(process, 0)

there, back = os.pipe(), os.pipe()
if os.fork() == 0:
    while True:
        os.write(back[1], os.read(there[0], 1))

def switch():
    os.write(there[1], b"x")
    os.read(back[0], 1)

timed("call", os.getppid)
timed("fault", None)
timed("switch", switch)
timed("fork", lambda: child(lambda: None))
timed("start", lambda: child(lambda: os.execv("/usr/bin/true", ["true"])))
timed("remove", None)
# LINUX_REBOOT_CMD_POWER_OFF
libc.reboot(0x4321FEDC)
"""


def python_init(program: str) -> list[str]:
    """A guest's init that is a Python program. A kernel's command line has no word with a space."""
    packed = base64.b64encode(zlib.compress(program.encode(), 9)).decode()
    word = f"exec(__import__('zlib').decompress(__import__('base64').b64decode('{packed}')))"
    return ["/usr/bin/python3", "-S", "-c", word]


class Entries(Session):
    """What the kernel in its programs' processes gains, measured side by side on one machine."""

    def __init__(
        self, app: App, console: Console, folder: Path, lines: list[Line], names: tuple[str, str] = ENTERED
    ) -> None:
        """`names`: of two kernels, as `kernel_of` takes them. InputError for others."""
        super().__init__(app, console, folder, lines)
        self.names = names
        self._kernels = (kernel_of(names[0]), kernel_of(names[1]))
        self._cores = sorted(os.sched_getaffinity(0))

    def run(self) -> None:
        """Primitives, the standard cell of several stacks, short cells per hour, many endpoints."""
        self.primitives()
        self._standard_cells()
        self._cells_per_hour()
        self._many_endpoints()

    def primitives(self) -> None:
        """What a Python program pays for each."""
        self.folder.mkdir(parents=True, exist_ok=True)
        build = self.app.images.sim_build("lab")
        self.app.images.make(build, self.announce)
        costs: dict[tuple[str, int], list[float]] = {}
        with self.app.root_file_systems.use([build.reference]) as exported:
            rootfs = Path(exported.roots[build.reference].rootfs)
            for _ in range(TURNS):
                for which, kernel in enumerate(self._kernels):
                    phases = self._run_primitives(kernel, rootfs).phases
                    for primitive, (count, _) in PRIMITIVES.items():
                        costs.setdefault((primitive, which), []).append(1e6 * phases[primitive] / count)
        for primitive, (_, title) in PRIMITIVES.items():
            for which, name in enumerate(self.names):
                self.say(line(f"{title}, {name}", costs[primitive, which], "µs", ""))

    def _run_primitives(self, kernel: LabKernel, rootfs: Path) -> GuestEnd:
        """A guest that does each primitive so often. EngineError where it does not come to its end."""
        counts = {phase: count for phase, (count, _) in PRIMITIVES.items()}
        guest = Guest(
            kernel.file or rootfs / "opt/lab/linux", rootfs, 384, seed=1, start_ns=10**18, core=self._cores[0]
        )
        console = self.folder / "console.log"
        end = guest.run(
            python_init(f"COUNTS = {counts}\n{_INIT}"),
            self.folder,
            console,
            stall=60,
            phase=lambda phase: None,
            settings=kernel.settings,
        )
        if not end.said_over:
            raise EngineError(f"a guest ended early: {console.read_text()[-400:]}", "run again")
        return end

    def _compare_kernels(self, cell: Cell) -> list[SideBySide]:
        """A cell under both kernels, in turn, so often."""
        items = [PlannedRun(cell, turn) for turn in range(TURNS)]
        return list(side_by_side(self.app, items, self._kernels, self._cores[0], lambda event: None))

    def _standard_cells(self) -> None:
        """100 MB over 50/10 Mbit/s and 600 ms, of each stack with itself."""
        first_name, second_name = self.names
        for stack, aim in STANDARD.items():
            cell = self.cell(scenario("standard", *RATES, delay=DELAY, size=SIZE), "virtual", stack)
            comparisons = self._compare_kernels(cell)
            differs = sorted({what for each in comparisons for what in each.differs})
            bytes_said = f"DIFFERS: {', '.join(differs)}" if differs else "the same bytes"
            for which, name in enumerate(self.names):
                self.say(
                    line(f"100 MB of {stack}, {name}", [each.runs[which].wall for each in comparisons], "s", bytes_said)
                )
            self.say(
                line(
                    f"  {first_name} : {second_name}, by the wall's clock",
                    [each.ratios[0] for each in comparisons],
                    "×",
                    aim,
                )
            )
            self.say(line("  of the processor", [each.ratios[1] for each in comparisons], "×", ""))

    def _cells_per_hour(self) -> None:
        """Cells of 10 MB, every stack with every other, as many at a time as there are cores (two at most)."""
        cells = mixed_cells(self)
        rates: tuple[list[float], list[float]] = ([], [])
        cores = self._cores[:2]
        for turn in range(TURNS):
            for which, kernel in enumerate(self._kernels):
                engine = VirtualEngine(self.app.cache, cores, kernel=kernel)
                folder = self.folder / "mixed" / f"{turn}-{which}"
                rates[which].append(cells_per_hour(cells, engine, len(cores), folder))
        for name, hourly in zip(self.names, rates, strict=True):
            self.say(line(f"cells of 10 MB an hour, {len(cells)} pairs, {name}", hourly, "1/h", ""))
        gains = [new / old for old, new in zip(*rates, strict=True)]
        self.say(line(f"  {self.names[1]} : {self.names[0]}", gains, "×", "≥ 1.6"))

    def _many_endpoints(self) -> None:
        """How long it takes until all endpoints of many flows are ready."""
        path = scenario("many", *RATES, delay="20 ms")
        flows = [Flow(download=Size.parse("100 kB"))] * FLOWS
        cell = self.cell(path.model_copy(update={"flows": flows}), "virtual")
        comparisons = self._compare_kernels(cell)
        for which, name in enumerate(self.names):
            ready = [each.runs[which].phases["ready"] for each in comparisons]
            self.say(line(f"{2 * FLOWS} endpoints of ngtcp2 ready, {name}", ready, "s", "≤ 10" if which else ""))
