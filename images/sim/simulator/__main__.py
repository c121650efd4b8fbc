"""Entry point of the simulator container: choose the kernel, capture, run the path until SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.agent import Agent, CommandError, NotReadyError
from simulator.capture import Capture
from simulator.features import missing_features, needed_features
from simulator.lab_kernel import EXIT_FAILED, EXIT_NOT_READY, LAB_KERNEL, SCRATCH, LabKernel, hand_over
from simulator.neighbours import find_interfaces
from simulator.plan import Plan, read_plan
from simulator.shell import Events

STOP = SCRATCH / "stop"


@dataclass(frozen=True)
class Run:
    """Where the files of one run are."""

    plan: Path = Path("/sim/plan.json")
    logs: Path = Path("/logs")
    shared: Path = Path("/clock")
    """Where the simulators of a lab with several tell each other what they must."""
    started: Path | None = None
    """What is there once all endpoints were started; None where nobody says so."""
    said: Path | None = None
    """Where what the simulator prints goes; None for where its container prints."""


def choose_kernel(plan: Plan) -> dict[str, Any]:
    """Which kernel runs the path, as the diary says it: the forced one, else the host's if it has what the path needs.

    CommandError where that kernel cannot. A host that is forced may ignore netem's seed: 'unrepeatable' says so.
    """
    lacking: dict[str, str] = {}
    if plan.kernel != "lab":
        changes = [command for _, commands in plan.changes for command in commands]
        lacking = missing_features(needed_features([*plan.setup, *changes]))
        chosen = {"kernel": "host", "release": os.uname().release}
        if not lacking:
            return chosen
        if plan.kernel == "host" and lacking.keys() == {"netem seed"}:
            return {**chosen, "unrepeatable": lacking["netem seed"]}
    reasons = "; ".join(f"no {feature} ({why})" for feature, why in lacking.items())
    if plan.kernel == "host":
        raise CommandError(f"the host kernel cannot run the path program: {reasons}")
    if not LAB_KERNEL.exists():
        raise CommandError(f"this image has no lab kernel, and the host kernel cannot run the path program: {reasons}")
    release = LAB_KERNEL.with_name("linux.version").read_text().strip()
    return {"kernel": "lab", "release": release, "host_lacks": reasons or None}


def run_host(plan: Plan, interfaces: dict[str, str], run: Run, stop: Path) -> int:
    """Run the path on the kernel this container shares."""
    begun = run.logs if run.started is None else run.started
    agent = Agent(plan, interfaces, run.logs, stop, shared=run.shared, begun=begun.exists)
    try:
        agent.run()
    except (CommandError, NotReadyError) as error:
        agent.fail(error)
        print(f"sim: {error}", file=sys.stderr, flush=True)
        return EXIT_NOT_READY if isinstance(error, NotReadyError) else EXIT_FAILED
    return 0


def captured(plan: Plan, interfaces: dict[str, str], logs: Path) -> list[Capture]:
    """The captures of both sides, once they listen."""
    captures = [Capture(interfaces[side], side, logs, whole_frames=plan.whole_frames, mtu=plan.mtu)
                for side in ("left", "right")]  # fmt: skip
    for capture in captures:
        capture.await_start()
    return captures


def end(captures: list[Capture], logs: Path) -> None:
    """End captures, and write down what they counted."""
    for capture in captures:
        capture.tell()
    (logs / "capture.json").write_text(json.dumps({capture.side: capture.stop() for capture in captures}))


def fail(error: CommandError, events: Events) -> int:
    """Say what failed; the simulator's exit code."""
    events.write("failed", reason="CommandError", message=str(error))
    print(f"sim: {error}", file=sys.stderr, flush=True)
    return EXIT_FAILED


def main() -> int:
    """Run until SIGTERM; 0 when the path was there and ended in order."""
    signal.signal(signal.SIGTERM, lambda *_: STOP.touch())
    signal.signal(signal.SIGINT, lambda *_: STOP.touch())
    SCRATCH.mkdir(parents=True, exist_ok=True)
    STOP.unlink(missing_ok=True)
    run = Run()
    events = Events(run.logs / "events.jsonl")
    events.write("start")
    captures: list[Capture] = []
    try:
        plan = read_plan(run.plan)
        interfaces = find_interfaces(plan.addresses)
        chosen = choose_kernel(plan)
        events.write("kernel", **chosen)
        captures = captured(plan, interfaces, run.logs)
        if chosen["kernel"] == "host":
            return run_host(plan, interfaces, run, STOP)
        wires = {side: hand_over(interface) for side, interface in interfaces.items()}
        words = [str(run.plan), str(run.logs), str(STOP)]
        return LabKernel(plan, wires, words, run.logs / "console.log").wait(run.logs / "events.jsonl")
    except CommandError as error:
        return fail(error, events)
    finally:
        end(captures, run.logs)


if __name__ == "__main__":
    sys.exit(main())
