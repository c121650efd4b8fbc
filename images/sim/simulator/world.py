"""Init of a lab kernel that holds a whole lab in virtual time: endpoints, simulator, captures, clock.

Run as process 1: `world.py FOLDER`, the run's folder on the host machine. It holds plan/plan.json, the
simulator's plan, and plan/world.json: the endpoints, their images and what they are given. On the console it
says `@<seconds>` now and then, with a word when a phase begins, so that whoever waits sees the clock move.
"""

from __future__ import annotations

import ipaddress
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.agent import Agent
from simulator.capture import HELD_BACK, Capture
from simulator.conductor import Conductor, Endpoint, Proxy
from simulator.container import Container, Image, Mount, mount, mount_host
from simulator.init import then_off
from simulator.lifecycle import Flow
from simulator.plan import Plan, read_plan
from simulator.ports import SIM, connect_all, inside
from simulator.shell import CommandError, Events

LAB = Path("/run/lab")
OUT = LAB / "out"
STOP = LAB / "stop"
#: What simulators tell each other.
SHARED = LAB / "shared"
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


#: What the lab kernel says: whose processor its processes see (lab, host), and what random bytes it handed out.
_CPU, _RANDOM = Path("/proc/lab/cpu"), Path("/proc/lab/random")
#: Given to endpoints where their image does not say otherwise. They hide what cannot be masked in CPUID, and give every
#: endpoint the same variables everywhere. glibc's loader looks for libraries of x86-64-v4 before others, and each look
#: in vain takes its time (glibc-hwcaps in ld.so(8); glibc.cpu.hwcaps). OpenSSL, BoringSSL and AWS-LC leave RDRAND
#: (CPUID.1:ECX.30) and RDSEED (CPUID.7:EBX.18) alone (OPENSSL_ia32cap(3)). Go reads GODEBUG: its garbage collector
#: scans the heap in another order where there is AVX-512. Manifests of Go programs hide that (virtual_environment).
MASKS = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL",
    "OPENSSL_ia32cap": "~0x4000000000000000:~0x40000",
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


def masks(image: Image) -> dict[str, str]:
    """Variables that keep an endpoint from what differs between processors."""
    own = {item.partition("=")[0] for item in image.environment}
    return {name: value for name, value in MASKS.items() if name not in own}


def _folder(host: dict[str, Any]) -> Path:
    """Where an endpoint's logs and the files that it receives go.

    Files made on the host's disk belong to whoever runs the lab kernel; here to the endpoint's user.
    """
    return OUT / f"flow{host['flow']}" if host["as_root"] else KEPT / host["name"]


def _www(name: str, file: str) -> Path:
    """An empty folder for the /www of who sends, with a place for the one file that it sends."""
    folder = LAB / "served" / name
    folder.mkdir(parents=True)
    if file:
        (folder / file).touch()
    return folder


def lower(image: Image, lowers: dict[str, Path]) -> Path:
    """Where an image's root is mounted, once for all that are made of it."""
    if image.rootfs not in lowers:
        lowers[image.rootfs] = LAB / "images" / str(len(lowers))
        mount_host(image.rootfs, lowers[image.rootfs], read_only=True)
    return lowers[image.rootfs]


def proxies(described: list[dict[str, Any]], lowers: dict[str, Path]) -> list[Proxy]:
    """The proxies of a lab with their roots made; `lowers` as for endpoints."""
    made = []
    for one in described:
        image = Image(**one["image"])
        given = masks(image) | one["environment"]
        place = LAB / "hosts" / one["name"]
        made.append(Proxy(one["name"], Container(one["name"], image, lower(image, lowers), place, {}, given, [])))
    return made


