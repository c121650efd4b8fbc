"""Entry point of the simulator container: choose the kernel, capture, run the path until SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from simulator import probe
from simulator.agent import Agent, CommandError, NotReadyError
from simulator.capture import Capture
from simulator.neighbours import find_interfaces
from simulator.plan import Plan, read_plan
from simulator.shell import Events, run
from simulator.wire import ETH_P_ALL

PLAN = Path("/sim/plan.json")
LOGS = Path("/logs")
SCRATCH = Path("/run/lab")
#: Where the simulators of a lab with several tell each other what they must.
SHARED = Path("/clock")
STOP = SCRATCH / "stop"
LAB_KERNEL = Path("/opt/lab/linux")
#: Frames a vector interface hands over at once (NAPI's weight is 64 at most).
VECTOR_DEPTH = 64
#: Receive and send buffer of the lab kernel's wires, bytes.
WIRE_BUFFER = 16 << 20
#: <linux/socket.h>, <linux/if_packet.h> and <asm-generic/socket.h>; Python's socket module lacks them.
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33

EXIT_FAILED, EXIT_NOT_READY = 1, 2


def choose_kernel(plan: Plan, events: Events) -> str:
    """'host' or 'lab': as forced, else what a probe of the host kernel says."""
    lacking = None
    if plan.kernel in ("auto", "host"):
        lacking = probe.missing(nat=any(command[0] == "nft" for command in plan.setup))
        if lacking is None:
            events.write("kernel", kernel="host", release=os.uname().release)
            return "host"
    if plan.kernel == "host":
        raise CommandError(f"the host kernel cannot run the path program: {lacking}")
    if not LAB_KERNEL.exists():
        raise CommandError(f"this image has no lab kernel, and the host kernel cannot run the path program: {lacking}")
    release = LAB_KERNEL.with_name("linux.version").read_text().strip()
    events.write("kernel", kernel="lab", release=release, host_lacks=lacking)
    return "lab"


def hand_over(interface: str) -> str:
    """Take an interface from the container's own kernel, so that only the lab kernel answers. Its MAC.

    The lab kernel gets the MAC address the endpoints know; the interface itself gets another one and
    listens in promiscuous mode. Every frame is then somebody else's to the container's kernel, which
    would otherwise answer and forward a second time.
    """
    mac = Path(f"/sys/class/net/{interface}/address").read_text().strip()
    # Locally administered, not multicast, different from any MAC Docker hands out (02:42:…).
    aside = "06" + mac[2:]
    run(("ip", "address", "flush", "dev", interface))
    run(("ip", "link", "set", "dev", interface, "address", aside, "promisc", "on", "arp", "off"))
    for feature in ("tx", "rx", "gro", "gso", "tso"):
        subprocess.run(["ethtool", "-K", interface, feature, "off"], capture_output=True, check=False)
    return mac


def raw_socket(interface: str) -> socket.socket:
    """The lab kernel's wire: a packet socket whose buffer outlasts a busy core.

    The default buffer holds some 90 frames, 4 ms at 250 Mbit/s; the lab kernel opens its sockets with that,
    so it is given ones that are opened here.
    """
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    wire.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    for force, plain in ((SO_RCVBUFFORCE, socket.SO_RCVBUF), (SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        try:
            wire.setsockopt(socket.SOL_SOCKET, force, WIRE_BUFFER)
        except PermissionError:
            wire.setsockopt(socket.SOL_SOCKET, plain, WIRE_BUFFER)
    wire.bind((interface, 0))
    return wire


def run_lab(plan: Plan, interfaces: dict[str, str]) -> int:
    """Run the path in the lab kernel attached to the container's two interfaces."""
    vectors, sockets = [], []
    for index, side in enumerate(("left", "right")):
        mac = hand_over(interfaces[side])
        wire = raw_socket(interfaces[side])
        sockets.append(wire)
        vectors.append(f"vec{index}:transport=fd,fd={wire.fileno()},depth={VECTOR_DEPTH},mac={mac}")
    command = [
        str(LAB_KERNEL), f"mem={plan.memory_mib}M", "seccomp=on", *vectors,
        "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "con=null", "con0=null,fd:1", "quiet",
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH=/opt/lab", "PYTHONDONTWRITEBYTECODE=1",
        "init=/usr/bin/python3", "--", "-S", "-m", "simulator.guest", str(PLAN), str(LOGS), str(STOP),
    ]  # fmt: skip
    with (LOGS / "console.log").open("wb") as console:
        guest = subprocess.Popen(
            command, stdout=console, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(SCRATCH)}, start_new_session=True,
            pass_fds=[wire.fileno() for wire in sockets],
        )  # fmt: skip
        guest.wait()
    return outcome_of_guest(guest.returncode)


def outcome_of_guest(returncode: int) -> int:
    """Exit code of the simulator, from what the guest left behind."""
    last = {}
    events = LOGS / "events.jsonl"
    for line in events.read_text().splitlines():
        last = json.loads(line)
    if last.get("event") == "stop":
        return 0
    if last.get("event") == "failed":
        print(f"sim: {last['message']}", file=sys.stderr)
        return EXIT_NOT_READY if last["reason"] == "NotReadyError" else EXIT_FAILED
    console = (LOGS / "console.log").read_text(errors="replace").splitlines()[-10:]
    print(f"sim: the lab kernel ended with {returncode} without a word\n" + "\n".join(console), file=sys.stderr)
    return EXIT_FAILED


def run_host(plan: Plan, interfaces: dict[str, str]) -> int:
    """Run the path on the kernel this container shares."""
    agent = Agent(plan, interfaces, LOGS, STOP, shared=SHARED)
    try:
        agent.run()
    except (CommandError, NotReadyError) as error:
        agent.fail(error)
        print(f"sim: {error}", file=sys.stderr)
        return EXIT_NOT_READY if isinstance(error, NotReadyError) else EXIT_FAILED
    return 0


def main() -> int:
    """Run until SIGTERM; 0 when the path was there and ended in order."""
    signal.signal(signal.SIGTERM, lambda *_: STOP.touch())
    signal.signal(signal.SIGINT, lambda *_: STOP.touch())
    SCRATCH.mkdir(parents=True, exist_ok=True)
    STOP.unlink(missing_ok=True)
    events = Events(LOGS / "events.jsonl")
    events.write("start")
    captures = []
    try:
        plan = read_plan(PLAN)
        interfaces = find_interfaces(plan.addresses)
        kernel = choose_kernel(plan, events)
        captures = [Capture(interfaces[side], side, LOGS, whole_frames=plan.whole_frames) for side in ("left", "right")]
        for capture in captures:
            capture.await_start()
        return run_lab(plan, interfaces) if kernel == "lab" else run_host(plan, interfaces)
    except CommandError as error:
        events.write("failed", reason="CommandError", message=str(error))
        print(f"sim: {error}", file=sys.stderr)
        return EXIT_FAILED
    finally:
        counts = {capture.side: capture.stop() for capture in captures}
        (LOGS / "capture.json").write_text(json.dumps(counts))


if __name__ == "__main__":
    sys.exit(main())
