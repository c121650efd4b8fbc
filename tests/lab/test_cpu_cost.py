"""What computing costs in virtual time: as much as was asked for, to those that were asked, and the same each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.capture.datagrams import read_datagrams
from harness.capture.files import read_bytes
from tests.lab.conftest import Harness
from tests.lab.test_kernels import run_guest

VIRTUAL = ("--engine", "virtual", "--repeat", "1")
QUICHE = ("--clients", "quiche", "--servers", "quiche")
#: A program whose costs can be added up by hand: it prints what it measured, ns each.
SUMS = r"""
import fcntl, socket, struct, time

PR_LAB_COST, UDP_SEGMENT, SOL_UDP, TURNS, SIZE = 0x6C616263, 103, 17, 500, 1000

def price(*ps):
    return libc.prctl(PR_LAB_COST, *(ctypes.c_ulong(value) for value in (*ps, 0)))

def measured(work, turns=TURNS):
    began = time.monotonic_ns()
    for _ in range(turns):
        work()
    return time.monotonic_ns() - began

def pair(family=socket.AF_INET):
    receiver, sender = (socket.socket(family, socket.SOCK_DGRAM) for _ in range(2))
    receiver.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
    sender.connect(receiver.getsockname()[:2])
    return sender, receiver

# The loopback interface is up (SIOCSIFFLAGS, IFF_UP).
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))
# Timers of less than a tick are there once the first tick has passed.
time.sleep(0.05)
data = bytes(SIZE)
sender, receiver = pair()
print("free", measured(lambda: (sender.send(data), receiver.recv(SIZE))), flush=True)
ready, go = os.pipe()
if os.fork() == 0:
    os.read(ready, 1)
    print("elder", measured(lambda: (sender.send(data), receiver.recv(SIZE))), flush=True)
    os._exit(0)

print("priced", price(2_000_000, 5_000_000, 500), flush=True)
print("calls", measured(os.getppid), flush=True)
print("datagrams", measured(lambda: (sender.send(data), receiver.recv(SIZE))), flush=True)
sender6, receiver6 = pair(socket.AF_INET6)
print("datagrams6", measured(lambda: (sender6.send(data), receiver6.recv(SIZE))), flush=True)
sender.send(data)
print("looks", measured(lambda: receiver.recv(SIZE, socket.MSG_PEEK)), flush=True)
receiver.recv(SIZE)
sender.setsockopt(SOL_UDP, UDP_SEGMENT, SIZE)
print("cut", measured(lambda: sender.send(10 * data), 5), flush=True)
print("cut received", measured(lambda: receiver.recv(SIZE), 50), flush=True)
left, right = socket.create_server(("127.0.0.1", 0)), socket.socket()
right.connect(left.getsockname())
left = left.accept()[0]
print("stream", measured(lambda: (left.send(data), right.recv(SIZE, socket.MSG_WAITALL))), flush=True)
if os.fork() == 0:
    print("child", measured(os.getppid), flush=True)
    os._exit(0)
os.wait()
began = time.monotonic_ns()
for _ in range(4):
    if os.fork() == 0:
        measured(os.getppid)
        os._exit(0)
for _ in range(4):
    os.wait()
