"""Disciplines of queues in virtual time: the delays that they are to hold, the shares that they are to give."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.conftest import Harness

VIRTUAL = ("--engine", "virtual", "--repeat", "1", "--no-figures")
LINK = {"rate": "20 Mbit/s", "delay": "20 ms"}


def medians(cell: dict[str, Any]) -> dict[str, float]:
    assert cell["outcomes"] == {"completed": 1}, cell["sentence"]
    assert cell["link"]["valid"], cell["link"]["problems"]
    return {name: figure["median"] for name, figure in cell["measurements"].items()}


def by_queue(cells: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    return {cell["parameters"]["path.forward.queue"]: medians(cell) for cell in cells}


# --- the delay that a queue is to have, beside one long flow of TCP CUBIC


@pytest.fixture(scope="module")
def delays(warm: Harness, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, float]]:
    """(discipline, target) → figures of fifteen seconds."""
    harness = Harness(tmp_path_factory.mktemp("delays"))
    flow = {"kind": "tcp", "stop": "15 s", "parameters": {"server.congestion_control": "cubic"}}
    path = {"forward": {**LINK, "queue": "codel"}, "return": LINK}
    file = harness.scenario("target", path=path, flows=[flow], milestones=[])
    plain = harness.cell(file, *VIRTUAL, "--set", "path.forward.queue=4 BDP")
    queues = ("codel", "fq_codel", "pie", "fq_pie", "dualpi2")
    cells = harness.cells(
        file, *VIRTUAL, "--vary", f"path.forward.queue={','.join(queues)}", "--vary", "path.forward.queue.target=15 ms,30 ms"
    )  # fmt: skip
    named = {
        (cell["parameters"]["path.forward.queue"], cell["parameters"]["path.forward.queue.target"]): medians(cell)
        for cell in cells
    }
    return {**named, ("droptail", ""): medians(plain)}


@pytest.mark.parametrize("target", [15, 30])
@pytest.mark.parametrize("name", ["pie", "fq_pie"])
def test_pie_controls_the_mean_delay(delays: dict[tuple[str, str], dict[str, float]], name: str, target: int) -> None:
    """RFC 8033 §4: the drop probability is controlled so that the delay is about the target."""
    assert delays[name, f"{target} ms"]["mean_queue_delay"] == pytest.approx(target, rel=0.2)
    assert delays[name, f"{target} ms"]["early_drops_to_client"] > 0


@pytest.mark.parametrize("target", [15, 30])
@pytest.mark.parametrize("name", ["codel", "fq_codel"])
def test_codel_lets_no_queue_stand(delays: dict[tuple[str, str], dict[str, float]], name: str, target: int) -> None:
    """RFC 8289 §3: bursts may wait longer than the target, but not for an interval on end: half of the packets do not."""
    assert delays[name, f"{target} ms"]["queue_delay_p50_to_client"] < target
    assert delays[name, f"{target} ms"]["queue_delay_p95_to_client"] < 2 * target
    assert delays[name, f"{target} ms"]["early_drops_to_client"] > 0


@pytest.mark.parametrize("target", [15, 30])
def test_dualpi2_holds_the_classic_queue(delays: dict[tuple[str, str], dict[str, float]], target: int) -> None:
    """RFC 9332 §4.1: TCP CUBIC without ECN is in the classic queue, whose delay is controlled."""
    assert delays["dualpi2", f"{target} ms"]["mean_queue_delay"] == pytest.approx(target, rel=0.4)


def test_a_longer_target_is_a_longer_wait_and_no_target_the_longest(
    delays: dict[tuple[str, str], dict[str, float]],
) -> None:
    for name in ("codel", "fq_codel", "pie", "fq_pie", "dualpi2"):
        short, long = (delays[name, f"{target} ms"]["mean_queue_delay"] for target in (15, 30))
        assert 1.2 * short < long < delays["droptail", ""]["mean_queue_delay"] / 2
        # Short queues cost little of the link (95.6 % of it are TCP's segments).
        assert delays[name, "15 ms"]["mean_throughput"] > 0.9 * delays["droptail", ""]["mean_throughput"]


# --- the shares of flows that ask for more than theirs


@pytest.fixture(scope="module")
def shares(warm: Harness, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """4, 8 and 12 Mbit/s through 9 Mbit/s."""
    harness = Harness(tmp_path_factory.mktemp("shares"))
    flows = [
        {"kind": "udp", "stop": "6 s", "traffic": {"model": "cbr", "rate": f"{rate} Mbit/s"}} for rate in (4, 8, 12)
    ]
    path = {"forward": {"rate": "9 Mbit/s", "delay": "10 ms"}, "return": LINK}
    file = harness.scenario("shares", path=path, flows=flows, milestones=[])
    return by_queue(harness.cells(file, *VIRTUAL, "--vary", "path.forward.queue=1 BDP,fq_codel,fq_pie,cake,sfq"))


@pytest.mark.parametrize("name", ["fq_codel", "fq_pie", "cake", "sfq"])
def test_flows_share_alike_whatever_they_send(shares: dict[str, dict[str, float]], name: str) -> None:
    rates = [shares[name][f"flow{flow}_mean_throughput"] for flow in range(3)]
    assert max(rates) < 1.01 * min(rates)
    # All the time, with the frames' headers of 42 of 1242 B.
    assert sum(rates) == pytest.approx(9 * 1200 / 1242, rel=0.01)


def test_one_queue_for_all_gives_who_sends_more_more(shares: dict[str, dict[str, float]]) -> None:
    rates = [shares["1 BDP"][f"flow{flow}_mean_throughput"] for flow in range(3)]
    assert rates[2] > 1.5 * rates[0]


# --- marks, and what becomes of them on the way


def test_marks_and_what_a_node_on_the_way_makes_of_them(warm: Harness, harness: Harness) -> None:
    """The link proof holds every packet's ECN field against what was asked, so that valid says it all."""
    queue = {"discipline": "step", "threshold": "2 ms"}
    path = {"forward": {**LINK, "queue": queue, "ecn": "ect1-to-ect0"}, "return": LINK}
    file = harness.scenario("ecn", path=path, flows=[{"download": "1 MB"}], milestones=[])
    pair = ("--clients", "ngtcp2", "--servers", "ngtcp2")
    cells = harness.cells(file, *pair, *VIRTUAL, "--vary", "path.forward.ecn=ect1-to-ect0,bleach,mark,drop")
    by_change = {cell["parameters"]["path.forward.ecn"]: medians(cell) for cell in cells}
    # The sender heeds the marks above 2 ms, and hears of none that are cleared.
    assert by_change["ect1-to-ect0"]["ecn_marks_to_client"] > 0
    assert by_change["ect1-to-ect0"]["queue_delay_max_to_client"] < 10
    assert by_change["bleach"]["queue_delay_max_to_client"] > 50
    # Nobody can tell from the captures which marks were the queue's.
    assert not any("ecn_marks_to_client" in by_change[change] for change in ("bleach", "mark", "drop"))
    # A sender that is told of congestion without end keeps its window at the least.
    assert by_change["mark"]["completion"] > 2 * by_change["ect1-to-ect0"]["completion"]


def test_reordered_and_repeated_packets_are_what_was_asked(warm: Harness, harness: Harness) -> None:
    """A transfer over a link with each impairment, in virtual time: the link proof counts them."""
    path = {"forward": {**LINK, "reorder": "2 %"}, "return": {**LINK, "jitter": {"deviation": "2 ms"}}}
    file = harness.scenario("impaired", path=path, flows=[{"download": "3 MB"}], milestones=[])
    pair = ("--clients", "ngtcp2", "--servers", "ngtcp2")
    cells = harness.cells(file, *pair, *VIRTUAL, "--vary", "path.forward.duplicate=0 %,5 %")
    assert [cell["outcomes"] for cell in cells] == [{"completed": 1}] * 2
    for cell in cells:
        assert cell["link"]["valid"], cell["link"]["problems"]
