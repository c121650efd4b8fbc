from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from harness.analysis.link_estimates import loss_probability
from harness.analysis.metrics import measure
from harness.outcome import LinkProof
from harness.scenario.schema import GilbertElliott
from harness.units import Percentage
from tests.unit.captures import (
    INITIAL,
    T0,
    Carried,
    Link,
    Packet,
    Recipe,
    Traffic,
    counters,
    download,
    frame,
    make_run,
    pcap,
    short,
    write_run,
)


def prove(folder: Path, recipe: Recipe) -> LinkProof:
    link = measure(folder, write_run(folder, recipe)).link
    assert link is not None
    return link


def test_the_link_that_was_asked_for(tmp_path: Path) -> None:
    link = prove(tmp_path, Recipe())
    assert link.valid and link.problems == () and link.kernel == "lab 7.2.12"
    down = link.to_client
    assert down.packets == 3002 and down.queue_drops > 500 and down.unasked_drops == 0 and down.oversize_frames == 0
    assert down.min_delay_ms == pytest.approx(50, abs=0.001) and down.rate_mbps == pytest.approx(10, rel=1e-6)
    assert down.lateness_p99_ms == pytest.approx(0, abs=0.001)
    assert link.to_server.rate_mbps is None  # acknowledgements never kept the queue busy


def test_random_loss_behind_a_full_queue(tmp_path: Path) -> None:
    lossy = Link(loss=0.01)
    loss = {"rate": "10 Mbit/s", "delay": "50 ms", "loss": "1 %", "queue": "100 kB"}
    link = prove(tmp_path, Recipe(lossy, lossy, scenario={"path": {"forward": loss, "return": loss}}))
    assert link.valid and link.to_client.loss_drops > 10 and link.to_client.queue_drops > 500
    assert link.to_client.lateness_p99_ms == pytest.approx(0, abs=0.001)
    assert link.to_client.rate_mbps == pytest.approx(10, rel=1e-6)