print("together", time.monotonic_ns() - began, flush=True)
os.write(go, b"x")
os.wait()
print("too much", price(10**12 + 1, 0, 0), flush=True)
os.setuid(1000)
print("not root", price(0, 0, 0), flush=True)
"""
#: What each program takes by the sum of its costs, ns: 2 us a call, 5 us a datagram, 0.5 ns a byte; 1000 B each.
EXPECTED = {
    "calls": 500 * 2_000,
    "datagrams": 1000 * (2_000 + 5_000 + 500),
    "datagrams6": 1000 * (2_000 + 5_000 + 500),
    "looks": 500 * 2_000,
    "cut": 5 * (2_000 + 10 * (5_000 + 500)),
    "cut received": 50 * (2_000 + 5_000 + 500),
    "child": 500 * 2_000,
}


@pytest.mark.parametrize("entry", ["inproc", "host"])
def test_what_is_charged_is_the_sum_of_the_costs(warm: Harness, tmp_path: Path, entry: str) -> None:
    _, lines = run_guest(tmp_path, SUMS, entry)
    shown = {
        name: int(value)
        for line in lines
        if (name := line.rpartition(" ")[0])
        for value in [line.split()[-1]]
        if value.lstrip("-").isdigit() and not line.startswith("[")
    }
    assert shown["priced"] == 0, lines
    for name, expected in EXPECTED.items():
        assert shown[name] == pytest.approx(expected, rel=0.001, abs=3_000), (name, lines)
    # TCP looks at the clock for each segment, which takes time of its own.
    assert 1000 * (2_000 + 500) <= shown["stream"] < 1.15 * 1000 * (2_000 + 500)
    # Who was there before pays nothing; what computes at once computes side by side.
    assert shown["free"] < 10_000
    assert shown["elder"] < 10_000
    assert 500 * 2_000 <= shown["together"] < 2 * 500 * 2_000
    assert (shown["too much"], shown["not root"]) == (-1, -1)


def _wire(cell: dict[str, list[str]]) -> list[bytes]:
    """What both sides of the simulator saw."""
    folder = Path(cell["evidence"][0]) / "sim"
    return [read_bytes(folder / f"trace_node_{side}.pcap") for side in ("left", "right")]


def test_the_same_costs_give_the_same_bytes_and_none_the_former_ones(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("short", flows=[{"download": "2 MB"}])
    costs = ("--set", "cpu.per_call=1us", "--set", "cpu.per_datagram=4us", "--set", "cpu.per_byte=1ns")
    free = _wire(harness.cell(case, *QUICHE, *VIRTUAL))
    charged = _wire(harness.cell(case, *QUICHE, *VIRTUAL, *costs))
    assert charged != free
    assert _wire(harness.cell(case, *QUICHE, *VIRTUAL, *costs, "--fresh")) == charged
    nothing = ("--set", "cpu.per_call=0us", "--set", "cpu.per_datagram=0us", "--set", "cpu.per_byte=0ns")
    assert _wire(harness.cell(case, *QUICHE, *VIRTUAL, *nothing)) == free


def test_a_client_that_is_too_slow_for_its_link_takes_longer(warm: Harness, harness: Harness) -> None:
    path = {way: {"rate": "200 Mbit/s", "delay": "5 ms", "queue": "1 BDP"} for way in ("forward", "return")}
    case = harness.scenario("slow", path=path, flows=[{"download": "5 MB"}])
    words = ("--vary", "client.cpu.per_datagram=1us,400us")
    cells = harness.cells(case, *QUICHE, *VIRTUAL, *words)
    fast, slow = sorted(cell["measurements"]["completion"]["median"] for cell in cells)
    by_cost = {
        cell["parameters"]["client.cpu.per_datagram"]: cell["measurements"]["completion"]["median"] for cell in cells
    }
    assert by_cost == {"1 us": fast, "400 us": slow}
    # 5 MB are 3,700 datagrams of 1350 B at least, one after the other.
    assert slow > 3_700 * 400e-6 > fast


def test_a_server_that_computes_fills_its_datagrams(warm: Harness, harness: Harness) -> None:
    path = {way: {"rate": "20 Mbit/s", "delay": "20 ms", "queue": "1 BDP"} for way in ("forward", "return")}
    case = harness.scenario("filled", path=path, flows=[{"download": "4 MB"}])
    sent, small = [], []
    for words in ((), ("--set", "server.cpu.per_call=50us")):
        folder = Path(harness.cell(case, *QUICHE, *VIRTUAL, *words)["evidence"][0])
        datagrams = read_datagrams(folder / "sim" / "trace_node_right.pcap")
        sizes = [datagram.size for datagram in datagrams if datagram.source[1] == 443]
        sent.append(len(sizes))
        small.append(sum(size < 200 for size in sizes))
    assert sent[1] < 0.8 * sent[0]
    assert small[1] < 0.3 * small[0]
