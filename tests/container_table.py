"""The table of what a container of a lab has, as docs/untrusted.md shows it, and what looks at one from inside."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs" / "untrusted.md"
_UNITS = {"MiB": 2**20, "GiB": 2**30}


@dataclass(frozen=True)
class Row:
    """What a kind of container has."""

    capabilities: frozenset[str]
    root: str
    in_memory: frozenset[str]
    memory: int
    """Bytes, without what the row has in words."""
    processes: int
    network: str


def _tables(head: str) -> list[list[str]]:
    """The rows of the table whose head begins so."""
    lines = DOCS.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(head))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def _listed(cell: str) -> frozenset[str]:
    return frozenset(filter(None, (word.strip() for word in cell.split(","))))


def containers() -> dict[str, Row]:
    """Kind of container → what it has."""
    rows = {}
    for name, capabilities, root, in_memory, memory, processes, network in _tables("| container | capabilities |"):
        amount, unit = memory.split()[:2]
        rows[name] = Row(
            _listed(capabilities), root, _listed(in_memory), int(amount) * _UNITS[unit], int(processes), network
        )
    return rows


def asking() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Image → the capabilities that its manifest asks for, and the folders that it writes to."""
    return {name: (_listed(asks), _listed(writes)) for name, asks, writes in _tables("| image | capabilities |")}


def may_ask() -> frozenset[str]:
    """What a manifest can ask for."""
    text = re.search(r"It can ask for ([A-Z_, and]+),", DOCS.read_text())
    assert text is not None
    return frozenset(re.findall(r"[A-Z_]{3,}", text[1]))


#: Numbers of <linux/capability.h>.
CAPABILITIES = {
    name: number
    for number, name in enumerate(
        [
            "CHOWN",
            "DAC_OVERRIDE",
            "DAC_READ_SEARCH",
            "FOWNER",
            "FSETID",
            "KILL",
            "SETGID",
            "SETUID",
            "SETPCAP",
            "LINUX_IMMUTABLE",
            "NET_BIND_SERVICE",
            "NET_BROADCAST",
            "NET_ADMIN",
            "NET_RAW",
        ]
    )
}

#: A program in Python that tries ways out of its container: `python3 -c PROGRAM PORT ADDRESS,MAC…`. Each address is one
#: of the machine's, at whose port somebody listens; the MAC is its bridge's. It prints what it got at, as JSON.
PROGRAM = r"""
import json, resource, socket, subprocess, sys, threading
from concurrent.futures import ThreadPoolExecutor

port, targets = int(sys.argv[1]), [target.rsplit(",", 1) for target in sys.argv[2:]]
device = next(name for _, name in socket.if_nameindex() if name != "lo")
got = []


def attempt(address, how):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    place = (address, port, 0, socket.if_nametoindex(device)) if family == socket.AF_INET6 else (address, port)
    for kind, name in ((socket.SOCK_STREAM, "tcp"), (socket.SOCK_DGRAM, "udp")):
        with socket.socket(family, kind) as one:
            one.settimeout(0.15)
            try:
                one.connect(place)
                if kind == socket.SOCK_DGRAM:
                    one.send(f"{how} {address}".encode())
                else:
                    got.append(f"{name} {how} {address}")
            except OSError:
                pass


def each(how, words=lambda address, mac: []):
    for address, mac in targets:
        ip = ["ip", "-6" if ":" in address else "-4", *words(address, mac)]
        if len(ip) > 2:
            subprocess.run([*ip, "dev", device], check=False, capture_output=True)
    with ThreadPoolExecutor(len(targets)) as threads:
        list(threads.map(lambda target: attempt(target[0], how), targets))


def name():
    try:
        got.append("a name: " + socket.gethostbyname("example.org"))
    except OSError:
        pass


asking = threading.Thread(target=name)
asking.start()
each("as it is")
each("on link", lambda address, mac: ["route", "replace", address, "onlink"])
each("to the bridge", lambda address, mac: ["neigh", "replace", address, "lladdr", mac, "nud", "permanent"])
each("to all", lambda address, mac: ["neigh", "replace", address, "lladdr", "ff:ff:ff:ff:ff:ff", "nud", "permanent"])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    for address in ("255.255.255.255", "193.167.0.255"):
        try:
            one.sendto(f"to all of {address}".encode(), (address, port))
        except OSError:
            pass
for place in ("/etc/written", "/usr/bin/written", "/written"):
    try:
        open(place, "w").close()
        got.append(place)
    except OSError:
        pass
try:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    got.append("a packet socket")
except OSError:
    pass
if resource.getrlimit(resource.RLIMIT_CORE) != (1, 1):
    got.append("a dump of memory")
asking.join()
print(json.dumps(got))
"""