def test_what_was_lost_after_the_kernel_was_last_asked_is_in_no_count(tmp_path: Path) -> None:
    lossy = Link(loss=0.01)
    loss = {"rate": "10 Mbit/s", "delay": "50 ms", "loss": "1 %", "queue": "100 kB"}
    run = write_run(tmp_path, Recipe(lossy, lossy, scenario={"path": {"forward": loss, "return": loss}}))
    whole = measure(tmp_path, run).link
    file = tmp_path / "sim" / "counters.jsonl"
    samples = file.read_text().splitlines(keepends=True)
    file.write_text("".join(samples[: len(samples) // 2]))
    half = measure(tmp_path, run).link
    assert whole is not None and half is not None
    assert half.valid and half.problems == ()
    assert 0 < half.to_client.loss_drops < whole.to_client.loss_drops
    assert half.to_client.unasked_drops == whole.to_client.unasked_drops == 0


def test_a_count_may_be_a_little_older_than_it_says(tmp_path: Path) -> None:
    """A packet dropped between the reading of a count and the look at the clock is in the next count."""
    recipe = Recipe()
    run = write_run(tmp_path, recipe)
    drops = download(recipe.configured, recipe.configured_up, recipe.packets, recipe.load).down_carried.queue_drops
    file = tmp_path / "sim" / "counters.jsonl"
    samples = [json.loads(line) for line in file.read_text().splitlines()]
    moved = 0
    for sample in samples:
        soon = [drop for drop in drops if 0 < drop - sample["t"] * 1e9 < 50_000_000]
        if soon:
            sample["t"], moved = (soon[0] + 1_500) / 1e9, moved + 1
    file.write_text("\n".join(map(json.dumps, samples)))
    link = measure(tmp_path, run).link
    assert link is not None and moved > 5
    # One packet too many in the replay's queue is enough to show.
    assert link.valid and link.to_client.rate_mbps == pytest.approx(10, rel=1e-6)


SERIAL = Link(burst_bytes=None)


def test_a_serial_link_is_replayed_to_the_packet(tmp_path: Path) -> None:
    link = prove(tmp_path, Recipe(SERIAL, SERIAL))
    assert link.valid and link.problems == ()
    down = link.to_client
    assert down.queue_drops > 500 and down.unasked_drops == 0
    # Less the packet's own time, which on this link is 0.06 ms for the smallest.
    assert down.min_delay_ms == pytest.approx(50, abs=1e-5) and down.rate_mbps == pytest.approx(10, rel=1e-6)
    assert down.lateness_p99_ms == pytest.approx(0, abs=1e-5) == link.to_server.lateness_p99_ms


@pytest.mark.parametrize(
    ("asked", "real", "sentence"),
    [
        (SERIAL, Link(), "to_client: the smallest delay was 48.96 ms, asked 50.00 ms (tolerance 1.0 ms)"),
        (Link(), SERIAL, "packets left 2.1 ms late"),
    ],
)
def test_a_bucket_is_no_serial_link(tmp_path: Path, asked: Link, real: Link, sentence: str) -> None:
    """A packet of 1294 bytes takes 1.04 ms by itself, and two frames of credit are 2.4 ms of queue."""
    link = prove(tmp_path, Recipe(asked, asked, actual=real, actual_up=real))
    sentences = (*link.problems, f"packets left {link.to_client.lateness_p99_ms:.1f} ms late")
    assert sentence in sentences


def test_a_bucket_that_is_large_beside_the_path_is_worth_a_caution(tmp_path: Path) -> None:
    small = Link(burst_bytes=20_000)
    warnings = measure(tmp_path, write_run(tmp_path, Recipe(small, small))).warnings
    assert [text for text in warnings if "token bucket of 20,000 B" in text and "20%" in text] != []
    assert not [
        text for text in measure(tmp_path / "b", write_run(tmp_path / "b", Recipe())).warnings if "buck" in text
    ]


def test_a_serial_link_changes_its_rate(tmp_path: Path) -> None:
    moment = T0 + 1_502_000_000
    event = {"event": "change", "index": 0, "at": 1.5, "t": moment / 1e9}
    change = {"at": 1.5, "to_client": {"rate_bps": 4_000_000}, "to_server": None}
    recipe = Recipe(
        SERIAL, SERIAL, actual=Link(burst_bytes=None, rate_after=(moment, 4_000_000)), load=1.1, changes=(change,),
        change_events=(event,),
    )  # fmt: skip
    link = prove(tmp_path, recipe)
    assert link.valid and link.to_client.queue_drops > 100 and link.to_client.unasked_drops == 0
    assert link.to_client.lateness_p99_ms == pytest.approx(0, abs=1e-3)


RATE = "Mbit/s in 2.5 s of busy queue, asked 10.000 Mbit/s (tolerance 1.0%)"


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        (Recipe(actual=Link(rate_bps=9_700_000)), f"to_client: 9.700 {RATE}"),
        (Recipe(actual=Link(rate_bps=10_300_000)), f"to_client: 10.300 {RATE}"),
        (Recipe(configured=Link(loss=0.01), actual=Link(loss=0.01, rate_bps=9_700_000)), f"to_client: 9.700 {RATE}"),
        (Recipe(configured=Link(loss=0.01), actual=Link(loss=0.01, rate_bps=10_300_000)), f"to_client: 10.300 {RATE}"),
        (
            Recipe(actual=Link(delay_ns=52_000_000)),
            "to_client: the smallest delay was 52.00 ms, asked 50.00 ms (tolerance 1.0 ms)",
        ),
        (
            Recipe(actual_up=Link(delay_ns=48_000_000)),
            "to_server: the smallest delay was 48.00 ms, asked 50.00 ms (tolerance 1.0 ms)",
        ),
        (
            Recipe(actual=Link(unexplained_loss=0.01)),
            "to_client: 29 of 3002 packets (0.97%) vanished that nothing was asked to drop (tolerance 0.1%)",
        ),
        (
            Recipe(actual=Link(loss=0.01)),  # netem drops although no loss was asked
            "to_client: 29 of 3002 packets (0.97%) vanished that nothing was asked to drop (tolerance 0.1%)",
        ),
        (
            Recipe(configured=Link(loss=0.03), actual=Link(loss=0.005)),
            "to_client: random loss took 16 of 2388 packets (0.67%), asked 3.00% (probability 2e-15)",
        ),
        (
            Recipe(actual=Link(late_ns=6_000_000)),
            "to_client: packets left 9.6 ms late at the 99th percentile (tolerance 5.0 ms)",
        ),
    ],
)
def test_another_link_is_found_out(tmp_path: Path, recipe: Recipe, sentence: str) -> None:
    link = prove(tmp_path, recipe)
    assert not link.valid
    assert sentence in link.problems


def changing(at: float, late: float, event_delay: float) -> Recipe:
    """From 10 to 4 Mbit/s; the kernel changed `late` s after it was due, the event says `told` s after it did."""
    moment = T0 + round((at + late) * 1e9)
    event = {"event": "change", "index": 0, "at": at, "t": moment / 1e9 + event_delay}
    return Recipe(
        actual=Link(rate_after=(moment, 4_000_000)), load=1.1,
        changes=({"at": at, "to_client": {"rate_bps": 4_000_000}, "to_server": None},), change_events=(event,),
    )  # fmt: skip


def test_a_change_of_rate(tmp_path: Path) -> None:
    link = prove(tmp_path, changing(1.5, late=0.002, event_delay=0.0))
    assert link.valid and list(link.changes_late_ms) == pytest.approx([2], abs=0.01)
    assert link.to_client.rate_mbps == pytest.approx(10, rel=1e-6)  # that of the first phase


def test_an_event_that_is_reported_late_is_calibrated(tmp_path: Path) -> None:
    link = prove(tmp_path, changing(1.5, late=0.002, event_delay=0.008))
    assert link.valid and link.to_client.lateness_p99_ms == pytest.approx(0, abs=0.6)  # else 12 ms


def test_a_late_change(tmp_path: Path) -> None:
    link = prove(tmp_path, changing(1.5, late=0.3, event_delay=0.0))
    assert link.problems == ("change 0 was due at 1.500 s and took effect 300 ms later (tolerance 100 ms)",)


def test_a_change_to_another_rate_or_never(tmp_path: Path) -> None:
    wrong = changing(1.5, 0.002, 0.0)
    wrong = replace(wrong, actual=Link(rate_after=(T0 + 1_502_000_000, 5_000_000)))
    problems = prove(tmp_path / "wrong", wrong).problems
    assert any("of busy queue since change 0, asked 4.000 Mbit/s" in problem for problem in problems)
    never = prove(tmp_path / "never", replace(wrong, actual=Link(), change_events=()))
    assert never.problems == ("change 0 was due at 1.500 s and never took effect",)


def test_a_change_behind_the_end_of_a_cold_start(tmp_path: Path) -> None:
    """The simulator counts the commands of a service process too: the path's first change is its second."""
    recipe = changing(1.5, late=0.002, event_delay=0.0)
    cold = {"event": "change", "index": 0, "at": 1.0, "t": T0 / 1e9 + 1.0}
    own = {**recipe.change_events[0], "index": 1}
    link = prove(tmp_path, replace(recipe, change_events=(cold, own)))
    assert link.valid and list(link.changes_late_ms) == pytest.approx([2], abs=0.01)


def test_a_change_that_changes_nothing_need_not_take_effect(tmp_path: Path) -> None:
    nothing = {"at": 0.5, "to_client": None, "to_server": None}
    link = prove(tmp_path, replace(Recipe(packets=2000), changes=(nothing,)))
    assert link.valid and link.changes_late_ms == ()


def test_frames_above_the_path_s_own_mtu(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=200))  # frames of 1294 B
    lab = json.loads((tmp_path / "lab.json").read_text())
    (tmp_path / "lab.json").write_text(json.dumps(lab | {"mtu": 1280}))
    link = measure(tmp_path, run).link
    assert link is not None and link.valid
    (tmp_path / "lab.json").write_text(json.dumps(lab | {"mtu": 1279}))
    link = measure(tmp_path, run).link
    assert link is not None and "to_client: 200 frames above 1293 B: an offload was left on" in link.problems


