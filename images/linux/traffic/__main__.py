"""Plays one end of a flow: `python3 -m traffic client|server`.

Exit codes: 0 a client that sent or received for its time or until all of its size had arrived, and a server that was
told to end; 143 a client that was told to end before; 1 anything else, with one line on stderr.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from traffic import Stopped, TrafficError, tcp, udp
from traffic.plan import Plan, read_plan

#: What a process that SIGTERM ended says (bash(1), 128 + the signal's number).
TERMINATED = 128 + signal.SIGTERM
LOGS = Path("/logs")
#: TCP and UDP port of the servers.
PORT = 443


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped


def _wake_on_time() -> None:
    """Have the kernel end sleeps when they are due; by default it takes 50 us more to end several at once."""
    with contextlib.suppress(OSError):
        Path("/proc/self/timerslack_ns").write_text("1")


def _client(plan: Plan, logs: Path, port: int, start_ns: int) -> int:
    try:
        (tcp if plan.kind == "tcp" else udp).request(plan, logs, port, start_ns)
    except Stopped:
        return TERMINATED
    return 0


def _server(plan: Plan, logs: Path, port: int) -> int:
    with contextlib.suppress(Stopped):
        (tcp if plan.kind == "tcp" else udp).serve(plan, logs, port)
        while True:
            # Its flow is over, and the lab is not.
            signal.pause()
    return 0


def run(role: str, environment: Mapping[str, str], logs: Path = LOGS, port: int = PORT) -> int:
    """Play a role; returns the exit code."""
    start_ns = time.monotonic_ns()
    try:
        signal.signal(signal.SIGTERM, _stop)
        _wake_on_time()
        plan = read_plan(role, environment)
        return _client(plan, logs, port, start_ns) if plan.role == "client" else _server(plan, logs, port)
    except Stopped:
        return 0 if role == "server" else TERMINATED
    except (TrafficError, OSError) as error:
        print(f"traffic: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1] if len(sys.argv) == 2 else "", os.environ))
