"""A run's folder: files that both engines write before the run, and files that they read after it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from harness.engine.certificates import certificates
from harness.engine.compose_file import CLOCK, compose_text
from harness.engine.docker_cli import json_lines
from harness.netem import series_content
from harness.outcome import Cpu, RandomBytes
from harness.reading import read_regular
from harness.topology import Lab, Simulator, lab_summary, plan_folder, sim_plan

#: Bytes that are read of a simulator's file at most.
MAX_EVENT_BYTES = 256 << 20
_PARTS = ("client", "server", "downloads")


def prepare_folder(lab: Lab, folder: Path, cache: Path) -> dict[str, str]:
    """Write a lab's files (Compose file, plan, summary) into its run's folder. Returns the Compose file's variables."""
    shared = (CLOCK,) if len(lab.simulators) > 1 else ()
    simulators = (simulator.name for simulator in lab.simulators)
    flows = (f"flow{flow.flow}/{part}" for flow in lab.flows for part in _PARTS)
    for name in (*simulators, "plan", *shared, *flows):
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        # Any user that an image runs as may write its logs.
        place.chmod(0o777)
    for simulator in lab.simulators:
        plan = folder / plan_path(lab, simulator)
        plan.parent.mkdir(exist_ok=True)
        plan.write_text(json.dumps(sim_plan(lab, simulator)))
        for series in simulator.program.series:
            (plan.parent / series.file).write_bytes(series_content(series).encode())
    (folder / "lab.json").write_text(json.dumps(lab_summary(lab), indent=1))
    (folder / "compose.yaml").write_text(compose_text(lab))
    variables = {
        "LAB_WWW": str(cache / "www"),
        "LAB_CERTS": str(certificates(cache, lab.certificates)),
        "LAB_PLAN": str(folder / "plan"),
    }
    # Used by hand, the lab writes elsewhere, so that it does not overwrite a stored run.
    by_hand = {**variables, "LAB_PLAN": "./plan", "LAB_OUT": "./by-hand", "LAB_OWNER": "by-hand"}
    (folder / "cell.env").write_text("".join(f"{name}={value}\n" for name, value in by_hand.items()))
    return variables


def plan_path(lab: Lab, simulator: Simulator) -> str:
    """Path of a simulator's plan in a run's folder."""
    return f"{plan_folder(lab, simulator)}/plan.json"


def file_digest(file: Path) -> str:
    """SHA-256 of a file, hexadecimal. Raises OSError."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def read_events(folder: Path, name: str = "events.jsonl", simulator: str = "sim") -> list[dict[str, Any]]:
    """The events of a simulator's diary in a run's folder so far, without a line that is still being written."""
    try:
        text = read_regular(folder.resolve() / simulator / name, MAX_EVENT_BYTES).decode()
    except OSError:
        return []
    return json_lines(text[: text.rfind("\n") + 1])


def kernel_of(events: list[dict[str, Any]]) -> str:
    """The kernel whose queues a simulator used: 'lab 7.2.12'; empty when it did not come that far."""
    event = _kernel(events)
    return f"{event['kernel']} {event['release']}" if event else ""


def unrepeatable(events: list[dict[str, Any]]) -> tuple[str, ...]:
    """A warning where a kernel ignored the seeds of a path's losses; empty where it took them."""
    why = _kernel(events).get("unrepeatable", "")
    return (f"another run loses other packets: {why}; --sim-kernel lab repeats them",) if why else ()


def cpu_of(events: list[dict[str, Any]]) -> Cpu | None:
    """The processor that endpoints saw, from a simulator in virtual time; None when it did not come that far."""
    cpu: Cpu | None = _kernel(events).get("cpu")
    return cpu


def _kernel(events: list[dict[str, Any]]) -> dict[str, Any]:
    return next((event for event in events if event["event"] == "kernel"), {})


def random_bytes(folder: Path) -> dict[str, RandomBytes]:
    """Endpoint → random bytes that it drew from its kernel, in virtual time; empty where the run broke off."""
    try:
        content = json.loads(read_regular(folder.resolve() / "sim" / "random.json", MAX_EVENT_BYTES))
    except (OSError, ValueError):
        return {}
    return {name: RandomBytes.model_validate(drawn) for name, drawn in content.items()}
