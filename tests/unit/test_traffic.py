"""The generator of TCP and UDP flows (images/linux/traffic): its laws, what it reads of the kernel, its two ends."""

from __future__ import annotations

import csv
import json
import os
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np
import pytest
from simulator.wire import is_version_negotiation, probe_packet
from traffic import TrafficError, diag, tcp, udp
from traffic.diag import Diag
from traffic.law import Law
from traffic.plan import Plan, read_plan
from traffic.readiness import version_negotiation
from traffic.sampler import Sampler

from tests.polling import wait_for

IMAGE = Path(__file__).parents[2] / "images" / "linux"
POISSON = {"model": "poisson", "rate": 8_000_000, "packet": [1200, 1200]}
CBR = {"model": "cbr", "rate": 1_920_000, "packet": [1200, 1200]}
UNIFORM = {"model": "uniform", "packet": [500, 1000], "gap": [0.01, 0.02]}
TCP_CONGESTION = 13

P = ParamSpec("P")

# --- laws


def drawn(raw: dict[str, Any], seed: int = 1, seconds: float = 60.0) -> tuple[np.ndarray, np.ndarray]:
    """(gaps in s, sizes in bytes)."""
    law = Law.read(raw)
    assert law is not None
    times, sizes = zip(*law.departures(seed, seconds), strict=True)
    return np.diff(np.array([0.0, *times])), np.array(sizes)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_poisson_has_exponential_gaps_of_the_mean_asked_for(seed: int) -> None:
    # Not above: each of the processes that share the tests would wait for it.
    from scipy import stats

    gaps, sizes = drawn(POISSON, seed)
    # 8 Mbit/s of 1200 B are 833.3 datagrams/s.
    assert stats.kstest(gaps, stats.expon(scale=1.2e-3).cdf).pvalue > 0.01
    assert set(sizes) == {1200}
    # Independent of one another, and as many in 60 s as a Poisson variable of mean 50,000.
    assert abs(stats.pearsonr(gaps[1:], gaps[:-1]).statistic) < 4 / len(gaps) ** 0.5
    assert stats.poisson(50_000).cdf(len(gaps)) == pytest.approx(0.5, abs=0.499)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_uniform_has_uniform_gaps_and_sizes(seed: int) -> None:
    from scipy import stats

    gaps, sizes = drawn(UNIFORM, seed, 600.0)
    assert stats.kstest(gaps, stats.uniform(0.01, 0.01).cdf).pvalue > 0.01
    assert (sizes.min(), sizes.max()) == (500, 1000)
    # 501 sizes, 40,000 datagrams.
    assert stats.chisquare(np.bincount(sizes - 500, minlength=501)).pvalue > 0.01
    assert abs(stats.pearsonr(gaps, sizes).statistic) < 4 / len(gaps) ** 0.5
    # 750 B every 15 ms are 400 kbit/s; the standard error of the means is 0.1 % each.
    assert sizes.sum() * 8 / gaps.sum() == pytest.approx(400e3, rel=0.006)


def test_cbr_has_equal_gaps_that_do_not_drift() -> None:
    law = Law.read(CBR)
    assert law is not None
    times = [at for at, _ in law.departures(1, 100.0)]
    # 200 datagrams/s; the first a gap after the start, the last before the end.
    assert len(times) == pytest.approx(20_000, abs=1)
    assert times[-1] == pytest.approx(len(times) * 0.005, abs=1e-7)


@pytest.mark.parametrize("raw", [POISSON, UNIFORM])
def test_a_seed_gives_one_sequence_and_another_seed_another(raw: dict[str, Any]) -> None:
    law = Law.read(raw)
    assert law is not None
    assert list(law.departures(7, 1.0)) == list(law.departures(7, 1.0))
    assert list(law.departures(7, 1.0)) != list(law.departures(8, 1.0))
    # A longer flow begins as a shorter one.
    assert list(law.departures(7, 2.0))[:20] == list(law.departures(7, 1.0))[:20]


