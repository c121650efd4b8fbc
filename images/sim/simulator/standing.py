"""A simulator that stays up from one run to the next, so that what is the same in all of them is done before.

Each run has a process of its own and, in the lab kernel, a kernel of its own: no queue, counter, capture, address,
connection or random number of a run is there in the next one. The kernel of the next run is booted as soon as the last
one is off; it waits, with its two interfaces up, for its order. Where the host's kernel runs the path there is only the
container's own namespace to run it in, and the simulator ends with the run.

Run as `python3 -m simulator.standing FOLDER`. In the folder there is `plan.json`, of which addresses, memory and kernel
are the same in every run. Whoever orders a run writes `order` (a Run, as JSON), makes `stop` when it is to end, and
finds `done`. A simulator that could not run a path as it should ends with the exit code that one for a single run has.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from simulator.__main__ import Run, captured, choose_kernel, end, fail, run_host
from simulator.agent import CommandError
from simulator.capture import Capture
from simulator.lab_kernel import EXIT_FAILED, SCRATCH, LabKernel, Wire, hand_over
from simulator.neighbours import find_interfaces
from simulator.plan import Plan, read_plan
from simulator.shell import Events

#: Of a process that ran one run in order, and after which another one can.
EXIT_AGAIN = 3
#: Between two looks for an order, seconds.
LOOK = 0.005
#: Where the first process notes for the next ones what the host's kernel lacks, and what it took from the container's
#: own.
CHOSEN, WIRES = SCRATCH / "chosen.json", SCRATCH / "wires.json"
CONSOLE = SCRATCH / "console.log"


def take_wires(plan: Plan) -> dict[str, Wire]:
    """Both interfaces, by side; they are handed over once. CommandError where one is missing."""
    if not WIRES.exists():
        wires = {side: hand_over(interface) for side, interface in find_interfaces(plan.addresses).items()}
        WIRES.write_text(json.dumps({side: asdict(wire) for side, wire in wires.items()}))
    return {side: Wire(**wire) for side, wire in json.loads(WIRES.read_text()).items()}


def chosen_kernel(plan: Plan) -> dict[str, Any]:
    """As `choose_kernel`, which is asked once."""
    if not CHOSEN.exists():
        CHOSEN.write_text(json.dumps(choose_kernel(plan)))
    chosen: dict[str, Any] = json.loads(CHOSEN.read_text())
    return chosen


class Turn:
    """One run: what can be done before its order, and then the run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stop = folder / "stop"
        self._told = False
        """To end, rather than to end a run."""
        self._refused: CommandError | None = None
        self._chosen: dict[str, Any] = {}
        self._interfaces: dict[str, str] = {}
        self._kernel: LabKernel | None = None
        self._plan = read_plan(folder / "plan.json")

    def end(self, number: int, frame: FrameType | None) -> None:
        """Somebody ends the container."""
        self._told = True
        self._stop.touch()

    def prepare(self) -> None:
        """Boot what the run is going to need. What fails is said once somebody wants to know."""
        try:
            self._chosen = chosen_kernel(self._plan)
            if self._chosen["kernel"] == "host":
                self._interfaces = find_interfaces(self._plan.addresses)
                return
            wires = take_wires(self._plan)
            self._interfaces = {side: wire.interface for side, wire in wires.items()}
            words = ["--standing", str(self._folder / "plan.json"), str(self._folder / "go"), str(self._stop)]
            self._kernel = LabKernel(self._plan, wires, words, CONSOLE)
        except CommandError as error:
            self._refused = error

    def run(self) -> int:
        """Wait for the order and do it. Exit code of this process."""
        order = self._folder / "order"
        while not order.exists():
            if self._told:
                if self._kernel is not None:
                    self._kernel.kill()
                return 0
            if self._kernel is not None and self._kernel.over():
                print(f"sim: {self._kernel.last_words()}", file=sys.stderr, flush=True)
                return EXIT_FAILED
            time.sleep(LOOK)
        run = Run(**{name: Path(place) for name, place in json.loads(order.read_text()).items()})
        if run.said is not None:
            with run.said.open("ab") as said:
                for stream in (sys.stdout, sys.stderr):
                    os.dup2(said.fileno(), stream.fileno())
        code = self._perform(run, order)
        for name in ("order", "go", "started", "stop"):
            (self._folder / name).unlink(missing_ok=True)
        (self._folder / "done").touch()
        return EXIT_AGAIN if code == 0 and self._kernel is not None and not self._told else code

    def _perform(self, run: Run, order: Path) -> int:
        events = Events(run.logs / "events.jsonl")
        events.write("start")
        captures: list[Capture] = []
        try:
            if self._refused is not None:
                raise self._refused
            events.write("kernel", **self._chosen)
            plan = read_plan(run.plan)
            if (plan.addresses, plan.memory_mib) != (self._plan.addresses, self._plan.memory_mib):
                raise CommandError(f"{run.plan} is for another simulator than {self._folder / 'plan.json'}")
            captures = captured(plan, self._interfaces, run.logs)
            if self._kernel is None:
                return run_host(plan, self._interfaces, run, self._stop)
            # The order goes on to the guest, now that whatever it lets pass is seen.
            order.rename(self._folder / "go")
            return self._kernel.wait(run.logs / "events.jsonl")
        except CommandError as error:
            return fail(error, events)
        finally:
            end(captures, run.logs)
            if self._kernel is not None:
                shutil.copyfile(CONSOLE, run.logs / "console.log")


def turn(folder: Path) -> int:
    """One run, in a process of its own; its exit code."""
    try:
        one = Turn(folder)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, one.end)
        one.prepare()
        return one.run()
    except Exception:
        traceback.print_exc()
        return EXIT_FAILED
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def ended(process: int) -> int:
    """Exit code of a process, once it has ended, as a shell says it.

    The first process of a container also sees off what others left.
    """
    while True:
        pid, status = os.wait()
        if pid == process:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def main(folder: Path) -> int:
    """Run after run, until one fails or SIGTERM comes."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    for noted in (CHOSEN, WIRES):
        noted.unlink(missing_ok=True)
    told, process = False, 0

    def end_all(number: int, frame: FrameType | None) -> None:
        nonlocal told
        told = True
        with contextlib.suppress(ProcessLookupError):
            if process:
                os.kill(process, signal.SIGTERM)

    signal.signal(signal.SIGTERM, end_all)
    signal.signal(signal.SIGINT, end_all)
    code = EXIT_AGAIN
    while code == EXIT_AGAIN and not told:
        process = os.fork()
        if process == 0:
            # What it needs is imported already.
            os._exit(turn(folder))
        code = ended(process)
    return 0 if code == EXIT_AGAIN else code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
