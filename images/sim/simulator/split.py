"""A proxy between two segments of a path: it splits TCP, and forwards all else as a router.

Each connection that a client opens ends here, though the client sees the server's address, and another one in its
place leads to the server, which sees the client's: TPROXY (Documentation/networking/tproxy.rst) hands the client's
segments to HAProxy, which connects to where they were going, from the client's own address and port. Nothing else is
touched.

Run as `python3 -m simulator.split` with its plan in the environment, as JSON. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from simulator.neighbours import NotReadyError, find_interfaces, pin
from simulator.plan import Route
from simulator.shell import CommandError, run, run_program
from simulator.wire import switch_off

#: Where HAProxy listens; of what it is told, the port is nowhere on the wire.
PORT = 3128
#: The mark of segments that this host takes for its own, and the routing table that makes it.
MARK = TABLE = "100"
PLAN = "PROXY_PLAN"
CONFIGURATION = Path("/run/haproxy.cfg")
#: How long those beside it, and HAProxy, may take to be there, seconds.
PATIENCE = 15.0


def routes(wanted: Iterable[Route], interfaces: Mapping[str, str], *more: str) -> list[list[str]]:
    """Commands that lead to networks behind the next ones. `more`: what connections that take them start with."""
    return [
        ["ip", "route", "replace", route.network, "via", route.via, "dev", interfaces[route.side], "onlink", *more]
        for route in wanted
    ]


def catching(left: str) -> list[list[str]]:
    """Commands that hand TCP that comes by an interface, and what answers HAProxy's own connections, to this host."""
    chain = ["inet", "split", "taken"]
    rule = ["nft", "add", "rule", *chain]
    taken = ["meta", "mark", "set", MARK, "accept"]
    caught = [
        [*rule, "iifname", left, "meta", "nfproto", family, "meta", "l4proto", "tcp",
         "tproxy", word, "to", f":{PORT}", *taken]
        for family, word in (("ipv4", "ip"), ("ipv6", "ip6"))
    ]  # fmt: skip
    return [
        ["nft", "add", "table", "inet", "split"],
        ["nft", "add", "chain", *chain, "{", "type", "filter", "hook", "prerouting", "priority", "mangle", ";", "}"],
        [*rule, "meta", "l4proto", "tcp", "socket", "transparent", "1", *taken],
        *caught,
    ]


def delivering() -> list[list[str]]:
    """Commands that make what is marked this host's own, whatever address it is for."""
    return [
        command
        for family, everything in (("-4", "0.0.0.0/0"), ("-6", "::/0"))
        for command in (
            ["ip", family, "rule", "add", "fwmark", MARK, "lookup", TABLE],
            ["ip", family, "route", "add", "local", everything, "dev", "lo", "table", TABLE],
        )
    ]


def configuration() -> str:
    """HAProxy's: a relay from whoever was called to where the call was going, in the caller's name."""
    relays = "".join(
        f"\nlisten {name}\n"
        f"    bind {everywhere}:{PORT} {only}transparent\n"
        "    option transparent\n"
        f"    source {everywhere} usesrc client\n"
        for name, everywhere, only in (("ipv4", "0.0.0.0", ""), ("ipv6", "[::]", "v6only "))
    )
    return (
        "global\n    nbthread 1\n    maxconn 1000\n    log stdout format raw daemon info\n\n"
        "defaults\n    mode tcp\n    log global\n    option tcplog\n"
        "    timeout connect 60s\n    timeout client 8h\n    timeout server 8h\n" + relays
    )


def listens(port: int) -> bool:
    """Whether both of this host's sockets listen at a TCP port (proc_pid_net(5))."""
    wanted = f":{port:04X}"
    return all(
        any(row.split()[1].endswith(wanted) and row.split()[3] == "0A" for row in Path(table).read_text().splitlines())
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
    )


def prepare(interface: str) -> None:
    """What leaves by an interface is whole packets with real checksums, and has left its sender."""
    # Offloads would merge segments into super-packets, which queues then count as one.
    switch_off(interface, "gro", "gso", "tso", "tx")
    if not Path("/proc/lab").exists():
        # As at endpoints (images/endpoint/setup.sh): what waits in a queue of the path would hold its sender back.
        command = ["tc", "qdisc", "replace", "dev", interface, "root", "netem", "delay", "1us", "limit", "1000000"]
        subprocess.run(command, capture_output=True, check=False)


def serve(plan: Mapping[str, Any]) -> int:
    """Split and forward until told to stop; HAProxy's exit code. Raises CommandError, NotReadyError."""
    interfaces = find_interfaces(plan["addresses"])
    for interface in interfaces.values():
        prepare(interface)
    run_program(catching(interfaces["left"]))
    for command in delivering():
        run(command)
    CONFIGURATION.write_text(configuration())
    # Not left behind as a daemon.
    relay = subprocess.Popen(["haproxy", "-db", "-f", str(CONFIGURATION)], stdin=subprocess.DEVNULL)

    def stop(number: int, frame: FrameType | None) -> None:
        relay.terminate()

    signal.signal(signal.SIGTERM, stop)
    deadline = time.monotonic() + PATIENCE
    while not listens(PORT):
        if relay.poll() is not None or time.monotonic() > deadline:
            relay.kill()
            raise NotReadyError("HAProxy does not listen")
        time.sleep(0.01)
    known = [Route(**route) for route in plan["routes"]]
    pin({route.via: interfaces[route.side] for route in known}, PATIENCE, lambda: relay.poll() is not None)
    # Now the way is open: nobody comes past it before it splits.
    # By route, since a namespace may not choose its own congestion control (tcp_set_default_congestion_control,
    # net/ipv4/tcp_cong.c).
    start = ("initcwnd", str(plan["initial_cwnd"]), "initrwnd", str(plan["initial_rwnd"]))
    run_program(routes(known, interfaces, *start, "congctl", plan["congestion_control"]))
    return relay.wait()


def main() -> int:
    """Run with the plan of the environment."""
    try:
        return serve(json.loads(os.environ[PLAN]))
    except (CommandError, NotReadyError) as error:
        print(f"proxy: {error}", file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
