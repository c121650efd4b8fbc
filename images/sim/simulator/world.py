"""Init of a lab kernel that holds a whole lab in virtual time: endpoints, simulator, captures, clock.

Run as process 1: `world.py FOLDER`, the run's folder on the host machine. It holds plan/plan.json, the
simulator's plan, and plan/world.json: the endpoints, their images and what they are given. On the console it
says `@<seconds>` now and then, with a word when a phase begins, so that whoever waits sees the clock move.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from simulator.agent import Agent
from simulator.capture import HELD_BACK, Capture
from simulator.conductor import Conductor, Endpoint
from simulator.container import Container, Image, Mount, mount, mount_host
from simulator.init import then_off
from simulator.plan import read_plan
from simulator.ports import SIM, connect, inside
from simulator.shell import Events

LAB = Path("/run/lab")
OUT = LAB / "out"
STOP = LAB / "stop"
#: Folders of endpoints that are not root, in memory until the end.
KEPT = LAB / "kept"
#: What the kernel is told before anything runs. A lab that runs out of memory must end, not lose an endpoint;
#: and what is written goes to the host at once, since a full page cache would make writers wait in virtual time.
_SYSCTLS = {
    "vm/panic_on_oom": "1",
    "vm/dirty_background_bytes": str(1 << 20),
    "vm/dirty_ratio": "80",
    "vm/overcommit_memory": "1",
}


def furnish() -> None:
    """Mount what every process expects, and talk on the console."""
    mount("proc", "/proc", "proc")
    mount("sysfs", "/sys", "sysfs")
    mount("dev", "/dev", "devtmpfs")
    console = os.open("/dev/console", os.O_RDWR)
    for number in range(3):
        os.dup2(console, number)
    for folder in ("/run", "/tmp"):
        mount("tmpfs", folder, "tmpfs", 0, "mode=1777,size=90%")
    for name, value in _SYSCTLS.items():
        (Path("/proc/sys") / name).write_text(value)


def say(word: str) -> None:
    """Write the clock, and the phase that begins, if one does, to the console."""
    sys.stdout.write(f"@{time.clock_gettime(time.CLOCK_MONOTONIC):.3f} {word}\n")
    sys.stdout.flush()


def containers(hosts: list[dict[str, Any]], folders: dict[str, str]) -> list[Endpoint]:
    """The endpoints of a lab with their roots made."""
    shared = {name: LAB / name for name in folders}
    for name, place in shared.items():
        mount_host(folders[name], place, read_only=True)
    lowers: dict[str, Path] = {}
    made = []
    for host in hosts:
        image = Image(**host["image"])
        if image.rootfs not in lowers:
            lowers[image.rootfs] = LAB / "images" / str(len(lowers))
            mount_host(image.rootfs, lowers[image.rootfs], read_only=True)
        folder = OUT / f"flow{host['flow']}"
        if not host["as_root"]:
            # Files made on the host's disk belong to whoever runs the lab kernel; here to the endpoint's user.
            folder = KEPT / host["name"]
            for part in (host["role"], "downloads"):
                (folder / part).mkdir(parents=True)
                (folder / part).chmod(0o777)
        mounts = [Mount(str(folder / host["role"]), "/logs", False), Mount(str(shared["certs"]), "/certs", True)]
        if host["role"] == "server":
            mounts.append(Mount(str(shared["www"]), "/www", True))
        else:
            mounts.append(Mount(str(folder / "downloads"), "/downloads", False))
        container = Container(
            host["name"], image, lowers[image.rootfs], LAB / "hosts" / host["name"], host["hosts"],
            host["environment"], mounts,
        )  # fmt: skip
        made.append(
            Endpoint(
                host["name"], host["role"], host["flow"], container, host["start"], host["repeat_after"],
                host["cut_after"], host["time_limit"], host["file"], folder,
            )
        )  # fmt: skip
    return made


def start_agent() -> tuple[int, int]:
    """Start the simulator's agent in its namespace. (its process, a pipe that is readable once the path is up)."""
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader
    try:
        with inside(SIM):
            agent = Agent(
                read_plan(OUT / "plan" / "plan.json"), {"left": "left", "right": "right"}, OUT / "sim", STOP,
                lambda: os.write(writer, b"."), everyone=True,
            )  # fmt: skip
            try:
                agent.run()
            except Exception as error:
                agent.fail(error)
                print(f"simulator: {type(error).__name__}: {error}", flush=True)
                os._exit(1)
    except BaseException as error:
        print(f"simulator: {type(error).__name__}: {error}", flush=True)
        os._exit(1)
    os._exit(0)


def run(folder: str) -> None:
    """Run the lab whose files are in a folder of the host machine."""
    mount_host(folder, OUT, read_only=False)
    events = Events(OUT / "sim" / "events.jsonl")
    events.write("start")
    events.write("kernel", kernel="lab", release=os.uname().release, virtual=True)
    plan = read_plan(OUT / "plan" / "plan.json")
    world = json.loads((OUT / "plan" / "world.json").read_text())
    if world["schema"] != 1:
        raise ValueError(f"world.json: schema {world['schema']} is not 1")
    connect(
        plan.addresses,
        {host["name"]: ("left" if host["role"] == "client" else "right", host["addresses"]) for host in world["hosts"]},
        world["mtu"],
    )
    endpoints = containers(world["hosts"], world["folders"])
    with inside(SIM):
        captures = [Capture(side, side, OUT / "sim", virtual=True) for side in ("left", "right")]
        for capture in captures:
            capture.await_start()
    say("ready")
    agent, ready = start_agent()
    conductor = Conductor(endpoints, OUT, world["client_start"], world["log_limit"], world["sample_ns"], say)
    try:
        conductor.run(agent, ready)
    finally:
        say("collect")
        conductor.stop()
        STOP.touch()
        for endpoint in endpoints:
            if endpoint.folder.is_relative_to(KEPT):
                shutil.copytree(endpoint.folder, OUT / f"flow{endpoint.flow}", dirs_exist_ok=True)
        # The captures' last block, and the agent's last sample.
        time.sleep(HELD_BACK + 0.2)
        counts = {capture.side: capture.stop() for capture in captures}
        (OUT / "sim" / "capture.json").write_text(json.dumps(counts))


def main() -> None:
    """Run the lab of the folder that is named."""
    furnish()
    run(sys.argv[1])
    say("remove")


if __name__ == "__main__":
    then_off(main, "lab kernel")
