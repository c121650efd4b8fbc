"""A lab that stands still: the path is up and the endpoints idle, so that probes can be run in them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.engine.docker.networks import compose
from harness.engine.docker_cli import PREFIX
from harness.engine.run_dir import MAX_EVENT_BYTES, prepare_folder, read_events
from harness.errors import EngineError
from harness.reading import read_regular
from harness.topology import Lab, sim_plan

READY_SECONDS = 30.0


class StandingLab:
    """Context manager around a lab of idle endpoints (images/probe)."""

    def __init__(self, lab: Lab, folder: Path, cache: Path) -> None:
        self._lab = lab
        self._folder = folder.resolve()
        self._project = f"{PREFIX}-standing-{os.getpid()}"
        self._variables = prepare_folder(lab, self._folder, cache.resolve())
        plan = sim_plan(lab, lab.simulators[0])
        # Idle endpoints answer no probe.
        plan["wait_for"] = []
        (self._folder / "plan" / "plan.json").write_text(json.dumps(plan))

    def __enter__(self) -> Self:
        try:
            self._compose("up", "--detach", "--no-build")
            self._await_ready()
        except BaseException:
            self._compose("down", "--volumes", "--timeout", "2", check=False)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._compose("stop", check=False)
        self._compose("down", "--volumes", "--timeout", "2", check=False)

    def execute(self, host: str, *words: str, timeout: float = 120, check: bool = True) -> str:
        """Run a command in an endpoint and return what it printed. EngineError when it fails."""
        return self._compose("exec", "--no-TTY", host, *words, timeout=timeout, check=check)

    def captured(self, side: str) -> int:
        """UDP datagrams captured on one side, once the lab is down."""
        counts = json.loads(read_regular(self._folder.resolve() / "sim" / "capture.json", MAX_EVENT_BYTES))
        return int(counts[side]["captured"])

    def counters(self) -> Path:
        """The kernel's count over time, once the lab is down (see harness.capture.counters)."""
        return self._folder / "sim" / "counters.jsonl"

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            names = {event["event"]: event for event in read_events(self._folder)}
            if "ready" in names:
                return
            if "failed" in names:
                raise EngineError(f"the simulator failed: {names['failed']['message']}")
            time.sleep(0.05)
        raise EngineError(f"the simulator was not ready within {READY_SECONDS:g} s")

    def _compose(self, *words: str, timeout: float = 120, check: bool = True) -> str:
        return compose(self._project, self._folder, self._variables, *words, timeout=timeout, check=check)