# --- the plan


def environment(sender: str = "server", kind: str = "udp", **overrides: Any) -> dict[str, str]:
    raw = {"kind": kind, "sender": sender, "seconds": 0.5, "traffic": CBR, "seed": 3, "words": []} | overrides
    return {"PEER": "127.0.0.1", "TRAFFIC": json.dumps(raw)}


def test_the_plan_says_who_sends_what() -> None:
    plan = read_plan("client", environment("client", "tcp", words=["--congestion-control=reno"]))
    assert (plan.sends, plan.algorithm, plan.seconds, plan.seed) == (True, "reno", 0.5, 3)
    assert plan.law == Law("cbr", (1200, 1200), (0.005, 0.005), 1_920_000)
    plan = read_plan("client", environment("server", "tcp", traffic={"model": "bulk"}))
    assert (plan.sends, plan.algorithm, plan.law) == (False, "cubic", None)


@pytest.mark.parametrize(
    ("role", "given", "message"),
    [
        ("nobody", environment(), "the role must be client or server, not 'nobody'"),
        ("client", environment(kind="sctp"), "the kind of traffic must be tcp or udp, not 'sctp'"),
        ("client", environment(words=["--speed=1"]), "not an option of this generator: --speed=1"),
        ("client", environment(words=["--congestion-control=reno"]), "UDP has no congestion control"),
        ("client", environment(traffic={"model": "bulk"}), "UDP knows no bulk"),
        ("client", environment(kind="tcp", traffic=POISSON), "not by the law poisson"),
        ("client", environment(traffic=CBR | {"rate": 0}), "a rate of 0 bit/s"),
        ("client", environment(traffic=CBR | {"packet": [12, 12]}), "a datagram of 12 B has no room"),
        ("client", environment(traffic=UNIFORM | {"packet": [9, 3]}), "sizes of 9 to 3 B"),
        ("client", environment(traffic={"model": "pareto", "packet": [9, 9]}), "no model of traffic is called 'pareto'"),
        ("client", environment(seconds=None), "either seconds or a size"),
        ("client", environment(size=10), "either seconds or a size"),
        ("client", environment(seconds=None, size=10), "UDP has no size"),
        ("client", environment(kind="tcp", seconds=None, size=0), "a size of 0 B"),
        ("client", {"PEER": "server4"}, "do not describe a flow: KeyError: 'TRAFFIC'"),
        ("client", environment() | {"CLIENT_PARAMS": "--congestion-control=reno"}, "this client sends no data"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(role: str, given: dict[str, str], message: str) -> None:
    with pytest.raises(TrafficError, match=message.replace("(", r"\(")):
        read_plan(role, given)


def test_another_test_case_is_not_supported() -> None:
    for case in ("http3", ""):
        ended = subprocess.run(
            ["bash", IMAGE / "run_endpoint.sh"], env={"TESTCASE": case, "ROLE": "client"}, check=False
        )
        assert ended.returncode == 127


def test_iperf_is_told_what_the_plan_says() -> None:
    bulk = Plan("client", "tcp", "server", 12.5, None, 1, "server4", "reno")
    words = " ".join(tcp.client_command(bulk, socket.AF_INET, 443))
    assert words == "iperf3 -c server4 -4 -p 443 --cport 5202 -C reno -t 73 -J -R"
    cbr = Plan("client", "tcp", "client", 12.5, Law.read(CBR), 1, "server6")
    words = " ".join(tcp.client_command(cbr, socket.AF_INET6, 443))
    assert words == "iperf3 -c server6 -6 -p 443 --cport 5202 -C cubic -t 73 -J -b 1920000 -l 1200 -N"
    assert " ".join(tcp.server_command(bulk, socket.AF_INET, 443)) == "iperf3 -s -1 -4 -p 443 -J"


def test_iperf_reads_what_it_sends_of_a_size() -> None:
    given = environment("server", "tcp", traffic={"model": "bulk"}, seconds=None, size=2_000_000)
    client, server = (read_plan(role, given) for role in ("client", "server"))
    # For ever, until it is told to end; 2,000,000 B are 16 blocks of 125,000 B.
    words = " ".join(tcp.client_command(client, socket.AF_INET, 443))
    assert words == "iperf3 -c 127.0.0.1 -4 -p 443 --cport 5202 -C cubic -t 0 -J -R -l 125000"
    words = " ".join(tcp.server_command(server, socket.AF_INET, 443))
    assert words == "iperf3 -s -1 -4 -p 443 -J -F /proc/self/fd/0"
    given = environment("client", "tcp", seconds=None, size=2_000_000)
    client, server = (read_plan(role, given) for role in ("client", "server"))
    words = " ".join(tcp.client_command(client, socket.AF_INET, 443))
    assert words == (
        "iperf3 -c 127.0.0.1 -4 -p 443 --cport 5202 -C cubic -t 0 -J -b 1920000 -l 1200 -N -F /proc/self/fd/0"
    )
    assert " ".join(tcp.server_command(server, socket.AF_INET, 443)) == "iperf3 -s -1 -4 -p 443 -J"


@pytest.mark.parametrize(
    ("size", "length"),
    # 1,000,003 is a prime; of 131,073 = 3 · 43691 B a third is the longest part.
    [(1, 131072), (5000, 5000), (131072, 131072), (131073, 43691), (10**7, 125000), (2**30, 131072), (1000003, 131072)],
)
def test_blocks_are_even_where_they_can_be(size: int, length: int) -> None:
    assert tcp.block_length(size) == length


def test_a_congestion_control_nobody_has_is_named_with_those_there_are() -> None:
    with pytest.raises(TrafficError, match=r"has no congestion control tahoe .*; it has .*reno"):
        tcp.check_algorithm("tahoe")
    tcp.check_algorithm("reno")


# --- what the kernel says


def info_bytes() -> bytes:
    """A struct tcp_info (linux/tcp.h) field by field in its order: every number is its place in the list."""
    # state … flags; rto … total_retrans; pacing_rate … bytes_received; segs_out … data_segs_out;
    # delivery_rate … sndbuf_limited; delivered, delivered_ce; bytes_sent, bytes_retrans; dsack_dups … rehash;
    # total_rto, total_rto_recoveries, total_rto_time.
    return struct.pack("=8B24I4Q6I4Q2I2Q6I2HI", *range(59))


def test_tcp_info_field_by_field() -> None:
    assert len(info_bytes()) == 248
    assert diag.tcp_info(info_bytes()) == {
        "ca_state": 1, "mss": 10, "unacked": 12, "sacked": 13, "lost": 14, "retrans": 15, "srtt_us": 23,
        "rttvar_us": 24, "cwnd": 26, "total_retrans": 31, "bytes_acked": 34, "notsent_bytes": 38, "min_rtt_us": 39, "delivery_rate": 42,
        "bytes_sent": 48, "bytes_retrans": 49, "total_rto": 56, "total_rto_time_ms": 58, "snd_wnd": 53,
    }  # fmt: skip


def test_an_older_kernel_has_a_shorter_tcp_info() -> None:
    # Linux 6.1 ends with rehash.
    figures = diag.tcp_info(info_bytes()[:240])
    assert (figures["total_rto"], figures["total_rto_time_ms"], figures["bytes_retrans"]) == (None, None, 49)


def test_what_has_no_sample_yet_is_absent() -> None:
    raw = bytearray(info_bytes())
    raw[148:152] = b"\xff" * 4
    raw[68:72] = bytes(4)
    figures = diag.tcp_info(bytes(raw))
    assert (figures["min_rtt_us"], figures["srtt_us"], figures["rttvar_us"]) == (None, None, 24)


def test_the_request_is_that_of_sock_diag() -> None:
    identity = bytes(range(48))
    # nlmsghdr: length 72, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST; inet_diag_req_v2: AF_INET, TCP, info and congestion.
    assert diag.request(2, 1 << 1, identity, dump=False) == (
        struct.pack("=IHHII", 72, 20, 1, 0, 0) + struct.pack("=BBBBI", 2, 6, 0b1010, 0, 2) + identity
    )
    assert diag.request(10, 1 << 10, identity, dump=True)[6:8] == struct.pack("=H", 0x301)


def test_a_response_is_read_attribute_by_attribute() -> None:
    identity = struct.pack("!HH16s16s", 443, 5202, bytes([193, 167, 100, 100]), bytes([193, 167, 0, 100])) + bytes(12)
    body = struct.pack("=BBBB", 2, 1, 0, 0) + identity + struct.pack("=IIIII", 0, 9, 0, 0, 77)
    # INET_DIAG_SHUTDOWN, one byte and its padding; INET_DIAG_CONG; INET_DIAG_INFO.
    body += struct.pack("=HHB3x", 5, 8, 1) + struct.pack("=HH6s2x", 10, 4, b"cubic\0")
    body += struct.pack("=HH", 4 + 248, 2) + info_bytes()
    message = struct.pack("=IHHII", 16 + len(body), 20, 2, 0, 0) + body
    done = struct.pack("=IHHIIi", 20, 3, 2, 0, 0, 0)
    (kind, first), (last, _) = diag.messages(message + done)
    assert (kind, last) == (20, 3)
    connection = diag.connection(first)
    assert (connection.family, connection.state, connection.ports, connection.algorithm) == (2, 1, (443, 5202), "cubic")
    assert (connection.identity, connection.info) == (identity, info_bytes())
    assert connection.unread == 9
    # The field behind bytes_acked, which is the 34th.
    assert diag.bytes_received(connection.info) == 35
    assert diag.bytes_received(b"") == 0


@pytest.mark.parametrize("broken", [struct.pack("=IHHII", 3, 20, 0, 0, 0), bytes(72) + struct.pack("=HH", 0, 2)])
def test_broken_messages_are_errors(broken: bytes) -> None:
    with pytest.raises(ValueError, match="netlink"):
        list(diag.messages(broken)) if len(broken) == 16 else diag.connection(broken)


class Pair:
    """A TCP connection over the loopback, from both of its ends."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            self.client = socket.create_connection(("127.0.0.1", self.port))
            self.server, _ = listener.accept()
        self.client_port = self.client.getsockname()[1]

    def close(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    socket_pair = Pair()
    yield socket_pair
    socket_pair.close()


@pytest.fixture
def sockets() -> Iterator[Diag]:
    diagnostics = Diag()
    yield diagnostics
    diagnostics.close()


def test_the_kernel_is_asked_for_one_connection(pair: Pair, sockets: Diag) -> None:
    other = Pair()
    pair.server.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"reno")
    pair.server.sendall(bytes(100_000))
    assert len(pair.client.recv(100_000, socket.MSG_WAITALL)) == 100_000
    connection = sockets.find(socket.AF_INET, diag.ESTABLISHED, pair.port, pair.client_port)
    assert connection is not None
    # The last acknowledgement may be a delayed one; from then on the connection is at rest.
    wait_for(lambda: (now := sockets.look(connection)) is None or diag.tcp_info(now.info)["bytes_acked"] == 100_000)
    now = sockets.look(connection)
    assert now is not None
    assert (now.ports, now.algorithm) == ((pair.port, pair.client_port), "reno")
    figures = diag.tcp_info(now.info)
    # The same structure by another door (tcp(7)).
    door = pair.server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
    assert figures == diag.tcp_info(door)
    # On a loaded machine TCP sends some of it again.
    assert figures["bytes_sent"] == 100_000 + (figures["bytes_retrans"] or 0)
    assert figures["bytes_acked"] == 100_000
    assert sockets.find(socket.AF_INET6, diag.ESTABLISHED, pair.port, pair.client_port) is None
    assert sockets.find(socket.AF_INET, diag.LISTEN, pair.port) is None
    other.close()


def test_a_listening_socket_is_found_by_its_port(sockets: Diag) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert sockets.find(socket.AF_INET, diag.LISTEN, port) is not None
    assert sockets.find(socket.AF_INET, diag.LISTEN, port) is None


def test_rows_follow_the_data_until_the_connection_is_gone(pair: Pair, sockets: Diag, tmp_path: Path) -> None:
    algorithm = pair.server.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).rstrip(b"\0").decode()
    sampler = Sampler(tmp_path / "tcp.csv", sockets, socket.AF_INET, (pair.port, pair.client_port), algorithm)
    before = time.time_ns()
    for _ in range(3):
        pair.server.sendall(bytes(1000))
        pair.client.recv(1000, socket.MSG_WAITALL)
        sampler.sample()
    pair.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    pair.client.close()
    sampler.sample()
    sampler.sample()
    assert sampler.over
    sampler.close()
    with (tmp_path / "tcp.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert ",".join(rows[0]) == (
        "t_ns,cwnd,mss,srtt_us,rttvar_us,min_rtt_us,unacked,sacked,lost,retrans,bytes_acked,bytes_sent,bytes_retrans,total_retrans,"
        "ca_state,delivery_rate,notsent_bytes,total_rto,total_rto_time_ms,snd_wnd"
    )
    assert [row["bytes_sent"] for row in rows] == ["1000", "2000", "3000"]
    assert all(before < int(row["t_ns"]) < time.time_ns() for row in rows)
    assert int(rows[0]["cwnd"]) >= 10
    assert int(rows[0]["mss"]) > 500


def test_another_congestion_control_than_asked_for_is_an_error(pair: Pair, sockets: Diag, tmp_path: Path) -> None:
    pair.server.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"cubic")
    sampler = Sampler(tmp_path / "tcp.csv", sockets, socket.AF_INET, (pair.port, pair.client_port), "reno")
    # Before data it may still be set.
    sampler.sample()
    pair.server.sendall(bytes(1000))
    with pytest.raises(TrafficError, match="sent with cubic, not with reno"):
        sampler.sample()
    sampler.close()


# --- both ends, as processes


def free_port() -> int:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        probe.bind(("::", 0))
        return int(probe.getsockname()[1])


#: A role that tells by files beside its logs when many datagrams have come, and when it only waits for its end.
_ROLE = """
import os, signal, sys
from pathlib import Path
from traffic.__main__ import run
from traffic.udp import Reception
count, pause = Reception.count, signal.pause
def count_and_tell(reception, datagram):
    count(reception, datagram)
    if reception.datagrams == 20:
        Path({logs!r} + ".many").touch()
def tell_and_pause():
    Path({logs!r} + ".idle").touch()
    pause()
Reception.count, signal.pause = count_and_tell, tell_and_pause
sys.exit(run({role!r}, os.environ, Path({logs!r}), {port}))
"""


def play(role: str, given: dict[str, str], logs: Path, port: int) -> subprocess.Popen[str]:
    logs.mkdir(exist_ok=True)
    for sign in logs.parent.glob(f"{logs.name}.*"):
        # Of an earlier try.
        sign.unlink()
    return subprocess.Popen(
        [sys.executable, "-c", _ROLE.format(role=role, logs=str(logs), port=port)], stderr=subprocess.PIPE, text=True,
        env={"PYTHONPATH": str(IMAGE), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **given},
    )  # fmt: skip


@contextmanager
def serving(given: dict[str, str], logs: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """A server that has answered the simulator's probe."""
    server = play("server", given, logs, port)
    try:
        probe_until_ready(port)
        yield server
    finally:
        server.kill()
        server.wait()
        assert server.stderr is not None
        server.stderr.close()


def probe_until_ready(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("127.0.0.1", port))
        probe.settimeout(0.05)

        def answers() -> bool:
            try:
                probe.send(probe_packet())
                assert is_version_negotiation(probe.recv(2048))
            except (TimeoutError, ConnectionRefusedError):
                return False
            return True

        wait_for(answers, 20)


def ended(process: subprocess.Popen[str], within: float) -> tuple[int, str]:
    """(exit code, standard error)."""
    _, text = process.communicate(timeout=within)
    return process.returncode, text


def undisturbed(test: Callable[P, None]) -> Callable[P, None]:
    """Of three tries one has to hold: a machine at work delays processes and overflows sockets, the code does neither."""

    @wraps(test)
    def tried(*args: P.args, **kwargs: P.kwargs) -> None:
        for _ in range(2):
            with suppress(AssertionError):
                return test(*args, **kwargs)
        return test(*args, **kwargs)

    return tried


@pytest.mark.parametrize("sender", ["server", "client"])
@pytest.mark.parametrize("traffic", [CBR, UNIFORM | {"gap": [0.002, 0.008]}], ids=["cbr", "uniform"])
@undisturbed
def test_what_is_sent_comes(sender: str, traffic: dict[str, Any], tmp_path: Path) -> None:
    given, port = environment(sender, traffic=traffic), free_port()
    with serving(given, tmp_path / "server", port) as server:
        start = time.monotonic()
        assert ended(play("client", given, tmp_path / "client", port), 10) == (0, "")
        assert 0.5 < time.monotonic() - start < 5
        assert server.poll() is None
        server.terminate()
        assert ended(server, 5) == (0, "")
    receiver = "client" if sender == "server" else "server"
    sent = json.loads((tmp_path / sender / "sent.json").read_text())
    received = json.loads((tmp_path / receiver / "received.json").read_text())
    assert received == {"datagrams": sent["datagrams"], "bytes": sent["bytes"], "missing": 0}
    # 200 a second for half a second, less what the client's start took where it is the sender.
    assert 60 <= sent["datagrams"] <= 125
    smallest, largest = traffic["packet"]
    assert smallest <= sent["bytes"] / sent["datagrams"] <= largest
    assert 0 <= sent["late_p50_us"] <= sent["late_p99_us"] <= sent["late_max_us"]


@undisturbed
def test_datagrams_are_numbered_stamped_and_on_time(tmp_path: Path) -> None:
    law = Law.read(UNIFORM)
    assert law is not None
    wanted = list(law.departures(3, 0.5))
    given, port = environment(traffic=UNIFORM), free_port()
    came = []
    with serving(given, tmp_path / "server", port), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        client.connect(("127.0.0.1", port))
        client.send(b"traffic?")
        client.send(b"traffic?")
        for _ in wanted:
            datagram = client.recv(2048)
            came.append((len(datagram), *struct.unpack_from("!QQ", datagram), time.time_ns()))
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(2048)
    assert [size for size, *_ in came] == [size for _, size in wanted]
    assert [number for _, number, *_ in came] == list(range(len(wanted)))
    assert all(sent < received for _, _, sent, received in came)
    # Never early; how late depends on this machine.
    first = came[0][2] - wanted[0][0] * 1e9
    early = [at * 1e9 - (sent - first) for (_, _, sent, _), (at, _) in zip(came, wanted, strict=True)]
    assert np.median(np.abs(early)) < 5e6
    assert all(after > before for (_, _, before, _), (_, _, after, _) in pairwise(came))


def test_numbers_that_did_not_come_are_missing() -> None:
    reception = udp.Reception()
    for number in (0, 1, 4, 3):
        reception.count(struct.pack("!QQ", number, 5) + bytes(84))
    reception.count(probe_packet())
    reception.count(b"short")
    assert reception.summary() == {"datagrams": 4, "bytes": 400, "missing": 1}


def test_lateness_is_that_of_the_nearest_rank() -> None:
    sending = udp.Sending()
    assert sending.summary() == {
        "datagrams": 0,
        "bytes": 0,
        **dict.fromkeys(("late_p50_us", "late_p99_us", "late_max_us")),
    }
    sending.late.extend(range(200_000, 0, -1000))
    summary = sending.summary()
    assert (summary["late_p50_us"], summary["late_p99_us"], summary["late_max_us"]) == (100.0, 198.0, 200.0)


@pytest.mark.parametrize(
    "datagram", [b"", b"traffic?", struct.pack("!QQ", 3, 5), b"\xc0\0\0\0\0\0\0", b"\xc0\1\2\3\4\x40", b"\xc0\1\2\3\4\0\x09xx"]
)  # fmt: skip
def test_only_quic_packets_with_a_version_are_answered(datagram: bytes) -> None:
    assert version_negotiation(datagram) is None


def test_the_answer_returns_the_connection_ids(tmp_path: Path) -> None:
    probe = b"\xc0\x57\x41\x49\x54" + b"\x03abc" + b"\x02de" + bytes(1193)
    # RFC 9000 §17.2.1: version 0, the source's ID as the destination's, and the other way round.
    assert version_negotiation(probe) == b"\x80\0\0\0\0" + b"\x02de" + b"\x03abc" + b"\x1a\x2a\x3a\x4a"


def test_a_client_that_is_told_to_end_leaves_its_counts(tmp_path: Path) -> None:
    given, port = environment(seconds=30), free_port()
    with serving(given, tmp_path / "server", port) as server:
        client = play("client", given, tmp_path / "client", port)
        wait_for(lambda: (tmp_path / "client.many").exists() or client.poll() is not None)
        server.terminate()
        client.terminate()
        assert ended(client, 5) == (143, "")
        assert ended(server, 5) == (0, "")
    assert json.loads((tmp_path / "client" / "received.json").read_text())["datagrams"] > 10
    assert json.loads((tmp_path / "server" / "sent.json").read_text())["datagrams"] > 10


def test_a_client_that_receives_nothing_says_so(tmp_path: Path) -> None:
    code, text = ended(play("client", environment(), tmp_path / "client", free_port()), 10)
    assert (code, text) == (1, "traffic: nothing came from 127.0.0.1 within 0.5 s\n")


# --- TCP, with something in iperf3's place that opens its connections and obeys its signals

_IPERF = """#!{python}
import json, os, socket, sys, time
words = sys.argv[1:]
port = int(words[words.index("-p") + 1])
def pour(out):
    with open(words[words.index("-F") + 1], "rb", buffering=0) as source:
        while piece := source.read(1 << 17):
            out.sendall(piece)
            time.sleep(0.003)
if os.environ.get("COMPLAINT"):
    print(json.dumps({{"error": os.environ["COMPLAINT"]}}))
    sys.exit(1)
if "-s" in words:
    time.sleep(0.2)
    with socket.create_server(("127.0.0.1", port)) as listener:
        control, _ = listener.accept()
        data, _ = listener.accept()
        data.setsockopt(socket.IPPROTO_TCP, 13, os.environ["ALGORITHM"].encode())
        control.sendall(bytes(50_000))
        if "-F" in words:
            pour(data)
        elif os.environ.get("SIZED"):
            while data.recv(1 << 16):
                pass
            sys.exit(0)
        try:
            while True:
                data.sendall(bytes(1000))
                time.sleep(0.005)
        except OSError:
            sys.exit(0)
control = socket.create_connection(("127.0.0.1", port))
data = socket.socket()
data.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
data.bind(("", int(words[words.index("--cport") + 1])))
data.setsockopt(socket.IPPROTO_TCP, 13, os.environ["ALGORITHM"].encode())
data.connect(("127.0.0.1", port))
data.sendall(bytes(37))
if "-F" in words:
    pour(data)
while data.recv(1 << 16):
    pass
"""


@pytest.fixture
def iperf(tmp_path: Path) -> str:
    """A PATH with an iperf3 of the test's own."""
    program = tmp_path / "bin" / "iperf3"
    program.parent.mkdir()
    program.write_text(_IPERF.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"{program.parent}:{os.environ['PATH']}"


def tcp_environment(path: str, algorithm: str, **overrides: str) -> dict[str, str]:
    given = environment(kind="tcp", seconds=1.2, traffic={"model": "bulk"}, words=["--congestion-control=reno"])
    return given | {"PATH": path, "ALGORITHM": algorithm} | overrides


@undisturbed
def test_the_data_connection_is_sampled_where_it_is_sent(iperf: str, tmp_path: Path) -> None:
    given, port = tcp_environment(iperf, "reno"), free_port()
    with serving(given, tmp_path / "server", port) as server:
        start = time.monotonic()
        assert ended(play("client", given, tmp_path / "client", port), 10) == (0, "")
        assert 1.2 < time.monotonic() - start < 4
        wait_for(lambda: (tmp_path / "server.idle").exists() or server.poll() is not None)
        assert server.poll() is None
        server.terminate()
        assert ended(server, 5) == (0, "")
    assert not (tmp_path / "client" / "tcp.csv").exists()
    with (tmp_path / "server" / "tcp.csv").open() as file:
        rows = [{name: int(value) for name, value in row.items() if value} for row in csv.DictReader(file)]
    assert 20 < len(rows) < 75
    sent = [row["bytes_sent"] for row in rows]
    # In thousands as data goes, never the 50,000 at once of the other connection.
    assert sent == sorted(sent)
    assert all(amount % 1000 == 0 for amount in sent)
    assert sent[0] < 10_000 < sent[-1] < 240_000 + 1000
    steps = np.diff([row["t_ns"] for row in rows])
    assert np.median(steps) == pytest.approx(20e6, rel=0.25)


@pytest.mark.parametrize("sender", ["server", "client"])
@undisturbed
def test_a_flow_of_a_size_ends_when_all_of_it_has_arrived(sender: str, iperf: str, tmp_path: Path) -> None:
    size = 3_000_001
    given = environment(sender, "tcp", seconds=None, size=size, traffic={"model": "bulk"})
    given |= {"PATH": iperf, "ALGORITHM": "cubic", "SIZED": "1"}
    port = free_port()
    with serving(given, tmp_path / "server", port) as server:
        assert ended(play("client", given, tmp_path / "client", port), 20) == (0, "")
        server.terminate()
        assert ended(server, 5) == (0, "")
    with (tmp_path / sender / "tcp.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    # Behind the client's SYN and iperf3's cookie.
    head = 38 if sender == "client" else 0
    assert int(last["bytes_acked"]) <= size + head
    if sender == "client":
        assert int(last["bytes_sent"]) == size + 37


def test_a_flow_of_a_size_whose_iperf_ends_first_has_failed(iperf: str, tmp_path: Path) -> None:
    given = environment("client", "tcp", seconds=None, size=10**6, traffic={"model": "bulk"})
    given |= {"PATH": iperf, "COMPLAINT": "control socket has closed unexpectedly"}
    code, text = ended(play("client", given, tmp_path / "client", free_port()), 10)
    assert (code, text) == (1, "traffic: iperf3 ended with exit code 1: control socket has closed unexpectedly\n")


def test_a_server_that_uses_another_congestion_control_ends_with_the_reason(iperf: str, tmp_path: Path) -> None:
    given, port = tcp_environment(iperf, "cubic"), free_port()
    with serving(given, tmp_path / "server", port) as server:
        client = play("client", given, tmp_path / "client", port)
        assert ended(server, 10) == (1, "traffic: the data is sent with cubic, not with reno\n")
        client.kill()
        ended(client, 5)


def test_what_iperf_complains_of_is_passed_on(iperf: str, tmp_path: Path) -> None:
    given = tcp_environment(iperf, "reno", COMPLAINT="unable to connect to server: No route to host")
    code, text = ended(play("client", given, tmp_path / "client", free_port()), 10)
    assert code == 1
    assert text == "traffic: iperf3 ended with exit code 1: unable to connect to server: No route to host\n"