def with_access_delay(folder: Path, told_ns: int) -> LinkProof:
    """A run whose only flow has 20 ms of its own each way, of which lab.json tells `told_ns`."""
    real = Link(delay_ns=70_000_000)
    run = write_run(folder, Recipe(actual=real, actual_up=real))
    lab = json.loads((folder / "lab.json").read_text())
    lab["flows"][0]["access_delay_ns"] = told_ns
    (folder / "lab.json").write_text(json.dumps(lab))
    link = measure(folder, run).link
    assert link is not None
    return link


def test_access_delays_are_not_the_link_s(tmp_path: Path) -> None:
    link = with_access_delay(tmp_path / "told", 20_000_000)
    assert link.valid and link.to_client.min_delay_ms == pytest.approx(50, abs=0.001)
    assert link.to_client.lateness_p99_ms == pytest.approx(0, abs=0.001) and link.to_client.unasked_drops == 0
    link = with_access_delay(tmp_path / "untold", 0)
    assert "to_client: the smallest delay was 70.00 ms, asked 50.00 ms (tolerance 1.0 ms)" in link.problems


def served_at_random(folder: Path, delay_ns: int = 50_000_000, vanish: float = 0.0) -> LinkProof:
    """2.3 s of one packet every 1.15 ms through a queue of 20 that is served at exponential times, 10 Mbit/s in the mean."""
    dice = random.Random(7)
    packets = [short(index, 1472, T0 + index * 1_150_000, True) for index in range(2000)]
    gap = 1514 * 8e9 / 10e6
    queue: list[int] = []
    out: list[int | None] = [None] * len(packets)
    drops: list[int] = []
    clock, index = dice.expovariate(1 / gap), 0
    while index < len(packets) or queue:
        if index < len(packets) and packets[index].t_ns - T0 <= clock:
            if len(queue) >= 20:
                drops.append(packets[index].t_ns)
            else:
                queue.append(index)
            index += 1
            continue
        if queue:
            head = queue.pop(0)
            out[head] = T0 + round(clock) + delay_ns if dice.random() >= vanish else None
        clock += dice.expovariate(1 / gap)
    ask = Packet(T0 - 1_000_000, False, INITIAL, 1200)
    traffic = Traffic(packets, [ask], Carried(out, drops), Carried([ask.t_ns + 50_000_000]))
    return prove_traffic(folder, traffic, service="poisson", limit_bytes=None, limit_packets=20)


