"""Active queue management on a link: what a scenario can say, tc's words, the counters, and the proof's replay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.analysis.link_replay import DropCounts, Fate, LinkPhase, Replay, replay
from harness.capture.counters import read_counters
from harness.capture.matching import MatchedPackets
from harness.netem import Server, compile_path
from harness.planning.sampling import has_random_path
from harness.report.explanation import scenario_text
from harness.scenario.schema import DISCIPLINES, Cake, Codel, Discipline, FqCodel, Link, Queue, StepMarker
from tests.examples import link, path, scenario


def queue_of(text: object) -> Queue:
    return Link.model_validate(link(queue=text)).queue


def queue_command(queue: object, server: Server = "serial") -> str:
    """The command that sets up the queue towards the client."""
    program = compile_path(path(forward=link(queue=queue)), server)
    (command,) = [" ".join(words) for words in program.setup if "to_client" in words and "10:" in words]
    return command


# --- what a scenario can say


@pytest.mark.parametrize("name", sorted(set(DISCIPLINES) - {"droptail", "red", "step", "policer"}))
def test_a_discipline_s_name_stands_for_its_defaults(name: str) -> None:
    queue = queue_of(name)
    assert queue == queue_of({"discipline": name}) and type(queue) is DISCIPLINES[queue.discipline]


def test_a_limit_may_stand_behind_the_name() -> None:
    queue = queue_of("codel 500 kB")
    assert isinstance(queue, Codel) and str(queue.limit) == "500 kB"
    assert queue_command("codel 151.4 kB").endswith("codel limit 100 target 5000us interval 100000us noecn")
    cake = queue_of("cake 8 MB")
    assert isinstance(cake, Cake) and cake.limit.bytes == 8_000_000


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ("coddle", "neither a size"),
        ({"discipline": "codel", "target": "1 us"}, "the kernel has 10 us to 1000 s"),
        ({"discipline": "fq_codel", "flows": 0}, "greater than or equal to 1"),
        ({"discipline": "step"}, "threshold"),
        ({"discipline": "cake", "ecn": True}, "ecn"),
    ],
)
def test_what_no_kernel_takes_is_refused(queue: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        queue_of(queue)


def test_which_disciplines_draw_lots_and_which_mark() -> None:
    drawn = {name for name, kind in DISCIPLINES.items() if kind.draws}
    assert drawn == {"red", "pie", "fq_pie", "dualpi2"}
    assert has_random_path(scenario(path=path(forward=link(queue="pie"))))
    assert not has_random_path(scenario(path=path(forward=link(queue="fq_codel"))))
    marks = {"codel": False, "cake": True, "fq_pie": False}
    assert {name: queue_of(name).may_mark for name in marks} == marks
    assert queue_of({"discipline": "codel", "ce_threshold": "1 ms"}).may_mark
    assert isinstance(queue_of({"discipline": "step", "threshold": "1 ms"}), StepMarker)


def test_explain_says_what_they_do() -> None:
    text = scenario_text(
        scenario(path=path(**{"forward": link(queue="fq_codel"), "return": link(queue="cake")})), "virtual"
    )
    assert "CoDel: drops from the head once every packet has waited longer than 5 ms for 100 ms" in text
    assert "flows: 1,024 queues" in text and "CAKE: besteffort, flows" in text


# --- tc's words


def test_the_lab_kernel_s_server_asks_them_and_real_time_has_a_bucket() -> None:
    for server, root in (("serial", "serial rate 50000000bit"), ("bucket", "tbf rate 50000000bit")):
        program = compile_path(path(forward=link("50 Mbit/s", queue="codel")), server)  # type: ignore[arg-type]
        roots = [" ".join(words) for words in program.setup if "to_client" in words and "root" in words]
        assert len(roots) == 1 and root in roots[0]
        assert program.links["to_client"].discipline == "codel"
        assert program.links["to_client"].limit_bytes == 1000 * 1514


# --- counters


CODEL = {"kind": "codel", "drops": 62, "ecn_mark": 3, "drop_overlimit": 2, "ce_mark": 4}
PIE = {"kind": "fq_pie", "drops": 366, "overlimit": 5, "overmemory": 1, "dropped": 360, "ecn_mark": 7}
CAKE = {"kind": "cake", "drops": 12, "tins": [{"drops": 4, "ecn_mark": 1}, {"drops": 5, "ecn_mark": 26}]}


@pytest.mark.parametrize(
    ("discipline", "early", "pdrop", "marked"), [(CODEL, 60, 2, 7), (PIE, 360, 6, 7), (CAKE, 9, 3, 27)]
)
def test_drops_and_marks_by_cause(
    tmp_path: Path, discipline: Mapping[str, Any], early: int, pdrop: int, marked: int
) -> None:
    root = {"kind": "serial", "root": True, "dev": "to_client", "drops": discipline["drops"], "packets": 1000}
    sample = {"t": 1.0, "qdiscs": [root, {**discipline, "dev": "to_client", "parent": "1:1"}]}
    (tmp_path / "counters.jsonl").write_text(json.dumps(sample) + "\n")
    (row,) = read_counters(tmp_path / "counters.jsonl").rows(named=True)
    assert (row["early"], row["pdrop"], row["marked"], row["drops"]) == (early, pdrop, marked, discipline["drops"])


# --- the proof's replay: who is next is the discipline's choice, and when he leaves is the server's


@dataclass
class FairServer:
    """Serves the flows in turn, a packet each, one bit a nanosecond; drops what comes to a flow with 4 packets waiting."""

    queues: dict[int, list[int]] = field(default_factory=dict)
    drops: list[int] = field(default_factory=list)
    left: dict[int, int] = field(default_factory=dict)

    def run(self, arrivals: list[int], flows: list[int], bits: list[int]) -> None:
        free, turn = 0, 0
        pending = list(range(len(arrivals)))
        while pending or any(self.queues.values()):
            if not any(self.queues.values()):
                free = max(free, arrivals[pending[0]])
            while pending and arrivals[pending[0]] <= free:
                index = pending.pop(0)
                queue = self.queues.setdefault(flows[index], [])
                if len(queue) < 4:
                    queue.append(index)
                else:
                    self.drops.append(arrivals[index])
            waiting = [flow for flow, queue in sorted(self.queues.items()) if queue]
            if not waiting:
                continue
            flow = next((flow for flow in waiting if flow > turn), waiting[0])
            turn = flow
            index = self.queues[flow].pop(0)
            free += bits[index]
            self.left[index] = free


DELAY = 10_000_000


def replayed(
    discipline: type[Discipline], arrivals: list[int], flows: list[int], bits: list[int], server: FairServer
) -> tuple[MatchedPackets, Replay]:
    out = np.array([server.left.get(index, -1 - DELAY) + DELAY for index in range(len(arrivals))], np.int64)
    lengths = np.array(bits, np.int64) // 8
    entered = SimpleNamespace(t_ns=np.array(arrivals, np.int64), flow=np.array(flows), length=lengths)
    passage = MatchedPackets(entered, out, 0, int(out.max()) + 10**9)  # type: ignore[arg-type]
    times = np.array([*server.drops, 10**12], np.int64)
    totals = np.array([*range(1, len(server.drops) + 1), len(server.drops)], np.int64)
    none = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    phase = LinkPhase(0, 10**9, DELAY, 0.0, None, None, 10_000)
    return passage, replay(passage, (phase,), discipline, DropCounts((times, totals), none))


@given(st.data())
def test_a_fair_queue_s_packets_are_on_time(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 60))
    gaps = data.draw(st.lists(st.integers(1, 20_000), min_size=count, max_size=count))
    flows = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    bits = [8 * size for size in data.draw(st.lists(st.integers(60, 1514), min_size=count, max_size=count))]
    arrivals = np.cumsum(gaps).tolist()
    server = FairServer()
    server.run(arrivals, flows, bits)
    passage, result = replayed(FqCodel, arrivals, flows, bits, server)
    assert (result.fate == Fate.QUEUE_DROP).sum() == len(server.drops)
    assert np.abs(result.lateness_ns(passage)).max(initial=0) <= 1


def test_a_first_in_first_out_replay_would_not_do() -> None:
    """Ten packets of flow 0, then one of flow 1, which is served as the second."""
    arrivals, flows, bits = list(range(1, 12)), [0] * 4 + [1], [8_000] * 11
    server = FairServer()
    server.run(arrivals[:5], flows, bits)
    passage, result = replayed(FqCodel, arrivals[:5], flows, bits[:5], server)
    assert np.abs(result.lateness_ns(passage)).max() <= 1
    _, fifo = replayed(Codel, arrivals[:5], flows, bits[:5], server)
    assert np.abs(fifo.lateness_ns(passage)).max() > 7_000
