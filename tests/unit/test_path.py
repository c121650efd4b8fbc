from __future__ import annotations

import math
import subprocess
import sys

import pytest
from exponential import CENTRE, DEVIATION, table
from hypothesis import given
from hypothesis import strategies as st

from harness.netem import (
    Outage,
    PathProgram,
    burst_bytes,
    compile_path,
    ideal_time,
    queue_bytes,
    slow_start_time,
    timeline,
)
from harness.netem.bottleneck import red_burst, red_log_weight
from harness.netem.bounds import curve_rate
from harness.scenario.schema import Flow
from harness.topology import build_lab
from harness.units import Duration, Rate, Size
from tests.examples import ROOT, cell, link, path, scenario

MEGABYTES = [Size.parse(f"{n} MB") for n in (2, 10, 100)]

#: The paths of draft-kuhn-quic-4-sat-06 §4.2: rates, seconds for 2, 10 and 100 MB by slow start from 12,000 B, by rate.
REFERENCE = [
    ("50 Mbit/s", [5.9, 7.8, 22.2], [1.6, 2.9, 17.3]),
    ("250 Mbit/s", [5.9, 7.3, 10.9], [1.4, 1.6, 4.5]),
    ("10 Mbit/s", [6.2, 12.6, 84.6], [2.9, 9.3, 81.3]),
]


@pytest.mark.parametrize(("rate", "slow", "ideal"), REFERENCE)
def test_reference_times(rate: str, slow: list[float], ideal: list[float]) -> None:
    steps = timeline(path(forward=link(rate)))
    assert [slow_start_time(steps, size) for size in MEGABYTES] == pytest.approx(slow, abs=0.06)
    assert [ideal_time(steps, size) for size in MEGABYTES] == pytest.approx(ideal, abs=0.06)


def test_the_ideal_follows_a_change_of_rate() -> None:
    steady, falling = timeline(path()), timeline(path(changes=[{"at": "5 s", "forward": {"rate": "10 Mbit/s"}}]))
    assert ideal_time(falling, MEGABYTES[0]) == ideal_time(steady, MEGABYTES[0])
    # Data enter from 0.975 s on: 4.025 s at 50 Mbit/s carry 25.2 MB; the other 74.8 MB take 59.9 s at 10.
    assert ideal_time(falling, MEGABYTES[2]) == pytest.approx(5 + 59.875 + 0.325, abs=0.001)


@given(size=st.integers(1, 10**9), more=st.integers(1, 10**8))
def test_more_bytes_take_longer_and_never_less_than_ideal(size: int, more: int) -> None:
    steps = timeline(path())
    assert slow_start_time(steps, Size(size)) <= slow_start_time(steps, Size(size + more))
    assert ideal_time(steps, Size(size)) <= slow_start_time(steps, Size(size)) + 1e-9


@pytest.mark.parametrize(
    ("rate", "expected"), [("250 Mbit/s", 20_312_500), ("50 Mbit/s", 4_062_500), ("0.5 Mbit/s", 40_625)]
)
def test_one_bdp_of_buffer(rate: str, expected: int) -> None:
    assert queue_bytes(link(rate), Duration.parse("650 ms")) == expected


def test_the_token_bucket_holds_at_least_two_frames() -> None:
    assert burst_bytes(link("0.5 Mbit/s"), "bucket") == 2 * 1514
    assert burst_bytes(link("10 Mbit/s"), "bucket") == 5000
    assert burst_bytes(link("50 Mbit/s"), "bucket") == 25_000
    assert burst_bytes(link("250 Mbit/s"), "bucket") == 125_000
    assert burst_bytes(link(burst="10 kB"), "bucket") == 10_000


def test_a_serial_link_has_a_bucket_only_where_one_is_asked_for() -> None:
    assert burst_bytes(link(), "serial") is None
    assert burst_bytes(link(burst="10 kB"), "serial") == 10_000
    path_program = compile_path(path(forward=link(burst="10 kB")), "serial")
    assert (path_program.links["to_client"].burst_bytes, path_program.links["to_server"].burst_bytes) == (10_000, None)
    assert [command[-7:] for command in path_program.setup if "tbf" in command] == [
        ("tbf", "rate", "50000000bit", "burst", "10000", "limit", "4062500")
    ]