def prove_traffic(folder: Path, traffic: Traffic, **options: object) -> LinkProof:
    run = write_run(folder, Recipe(packets=10))
    for name, left in (("left", True), ("right", False)):
        seen = [(t, frame(packet, ttl), packet.length) for t, packet, ttl in traffic.side(left)]
        (folder / f"sim/trace_node_{name}.pcap").write_bytes(pcap(seen))
    (folder / "sim/counters.jsonl").write_text("\n".join(json.dumps(sample) for sample in counters([traffic])))
    lab = json.loads((folder / "lab.json").read_text())
    lab["links"]["to_client"] |= options
    (folder / "lab.json").write_text(json.dumps(lab))
    path = {"rate": "10 Mbit/s", "delay": "50 ms", "queue": "20 packets", "service": {"process": "poisson"}}
    scenario = {"path": {"forward": path, "return": {"rate": "10 Mbit/s", "delay": "50 ms"}}}
    link = measure(folder, run.model_copy(update={"cell": make_run(scenario=scenario).cell})).link
    assert link is not None
    return link


def test_a_service_process_has_no_rate_and_no_lateness(tmp_path: Path) -> None:
    link = served_at_random(tmp_path)
    assert link.valid and link.problems == ()
    down = link.to_client
    assert down.packets == 2000 and down.queue_drops > 50 and down.unasked_drops == 0
    assert down.rate_mbps is None and down.lateness_p99_ms is None
    assert down.min_delay_ms is not None and 50 <= down.min_delay_ms < 52


def test_a_service_process_is_still_held_to_its_delay_and_its_drops(tmp_path: Path) -> None:
    shorter = served_at_random(tmp_path / "shorter", delay_ns=49_000_000)
    assert len(shorter.problems) == 1 and "to_client: the smallest delay was 49." in shorter.problems[0]
    longer = served_at_random(tmp_path / "longer", delay_ns=80_000_000)
    assert len(longer.problems) == 1 and "asked 50.00 ms (tolerance 13.1 ms)" in longer.problems[0]
    leaky = served_at_random(tmp_path / "leaky", vanish=0.02)
    assert len(leaky.problems) == 1 and "vanished that nothing was asked to drop" in leaky.problems[0]


