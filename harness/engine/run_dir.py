"""A run's folder before the run: what both engines write there, and what they find there."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from harness.engine.certificates import certificates
from harness.engine.compose_file import CLOCK, compose_text
from harness.engine.docker_cli import json_lines
from harness.outcome import Cpu, RandomBytes
from harness.reading import read_regular
from harness.topology import Lab, Simulator, sim_plan, summary

#: Bytes of what a simulator says of a run, at most.
MOST_SAID = 256 << 20
_PARTS = ("client", "server", "downloads")


def prepare_folder(lab: Lab, folder: Path, cache: Path) -> dict[str, str]:
    """Write a lab's files (Compose file, plan, summary) into its run's folder; the variables they leave open."""
    shared = (CLOCK,) if len(lab.simulators) > 1 else ()
    simulators = (simulator.name for simulator in lab.simulators)
    flows = (f"flow{flow.flow}/{part}" for flow in lab.flows for part in _PARTS)
    for name in (*simulators, "plan", *shared, *flows):
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        # Whatever user an image runs as may write its logs.
        place.chmod(0o777)
    for simulator in lab.simulators:
        plan = folder / plan_of(lab, simulator)
        plan.parent.mkdir(exist_ok=True)
        plan.write_text(json.dumps(sim_plan(lab, simulator)))
    (folder / "lab.json").write_text(json.dumps(summary(lab), indent=1))
    (folder / "compose.yaml").write_text(compose_text(lab))
    variables = {
        "LAB_WWW": str(cache / "www"),
        "LAB_CERTS": str(certificates(cache, lab.certificates)),
        "LAB_PLAN": str(folder / "plan"),
    }
    # By hand, output goes elsewhere: a stored run is not overwritten.
    by_hand = {**variables, "LAB_PLAN": "./plan", "LAB_OUT": "./by-hand", "LAB_OWNER": "by-hand"}
    (folder / "cell.env").write_text("".join(f"{name}={value}\n" for name, value in by_hand.items()))
    return variables


def plan_of(lab: Lab, simulator: Simulator) -> str:
    """A simulator's plan in a run's folder: that of the first as where there is one alone, the others' beside it."""
    return "plan/plan.json" if simulator is lab.simulators[0] else f"plan/{simulator.name}/plan.json"


def file_digest(file: Path) -> str:
    """SHA-256 of a file, hexadecimal. Raises OSError."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def diary(folder: Path, name: str = "events.jsonl", simulator: str = "sim") -> list[dict[str, Any]]:
    """A diary of a simulator's in a run's folder so far; a line that is still being written is left out."""
    try:
        text = read_regular(folder.resolve() / simulator / name, MOST_SAID).decode()
    except OSError:
        return []
    return json_lines(text[: text.rfind("\n") + 1])


def kernel_of(events: list[dict[str, Any]]) -> str:
    """Which kernel's queues a simulator used: 'lab 7.2.12', or nothing when it did not come that far."""
    event = _kernel(events)
    return f"{event['kernel']} {event['release']}" if event else ""


def cpu_of(events: list[dict[str, Any]]) -> Cpu | None:
    """Whose processor the endpoints saw, as a simulator in virtual time says; None when it did not come that far."""
    cpu: Cpu | None = _kernel(events).get("cpu")
    return cpu


def _kernel(events: list[dict[str, Any]]) -> dict[str, Any]:
    return next((event for event in events if event["event"] == "kernel"), {})


def random_bytes(folder: Path) -> dict[str, RandomBytes]:
    """What the endpoints of a run in virtual time drew from their kernel, by endpoint; empty where it broke off."""
    try:
        content = json.loads(read_regular(folder.resolve() / "sim" / "random.json", MOST_SAID))
    except (OSError, ValueError):
        return {}
    return {name: RandomBytes.model_validate(drawn) for name, drawn in content.items()}