@given(rate=st.integers(1000, 10**9))
def test_a_curve_is_never_slower_than_its_rate_and_hardly_faster(rate: int) -> None:
    """As the kernel takes it: whole bytes per second, and the time of a byte rounded up (m2ism)."""
    set_rate = curve_rate(Rate(rate))
    assert set_rate % 8 == 0
    slope = -(-(15_625_000 << 14) // (set_rate // 8))
    assert slope / (15_625_000 << 14) <= 8 / rate
    assert 8 / rate - slope / (15_625_000 << 14) < 8 / rate * (8e-3 if rate < 10_000 else 1e-3)


def test_what_serves_a_changing_rate_keeps_the_packet_in_service() -> None:
    """The lab kernel's serial discipline takes a packet's own time, so that no netem does ahead of the delay."""
    nothing = {"at": "5 s", "forward": {"rate": "0 bit/s"}}
    serial, bucket = (compile_path(path(changes=[nothing]), server) for server in ("serial", "bucket"))
    server = ("tc", "qdisc", "change", "dev", "to_client", "root", "handle", "1:")
    assert [change.commands for change in serial.changes] == [((*server, "serial", "rate", "0bit"),)]
    # tc has no rate of 0 for tbf.
    assert [command[:11] for change in bucket.changes for command in change.commands] == [
        (*server, "tbf", "rate", "8bit")
    ]
    kinds = {command[4]: command[8] for command in serial.setup if command[5:6] == ("root",)}
    assert kinds == {"to_client": "serial", "left": "netem", "to_server": "hfsc", "right": "netem"}


def test_each_change_and_each_return_of_a_path_has_a_seed_of_its_own() -> None:
    """With the same seed netem would lose the same packets behind each change, counted from it."""
    changes = [{"at": f"{at} s", "forward": {"delay": f"{20 + at} ms"}, "return": {"loss": "2 %"}} for at in (1, 2, 3)]
    lossy = link(delay="20 ms", loss="1 %")
    changing = compile_path(path(forward=lossy, changes=changes), "serial", 7)
    holes = [Outage(from_ns=at, until_ns=at + 1) for at in (10, 20)]
    dark = compile_path(path(forward=lossy), "serial", 7, outages=holes)
    for program in (changing, dark):
        commands = [*program.setup, *(command for change in program.changes for command in change.commands)]
        seeds = [command[command.index("seed") + 1] for command in commands if "seed" in command]
        assert len(seeds) == len(set(seeds)) >= 3
    assert "7" in {command[-1] for command in changing.setup}


def test_a_delay_line_has_room_for_what_came_at_the_former_rate() -> None:
    """Else a netem that is changed to a shorter delay drops what comes until the former packets are out."""
    changes = [{"at": "5 s", "forward": {"delay": "1 ms", "rate": "1 Mbit/s"}}]
    program = compile_path(path(changes=changes), "serial")
    (netem,) = [command for change in program.changes for command in change.commands if "netem" in command]
    assert int(netem[netem.index("limit") + 1]) >= 50e6 * 0.325 / 8 / 60


def test_the_egress_of_a_serial_link_has_room_for_every_state_of_the_path() -> None:
    faster = {"at": "5 s", "forward": {"rate": "500 Mbit/s"}}
    program = compile_path(path(changes=[faster]), "serial")
    (root,) = [
        command for command in program.setup if command[4:7] == ("left", "root", "handle") and "netem" in command
    ]
    # 325 ms of frames of 60 bytes, a quarter more, and a thousand.
    assert int(root[root.index("limit") + 1]) == 1000 + math.ceil(1.25 * 500e6 * 0.325 / 8 / 60)


def test_red_weights_are_those_of_iproute2() -> None:
    # By tc_red_eval_ewma of iproute2: min 15000, max 40000: bursts that give Wlog 9, by avpkt.
    for average, first, last in ((1000, 91, 125), (1280, 79, 108), (1400, 75, 103), (1500, 72, 99)):
        fitting = [burst for burst in range(20, 200) if red_log_weight(15_000, burst, average) == 9]
        assert (fitting[0], fitting[-1]) == (first, last)
        assert red_log_weight(15_000, red_burst(0.002, 15_000, average), average) == 9


@pytest.mark.parametrize(
    ("wq", "minimum", "average"), [(0.002, 15_000, 1000), (0.5, 100, 1500), (0.0005, 2_000_000, 500), (1e-5, 90, 64)]
)
def test_the_burst_is_in_the_middle_of_all_that_give_the_weight(wq: float, minimum: int, average: int) -> None:
    log = round(-math.log2(wq))
    fitting = [burst for burst in range(1, 110_000) if red_log_weight(minimum, burst, average) == log]
    if fitting:
        assert red_burst(wq, minimum, average) == fitting[len(fitting) // 2]
    else:
        with pytest.raises(ValueError, match="tc has no burst"):
            red_burst(wq, minimum, average)


def test_what_does_not_change_needs_no_command() -> None:
    program = compile_path(path(changes=[{"at": "5 s", "forward": {"rate": "50 Mbit/s"}}]), "serial")
    assert program.changes == ()


def test_the_seed_reaches_every_loss_and_nothing_else() -> None:
    lossless, lossy = (compile_path(path(forward=link(loss=loss)), "serial", seed=7) for loss in ("0 %", "1 %"))
    assert not any("seed" in command for command in lossless.setup)
    assert [command[command.index("seed") + 1] for command in lossy.setup if "seed" in command] == ["7"]


def test_an_upload_compiles_to_the_same_links_the_other_way_round() -> None:
    down, up = (compile_path(path(terminal=end), "serial") for end in ("client", "server"))
    assert down.links["to_client"].rate_bps == up.links["to_server"].rate_bps == 50_000_000
    assert up.links["to_client"].rate_bps == 10_000_000


# --- service processes


def served(rate: str = "2.64 Mbit/s", mtu: int = 1500, **service: str) -> PathProgram:
    behind = link(rate, queue="20 packets", service={"process": "poisson", **service})
    return compile_path(path(forward=behind, mtu=mtu), "serial")


def slot(command: tuple[str, ...]) -> tuple[str, ...]:
    """The mean and the deviation of a service process, as tc is told."""
    place = command.index("slot")
    assert command[place + 1 : place + 3] == ("distribution", "exponential")
    return command[place + 3 : place + 5]


def test_the_table_of_the_exponential_distribution() -> None:
    entries = table()
    assert -(1 << 15) <= min(entries) <= max(entries) < 1 << 15
    # As the kernel takes it: mean + deviation · t / 8192.
    values = sorted(5.0 + 1.25 * entry / 8192 for entry in entries)
    assert (CENTRE, DEVIATION) == (5.0, 1.25)
    mean = sum(values) / len(values)
    assert mean == pytest.approx(1, abs=1e-4)
    assert sum((value - mean) ** 2 for value in values) / len(values) == pytest.approx(1, abs=2e-3)
    assert values[0] == pytest.approx(0, abs=1e-3)
    # Its quartiles are ln 4/3, ln 2 and ln 4.
    assert [values[len(values) * n // 4] for n in (1, 2, 3)] == pytest.approx([0.28768, 0.69315, 1.38629], abs=1e-3)


def test_the_table_is_one_that_tc_can_read() -> None:
    script = ROOT / "images/sim/exponential.py"
    printed = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout
    lines = printed.splitlines()
    assert lines[0].startswith("#")
    assert [int(word) for line in lines[1:] for word in line.split()] == table()
    # iproute2 puts the table into a message of 32 KiB, 2 bytes an entry, with its other options.
    assert len(table()) * 2 <= (1 << 15) - 1024


@pytest.mark.parametrize(("mtu", "gap"), [(1500, 1514 * 8 / 2.64e6), (1280, 1294 * 8 / 2.64e6)])
def test_a_service_process_has_a_full_packets_time_as_its_mean_gap(mtu: int, gap: float) -> None:
    (server,) = [command for command in served(mtu=mtu).setup if "slot" in command]
    mean, deviation = (int(word.removesuffix("ns")) / 1e9 for word in slot(server))
    assert (mean, deviation) == pytest.approx((5 * gap, 1.25 * gap))


def test_a_cold_start_has_the_table_too_since_a_change_cannot_take_it_away() -> None:
    program = served(cold_start="5 s", period="60 s")
    (server,) = [command for command in program.setup if "slot" in command]
    assert slot(server) == ("100000000ns", "1ns")
    changes = [(change.at_ns / 1e9, slot(command)) for change in program.changes for command in change.commands]
    warm = slot(next(command for command in served().setup if "slot" in command))
    assert changes[:3] == [(5, warm), (60, slot(server)), (65, warm)]
    # For as long as any run takes: ten minutes.
    assert changes[-1][0] == 9 * 60 + 5


def test_a_process_slower_than_netem_can_be_is_refused() -> None:
    with pytest.raises(ValueError, match="as slow as"):
        served("7 kbit/s")
    # 1514 bytes take 1.706 s, and 1.25 times that are 2.13e9 ns, just below 2^31.
    served("7.1 kbit/s")


def test_access_delays_hold_for_both_ends_of_a_flow_and_both_ip_versions() -> None:
    far = Flow(download=Size.parse("1 MB"), access_delay=Duration.parse("20 ms"))
    flows = [Flow(download=Size.parse("1 MB")), far]
    setup = build_lab(cell(scenario(flows=flows, objectives=[])), 0, slot=2).simulators[0].program.setup
    for side in ("left", "right"):
        rules = [
            command for command in setup if command[:5] == ("tc", "filter", "add", "dev", side) and "flowid" in command
        ]
        matched = [command[command.index("dst") + 1] for command in rules]
        assert matched == [
            "193.167.2.101/32", "fd00:cafe:cafe:2::101/128", "193.167.102.101/32", "fd00:cafe:cafe:102::101/128",
        ]  # fmt: skip
        assert {command[-1] for command in rules} == {"1:2"}


@pytest.mark.parametrize(("terminal", "rates"), [("client", [50, 20]), ("server", [10, 5])])
def test_the_rate_towards_the_client_over_time(terminal: str, rates: list[int]) -> None:
    changes = [
        {"at": "5 s", "forward": {"rate": "20 Mbit/s"}},
        {"at": "6 s", "forward": {"loss": "1 %"}, "return": {"rate": "5 Mbit/s"}},
    ]
    file = path(forward=link("50 Mbit/s"), **{"return": link("10 Mbit/s")}, terminal=terminal, changes=changes)
    since = [0, 5] if terminal == "client" else [0, 6]
    assert [(at.seconds, rate.value / 1e6) for at, rate in file.rates("to_client")] == list(
        zip(since, rates, strict=True)
    )