def test_oversize_frames(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=200))
    for side in ("left", "right"):
        path = tmp_path / f"sim/trace_node_{side}.pcap"
        data = bytearray(path.read_bytes())
        # The length on the wire of the third record: the first after both long-header packets on the right.
        position = 24
        for _ in range(20):
            position += 16 + int.from_bytes(data[position + 8 : position + 12], "little")
        data[position + 12 : position + 16] = (9000).to_bytes(4, "little")
        path.write_bytes(data)
    link = measure(tmp_path, run).link
    assert link is not None and any(p.endswith("1 frames above 1514 B: an offload was left on") for p in link.problems)


def test_capture_drops_are_a_caution(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(actual=Link(unexplained_loss=0.003), packets=1000, load=0.9))
    (tmp_path / "sim/capture.json").write_text('{"left":{"dropped":40},"right":{"dropped":0}}')
    measured = measure(tmp_path, run)
    assert measured.link is not None and measured.link.valid and measured.link.capture_drops == 40
    assert "the captures missed 40 packets: counts of drops are upper bounds" in measured.warnings


def test_jitter_makes_no_lateness(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(actual=Link(late_ns=3_000_000), packets=500, load=0.9))
    lab = json.loads((tmp_path / "lab.json").read_text())
    lab["links"]["to_client"]["jitter_ns"] = 6_000_000
    (tmp_path / "lab.json").write_text(json.dumps(lab))
    link = measure(tmp_path, run).link
    assert link is not None and link.valid and link.to_client.lateness_p99_ms is None


def test_red_drops_are_told_by_the_kernel(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe())
    lab = json.loads((tmp_path / "lab.json").read_text())
    lab["links"]["to_client"] |= {"discipline": "red", "limit_bytes": 500_000}
    (tmp_path / "lab.json").write_text(json.dumps(lab))
    link = measure(tmp_path, run).link
    assert link is not None and link.valid and link.to_client.lateness_p99_ms == pytest.approx(0, abs=0.001)


def test_a_rate_within_its_tolerance_is_not_lateness(tmp_path: Path) -> None:
    link = prove(tmp_path, Recipe(actual=Link(rate_bps=9_950_000)))
    assert link.valid and link.to_client.rate_mbps == pytest.approx(9.95)
    assert link.to_client.lateness_p99_ms == pytest.approx(0, abs=0.001)  # 12 ms in all, at the end of 2.5 s


def test_virtual_time_is_held_to_more(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(actual=Link(late_ns=1_800_000), packets=500, load=0.9))
    assert measure(tmp_path, run).link is not None and measure(tmp_path, run).link.valid  # type: ignore[union-attr]
    virtual = run.model_copy(update={"cell": run.cell.model_copy(update={"engine": "virtual"})})
    link = measure(tmp_path, virtual).link
    assert link is not None and len(link.problems) == 1 and "(tolerance 2.4 ms)" in link.problems[0]


def test_what_answers_later_clients_delays_packets_of_flows(tmp_path: Path) -> None:
    # 140 B in the same queue for each client that begins after the first: at 10 Mbit/s 0.11 ms.
    run = write_run(tmp_path, Recipe(actual=Link(late_ns=1_800_000), packets=500, load=0.9))
    flows = [{"download": "2 MB"}, *({"download": "2 MB", "start": "1 s"},) * 9]
    later = make_run(scenario={"flows": flows}).cell
    link = measure(tmp_path, run.model_copy(update={"cell": later.model_copy(update={"engine": "virtual"})})).link
    assert link is not None and len(link.problems) == 1
    assert link.problems[0].startswith("to_client") and "(tolerance 3.4 ms)" in link.problems[0]


def test_loss_probability() -> None:
    percentage = Percentage.parse("1 %")
    assert loss_probability(100, 10_000, 0.01, percentage) > 0.9
    assert loss_probability(200, 10_000, 0.01, percentage) < 1e-12
    assert loss_probability(0, 10_000, 0.01, percentage) < 1e-12
    assert loss_probability(0, 0, 0.01, percentage) == 1
    bursty = GilbertElliott(good_to_bad=Percentage.parse("0.1 %"), bad_to_good=Percentage.parse("9.9 %"))
    assert loss_probability(150, 10_000, bursty.mean, bursty) > 0.01
