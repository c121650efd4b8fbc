"""The gauge: what a path program does to known streams of packets, on the kernel and queues of the cells.

Run as process 1 of a lab kernel: `gauge.py FOLDER`, a folder of the host machine with plan.json: trials, each
with a program's commands and a stream. The namespaces client0 and server0 have the lab's addresses on two sides of
sim, which has the program of one trial after the other. What is left behind: passage-N.csv, one row per packet, and
passages.json. Whoever sends is woken by the kernel's timer at absolute times, and both ends' times are the
kernel's stamps (SO_TIMESTAMPNS): looking at the clock would cost virtual time.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from simulator.container import mount_host
from simulator.init import then_off
from simulator.ports import SIM, connect, inside, mac
from simulator.shell import CommandError, Prepared, run, run_program, with_paths
from simulator.wire import sniffer, udp_destination, write_sysctl
from simulator.world import LAB, furnish, say

OUT = LAB / "gauge"
#: The lab's addresses (harness/topology).
SIMULATOR = {"left": ["193.167.0.2/24"], "right": ["193.167.100.2/24"]}
HOSTS = {"client0": ("left", ["193.167.0.100/24"]), "server0": ("right", ["193.167.100.100/24"])}
PORT = 4433
#: Ethernet, IPv4 and UDP headers ahead of the sequence number, bytes.
HEADERS = 14 + 20 + 8
#: <asm-generic/socket.h>; the socket module has no names for them.
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
#: Room for every packet of a trial in a socket, so that nothing is read while packets are under way, bytes.
BUFFER = 1 << 29
#: Until the first packet leaves, ns: what comes before costs some virtual time.
AHEAD = 50_000_000
#: Packets between two signs of life on the console.
SIGN = 2000
#: What a packet that did not arrive has for a time.
NEVER = -1


@dataclass(frozen=True)
class Train:
    """Equally spaced packets of one size."""

    start_ns: int
    """Departure of the first, after the start of the stream."""
    gap_ns: int
    """0 for packets that leave together."""
    count: int
    frame_bytes: int
    """Layer-2 size, with the Ethernet header."""


def _address(host: str) -> str:
    return HOSTS[host][1][0].partition("/")[0]


def _permanent(device: str, own: list[str]) -> list[str]:
    """The command that fixes the neighbour with these addresses."""
    return [
        "ip", "neigh", "replace", own[0].partition("/")[0], "lladdr", mac(own), "dev", device, "nud", "permanent",
    ]  # fmt: skip


def _prepare(devices: list[str]) -> None:
    """Have nothing but the stream pass, frame by frame, in the namespace we are in.

    Offloads would merge frames or leave checksums open; IPv6 would send its solicitations and reports through the
    queues, which take tokens of the bucket.
    """
    write_sysctl("net.ipv6.conf.all.disable_ipv6", "1")
    for device in devices:
        words = [word for feature in ("gro", "gso", "tso", "tx") for word in (feature, "off")]
        subprocess.run(["ethtool", "-K", device, *words], capture_output=True, check=False)


def build() -> None:
    """Make the namespaces, with routes and neighbours fixed and forwarding on."""
    connect(SIMULATOR, HOSTS)
    # All UDP sockets together may have what one has; otherwise it is a fifth of the guest's memory (net/ipv4/udp.c).
    write_sysctl("net.ipv4.udp_mem", " ".join([str(BUFFER // os.sysconf("SC_PAGE_SIZE"))] * 3))
    for name, (side, _) in HOSTS.items():
        with inside(name):
            _prepare(["eth0"])
            gateway = SIMULATOR[side]
            run_program(
                [
                    ["ip", "route", "add", "default", "via", gateway[0].partition("/")[0]],
                    _permanent("eth0", gateway),
                ]
            )
    with inside(SIM):
        _prepare(list(SIMULATOR))
        write_sysctl("net.ipv4.ip_forward", "1")
        run_program([_permanent(side, own) for side, own in HOSTS.values()])


def links() -> set[str]:
    """The devices of namespace sim."""
    with inside(SIM):
        return {item["ifname"] for item in json.loads(run(("ip", "-j", "link", "show")))}


def remove(qdiscs: list[dict[str, Any]], before: set[str]) -> None:
    """Remove what a program made: devices that were not there before, and the queues of those that were.

    What else one might do, such as setting an address, stays. That a queue is really gone shows when the next
    program adds its own.
    """
    commands = [
        ["tc", "qdisc", "del", "dev", item["dev"], "ingress" if item["kind"] == "ingress" else "root"]
        for item in qdiscs
        if item["dev"] in SIMULATOR and item["kind"] != "noqueue" and (item.get("root") or item["kind"] == "ingress")
    ]  # fmt: skip
    lines = "".join(f"link delete dev {name}\n" for name in links() - before)
    with inside(SIM):
        run_program(commands)
        # The second end of a veth is gone with the first.
        subprocess.run(["ip", "-force", "-batch", "-"], input=lines, capture_output=True, text=True, check=False)


def _stamped(sock: socket.socket) -> socket.socket:
    """Have a socket keep everything, with the time at which the kernel had it."""
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sock.setblocking(False)
    return sock


def _receiver(host: str) -> socket.socket:
    with inside(host):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((_address(host), PORT))
    return _stamped(sock)


def _sender(host: str, receiver: str) -> tuple[socket.socket, socket.socket]:
    """(connected socket, a tap that sees what leaves)."""
    with inside(host):
        tap = _stamped(sniffer("eth0"))
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # Its buffer is as large as everyone's: what waits in the path is no longer in it (images/lab-kernel/adapt.py).
    sock.bind((_address(host), PORT))
    sock.connect((_address(receiver), PORT))
    return sock, tap


def _read(sock: socket.socket, offset: int, times: array.array[int], zero: int) -> int:
    """Fill in the times (ns after `zero`) of the packets a socket has, by sequence number. Count of repeated ones.

    `offset`: where the sequence number is; a tap's frames have headers, and other traffic among them.
    """
    repeated = 0
    while True:
        try:
            data, ancillary, _, address = sock.recvmsg(HEADERS + 4, 64)
        except BlockingIOError:
            return repeated
        if offset and (address[2] != socket.PACKET_OUTGOING or udp_destination(data) != PORT):
            continue
        (sequence,) = struct.unpack_from("!I", data, offset)
        seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
        if times[sequence] == NEVER:
            times[sequence] = seconds * 1_000_000_000 + nanoseconds - zero
        else:
            repeated += 1


def send(sock: socket.socket, trains: list[Train], zero: int) -> int:
    """Send trains of packets, numbered through, at their times after `zero` (ns since the epoch). Their number."""
    timer = os.timerfd_create(time.CLOCK_REALTIME)
    number = 0
    for train in trains:
        payload = bytearray(train.frame_bytes - HEADERS)
        # Ticks are counted by the kernel, so that a late one delays none of the next.
        os.timerfd_settime_ns(
            timer, flags=os.TFD_TIMER_ABSTIME, initial=zero + train.start_ns, interval=train.gap_ns
        )  # fmt: skip
        left = train.count
        while left:
            ticks = int.from_bytes(os.read(timer, 8), sys.byteorder)
            for _ in range(min(left, ticks) if train.gap_ns else left):
                struct.pack_into("!I", payload, 0, number)
                sock.send(payload)
                number += 1
                left -= 1
                if number % SIGN == 0:
                    say("")
    os.close(timer)
    return number


def send_each(sock: socket.socket, departures: list[int], sizes: list[int], zero: int) -> int:
    """Send packets, numbered through, each at its time after `zero` (ns since the epoch). Their number."""
    timer = os.timerfd_create(time.CLOCK_REALTIME)
    payloads = {size: bytearray(size - HEADERS) for size in set(sizes)}
    before = -1
    for number, (moment, size) in enumerate(zip(departures, sizes, strict=True)):
        if moment != before:
            # A time that has passed, because packets came too close for the sender, is over at once.
            os.timerfd_settime_ns(timer, flags=os.TFD_TIMER_ABSTIME, initial=zero + moment)
            os.read(timer, 8)
            before = moment
        payload = payloads[size]
        struct.pack_into("!I", payload, 0, number)
        sock.send(payload)
        if (number + 1) % SIGN == 0:
            say("")
    os.close(timer)
    return len(sizes)


def start_changes(changes: list[dict[str, Any]], zero: int) -> tuple[int, int]:
    """Apply scheduled commands in namespace sim. (process, a pipe with when each was done, ns after `zero`)."""
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader
    code = 1
    try:
        timer = os.timerfd_create(time.CLOCK_REALTIME)
        with inside(SIM):
            for change in changes:
                # Its tools wait, as the agent's do.
                commands = Prepared(change["commands"])
                os.timerfd_settime_ns(timer, flags=os.TFD_TIMER_ABSTIME, initial=zero + change["at_ns"])
                os.read(timer, 8)
                commands.run()
                os.write(writer, f"{time.time_ns() - zero}\n".encode())
        code = 0
    except BaseException as error:
        print(f"gauge: {type(error).__name__}: {error}", flush=True)
    os._exit(code)


def finish_changes(process: int, pipe: int) -> list[int]:
    """Wait for the last change. When each was done; CommandError if one was refused."""
    _, status = os.waitpid(process, 0)
    if status:
        raise CommandError("a scheduled change was refused")
    with os.fdopen(pipe) as done:
        return [int(line) for line in done]


def trial(number: int, plan: dict[str, Any]) -> dict[str, Any]:
    """Send one stream through one program, write passage-N.csv, and return what else there is to say.

    The stream is `trains`, or the times and sizes of its packets.

    CommandError when the kernel refuses a command.
    """
    before = links()
    with inside(SIM):
        run_program(with_paths(plan["setup"], OUT))
    receiver = next(name for name in HOSTS if name != plan["sender"])
    arrivals = _receiver(receiver)
    sock, tap = _sender(plan["sender"], receiver)
    trains = [Train(**item) for item in plan.get("trains", [])]
    first = trains[0].start_ns if trains else plan["departures_ns"][0]
    zero = time.time_ns() + AHEAD
    changing = start_changes(plan["changes"], zero + first) if plan["changes"] else None
    count = send(sock, trains, zero) if trains else send_each(sock, plan["departures_ns"], plan["frame_bytes"], zero)
    time.sleep(plan["drain_ns"] / 1e9)
    changed = finish_changes(*changing) if changing else []
    sent, received = (array.array("q", [NEVER]) * count for _ in range(2))
    _read(tap, HEADERS, sent, zero)
    repeated = _read(arrivals, 0, received, zero)
    for item in (tap, arrivals, sock):
        item.close()
    rows = [f"{index},{sent[index]},{received[index]}\n" for index in range(count)]
    (OUT / f"passage-{number}.csv").write_text("sequence,sent_ns,received_ns\n" + "".join(rows))
    with inside(SIM):
        qdiscs = json.loads(run(("tc", "-s", "-j", "qdisc", "show")))
    remove(qdiscs, before)
    return {"qdiscs": qdiscs, "changed_ns": changed, "repeated": repeated, "zero_ns": zero}


def measure(folder: str) -> None:
    """Run the trials whose plan is in a folder of the host machine."""
    mount_host(folder, OUT, read_only=False)
    plan = json.loads((OUT / "plan.json").read_text())
    if plan["schema"] != 1:
        raise ValueError(f"plan.json: schema {plan['schema']} is not 1")
    build()
    say("measure")
    done = []
    for number, item in enumerate(plan["trials"]):
        done.append(trial(number, item))
        say("")
    (OUT / "passages.json").write_text(json.dumps({"schema": 1, "trials": done}))


def main() -> None:
    """Run the trials of the folder that is named."""
    furnish()
    measure(sys.argv[1])
    say("remove")


if __name__ == "__main__":
    then_off(main, "gauge")