def containers(hosts: list[dict[str, Any]], folders: dict[str, str], lowers: dict[str, Path]) -> list[Endpoint]:
    """The endpoints of a lab with their roots made.

    `lowers`: the images' roots that are mounted, by their places on the host machine.
    """
    shared = {name: LAB / name for name in folders}
    for name, folder in shared.items():
        mount_host(folders[name], folder, read_only=True)
    made = []
    received: dict[int, Path] = {}
    for host in hosts:
        image = Image(**host["image"])
        lower(image, lowers)
        folder = _folder(host)
        if not host["as_root"]:
            for part in (host["role"], "downloads"):
                (folder / part).mkdir(parents=True)
                (folder / part).chmod(0o777)
        mounts = [Mount(str(folder / host["role"]), "/logs", False), Mount(str(shared["certs"]), "/certs", True)]
        sends = host["role"] == host.get("sender", "server")
        if sends or host["role"] == "server":
            # The folder on the host has whatever was served there before. A server that is sent files has nothing else.
            file, several = (host["file"], host.get("folder", "")) if sends else ("", "")
            served = shared["www"] / several if several else _www(host["name"], file)
            mounts.append(Mount(str(served), "/www", True))
            if file:
                mounts.append(Mount(str(shared["www"] / file), f"/www/{file}", True))
        if not sends:
            target = "/uploads" if host["role"] == "server" else "/downloads"
            mounts.append(Mount(str(folder / "downloads"), target, False))
            received[host["flow"]] = folder / "downloads"
        container = Container(
            host["name"], image, lowers[image.rootfs], LAB / "hosts" / host["name"], host["hosts"],
            masks(image) | host["environment"], mounts, tuple(host.get("cpu_ps", ())),
        )  # fmt: skip
        addresses = frozenset(str(ipaddress.ip_interface(text).ip) for text in host["addresses"])
        made.append(
            Endpoint(host["name"], host["role"], host["flow"], container, host["file"], folder, addresses, host["size"])
        )
    for endpoint in made:
        endpoint.received = received[endpoint.flow]
    return made


def set_kernel(settings: Mapping[str, str], root: Path = Path("/proc/sys")) -> None:
    """Set the kernel of this network namespace, name by name. CommandError where it has no such setting or value."""
    for name, value in settings.items():
        file = root / name.replace(".", "/")
        try:
            file.write_text(value)
            found = file.read_text().split()
        except OSError as error:
            raise CommandError(f"sysctl {name}={value}: {error.strerror}") from error
        if found != value.split():
            raise CommandError(f"sysctl {name}={value}: the kernel made {' '.join(found) or 'nothing'} of it")


def flows(hosts: list[dict[str, Any]], client_end: float) -> list[Flow]:
    """What the clients of a lab do when. `client_end`: seconds that each may take from its last byte to its end."""
    servers = {host["flow"]: host["name"] for host in hosts if host["role"] == "server"}
    return [
        Flow(
            host["name"], servers[host["flow"]], host["start"], host["cut_after"], host["repeat_after"],
            host["time_limit"], host["patience"], client_end,
        )
        for host in hosts
        if host["role"] == "client"
    ]  # fmt: skip


def seen_cpu() -> str:
    """Whose processor processes see: lab or host. CommandError where the kernel does not say."""
    try:
        return _CPU.read_text().strip()
    except OSError as error:
        raise CommandError(f"{_CPU}: {error.strerror}: this lab kernel is not of this simulator's image") from error


def random_drawn(text: str) -> dict[str, dict[str, Any]]:
    """What /proc/lab/random says, by UTS name: bytes handed out and the BLAKE2s of all of them."""
    # Who has no UTS namespace any more has no name.
    rows = (line.rsplit(" ", 2) for line in text.splitlines())
    return {name: {"bytes": int(count), "digest": digest} for name, count, digest in rows}


@dataclass(frozen=True)
class Simulator:
    """One of the lab's simulators: a namespace, and a folder of its name."""

    name: str
    plan: Plan
    networks: Mapping[str, str]
    """Side → the network it is in there."""


def simulators(world: Mapping[str, Any]) -> list[Simulator]:
    """The lab's simulators; a world that names none has one."""
    alone = {"name": SIM, "plan": "plan/plan.json", "networks": {"left": "left", "right": "right"}}
    return [
        Simulator(one["name"], read_plan(OUT / one["plan"]), one["networks"])
        for one in world.get("simulators", [alone])
    ]


