"""Init of the lab kernel: give it the container's addresses, run the agent, switch off."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from simulator.agent import Agent
from simulator.init import then_off
from simulator.plan import Plan, read_plan
from simulator.shell import run, run_program

#: Of the container: where what goes wrong before there is an order is written to.
SCRATCH = Path("/run/lab")
#: Between two looks for an order, seconds.
LOOK = 0.005


def configure(plan: Plan) -> None:
    """Interfaces with the plan's names and addresses, as Docker gave them to the container."""
    commands = [["ip", "link", "set", "dev", "lo", "up"]]
    for index, side in enumerate(("left", "right")):
        commands.append(["ip", "link", "set", "dev", f"vec{index}", "name", side])
        commands.append(["ip", "link", "set", "dev", side, "mtu", str(plan.mtu), "up"])
        for address in plan.addresses[side]:
            # nodad: duplicate address detection would hold IPv6 back for a second.
            nodad = ["nodad"] if ":" in address else []
            commands.append(["ip", "address", "add", address, "dev", side, *nodad])
    run_program(commands)


def ordered(order: Path) -> dict[str, Path]:
    """Where the files of the run are that is ordered next (see `simulator.standing`). Waits for it."""
    while not order.exists():
        time.sleep(LOOK)
    return {name: Path(place) for name, place in json.loads(order.read_text()).items()}


def main() -> None:
    """Run as process 1 of the lab kernel: `guest.py PLAN LOGS STOP_FILE`. What goes wrong is written to LOGS too.

    `guest.py --standing PLAN ORDER STOP_FILE` waits for an order that says which plan and logs; PLAN has its addresses.
    """
    standing = sys.argv[1] == "--standing"
    plan_file, place, stop_file = (Path(word) for word in sys.argv[1 + standing : 4 + standing])
    logs, shared = (SCRATCH if standing else place), Path("/clock")
    agent = None
    try:
        run(("mount", "-t", "proc", "proc", "/proc"))
        run(("mount", "-t", "sysfs", "sys", "/sys"))
        plan = read_plan(plan_file)
        configure(plan)
        begun = place
        if standing:
            order = ordered(place)
            begun = order["started"]
            plan, logs, shared = read_plan(order["plan"]), order["logs"], order["shared"]
        agent = Agent(plan, {"left": "left", "right": "right"}, logs, stop_file, shared=shared, begun=begun.exists)
        agent.run()
    except Exception as error:
        if agent is not None:
            agent.fail(error)
        else:
            (logs / "guest-error").write_text(f"{type(error).__name__}: {error}\n")
        raise


if __name__ == "__main__":
    then_off(main, "lab kernel")