def places(host: Mapping[str, Any]) -> dict[str, list[str]]:
    """Network → the host's addresses there; a host that says nothing of networks is where its role puts it."""
    if "networks" in host:
        found: dict[str, list[str]] = host["networks"]
        return found
    return {"left" if host["role"] == "client" else "right": host["addresses"]}


def start_agent(simulator: Simulator) -> tuple[int, int]:
    """Start a simulator's agent in its namespace. (its process, a pipe of what it tells the conductor).

    That is a line each: `ready`, once the path is up; `opened ADDRESS`, when a client opens a connection.
    """
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader
    try:
        with inside(simulator.name):
            agent = Agent(
                simulator.plan, {"left": "left", "right": "right"}, OUT / simulator.name, STOP,
                lambda: os.write(writer, b"ready\n"),
                opened=lambda address: os.write(writer, f"opened {address}\n".encode()), everyone=True,
                shared=SHARED,
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


def captured(simulator: Simulator) -> list[Capture]:
    """The captures on both sides of a simulator, which listen by now."""
    name, whole = simulator.name, simulator.plan.whole_frames
    with inside(name):
        captures = [
            Capture(side, side, OUT / name, virtual=True, whole_frames=whole, mtu=simulator.plan.mtu)
            for side in ("left", "right")
        ]  # fmt: skip
        for capture in captures:
            capture.await_start()
    return captures


def run(folder: str) -> None:
    """Run the lab whose files are in a folder of the host machine."""
    mount_host(folder, OUT, read_only=False)
    events = Events(OUT / "sim" / "events.jsonl")
    events.write("start")
    events.write("kernel", kernel="lab", release=os.uname().release, virtual=True, cpu=seen_cpu())
    world = json.loads((OUT / "plan" / "world.json").read_text())
    if world["schema"] != 1:
        raise ValueError(f"world.json: schema {world['schema']} is not 1")
    sims = simulators(world)
    inhabitants = [*world["hosts"], *world.get("proxies", [])]
    connect_all(
        {
            sim.name: {side: (sim.networks[side], addresses) for side, addresses in sim.plan.addresses.items()}
            for sim in sims
        },
        {host["name"]: places(host) for host in inhabitants},
        world["mtu"],
    )
    for host in inhabitants:
        with inside(host["name"]):
            set_kernel(host.get("sysctls", {}))
    lowers: dict[str, Path] = {}
    endpoints = containers(world["hosts"], world["folders"], lowers)
    between = proxies(world.get("proxies", []), lowers)
    captures = {sim.name: captured(sim) for sim in sims}
    say("ready")
    SHARED.mkdir()
    agents = [start_agent(sim) for sim in sims]
    given = flows(world["hosts"], world["client_end"])
    conductor = Conductor(endpoints, given, OUT, world["log_limit"], world["sample_ns"], say, between)
    try:
        conductor.run(agents)
    finally:
        say("collect")
        conductor.stop()
        STOP.touch()
        for endpoint in endpoints:
            if endpoint.folder.is_relative_to(KEPT):
                import shutil  # it brings all compressors with it, for the labs that need none

                shutil.copytree(endpoint.folder, OUT / f"flow{endpoint.flow}", dirs_exist_ok=True)
        # The captures' last block, and the agent's last sample.
        time.sleep(HELD_BACK + 0.2)
        for name, sides in captures.items():
            counts = {capture.side: capture.stop() for capture in sides}
            (OUT / name / "capture.json").write_text(json.dumps(counts))
        names = {endpoint.name for endpoint in endpoints}
        drawn = {name: value for name, value in random_drawn(_RANDOM.read_text()).items() if name in names}
        (OUT / "sim" / "random.json").write_text(json.dumps(drawn) + "\n")


def main() -> None:
    """Run the lab of the folder that is named."""
    furnish()
    run(sys.argv[1])
    say("remove")


if __name__ == "__main__":
    then_off(main, "lab kernel")
