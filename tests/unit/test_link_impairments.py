"""Jitter, reordering, duplication and changed ECN: what a scenario can say, tc's words, and what the proof finds out."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from harness.analysis.link_impairments import impairment_problems
from harness.catalogue import limits
from harness.netem import compile_path, early_share, overtaking_share
from harness.planning.sampling import has_random_path, range_mistakes, sample_values, with_drawn_values
from harness.scenario.schema import Codel, Jitter, Link, Reorder
from harness.units import Duration, Percentage
from tests.examples import link, path, scenario

MS = 1_000_000


def egress(**keys: Any) -> list[str]:
    """The commands that set up the delay towards the client."""
    program = compile_path(path(forward=link("10 Mbit/s", "20 ms", **keys)), "bucket")
    return [" ".join(words) for words in program.setup if "netem" in words and "left" in words]


# --- what a scenario can say, and tc's words


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"jitter": "5 ms"}, "delay 20000000ns 5000000ns"),
        (
            {"jitter": {"deviation": "5 ms", "distribution": "normal", "correlation": "25 %"}},
            "delay 20000000ns 5000000ns 25% distribution normal rate 1000gbit seed 1",
        ),
        ({"jitter": {"deviation": "5 ms", "order": "free"}}, "delay 20000000ns 5000000ns seed 1"),
        ({"reorder": "25 %"}, "delay 20000000ns reorder 25% gap 1 seed 1"),
        ({"duplicate": "3 %", "loss": "1 %"}, "delay 20000000ns loss random 1% duplicate 3% seed 1"),
    ],
)
def test_tc_s_words(keys: dict[str, Any], words: str) -> None:
    (command,) = egress(**keys)
    assert command.endswith(words)
    assert has_random_path(scenario(path=path(forward=link("10 Mbit/s", "20 ms", **keys))))


def test_packets_that_are_some_time_ahead_skip_the_last_part_of_the_delay() -> None:
    first, last = egress(reorder={"share": "10 %", "ahead": "3 ms", "gap": 4})
    assert "root handle 1: netem" in first and first.endswith("delay 17000000ns")
    assert "parent 1:1 handle 101: netem" in last and last.endswith("delay 3000000ns reorder 10% gap 4 seed 51")


def test_a_link_that_duplicates_has_one_netem_in_virtual_time_too() -> None:
    program = compile_path(path(forward=link("10 Mbit/s", "20 ms", duplicate="3 %")), "serial")
    assert len([words for words in program.setup if "netem" in words and "left" in words]) == 1
    assert any("serial" in words for words in program.setup)


@pytest.mark.parametrize("change", ["bleach", "ect1-to-ect0", "mark", "drop"])
def test_ecn_is_changed_behind_the_queue_for_both_versions_of_ip(change: str) -> None:
    program = compile_path(path(forward=link(ecn=change)), "bucket")
    rules = [" ".join(words) for words in program.setup if words[:3] == ("nft", "add", "rule")]
    assert len(rules) == 2 and all("iifname right" in rule for rule in rules)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"jitter": {"deviation": "30 ms"}}, "exceeds the delay"),
        ({"reorder": "0 %"}, "reorders nothing"),
        ({"reorder": {"share": "1 %", "ahead": "30 ms"}}, "ahead of a delay"),
        ({"reorder": {"share": "1 %", "ahead": "3 ms"}, "jitter": "1 ms"}, "told apart"),
        ({"ecn": "clear"}, "bleach"),
    ],
)
def test_what_cannot_be_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Link.model_validate(link("10 Mbit/s", "20 ms", **keys))


def test_a_link_that_duplicates_has_no_access_delays() -> None:
    duplicating = path(forward=link("10 Mbit/s", "20 ms", duplicate="3 %"))
    flows = [{"download": "1 MB"}, {"download": "1 MB", "access_delay": "5 ms"}]
    (mistake,) = limits.mistakes(scenario(path=duplicating, flows=flows, objectives=[]))
    assert mistake.location == ("flows", 1, "access_delay") and "leave out access_delay" in mistake.hint
    assert not list(limits.mistakes(scenario(flows=flows, objectives=[])))


def test_a_part_s_key_is_drawn() -> None:
    ranges = {"path.forward.reorder.share": ["1 %", "5 %"], "path.forward.queue.target": ["5 ms", "20 ms"]}
    asked = scenario(path=path(forward=link(reorder="2 %", queue="codel")), draw=ranges)
    assert not list(range_mistakes(asked))
    values = sample_values(asked, 7)
    forward = with_drawn_values(asked, values).path.forward
    assert forward.reorder is not None and isinstance(forward.queue, Codel)
    assert {str(forward.reorder.share), str(forward.queue.target)} == set(values.values())
    assert 0.01 <= forward.reorder.share.fraction <= 0.05
    (mistake,) = range_mistakes(scenario(draw={"path.forward.queue.target": ["5 ms", "20 ms"]}))
    assert "a droptail queue has no target" in mistake.text
    both = {"path.forward.queue": ["codel", "pie"]}
    (mistake,) = range_mistakes(asked.model_copy(update={"vary": both}))
    assert "both drawn and varied" in mistake.text


def test_how_many_packets_a_jitter_lets_overtake() -> None:
    """0.2 ms at 50 Mbit/s, with packets of 1294 bytes: by drawing, and by the formula."""
    asked = Link.model_validate(link("50 Mbit/s", "20 ms", jitter="0.2 ms"))
    lot, gap, count = random.Random(1), 1294 * 8 / 50e6, 20_000
    times = [index * gap + lot.uniform(-2e-4, 2e-4) for index in range(count)]
    overtaken = sum(times[index] > min(times[index + 1 : index + 4]) for index in range(count - 4))
    assert overtaking_share(asked, 1294) == pytest.approx(overtaken / count, abs=0.01)
    assert 0.1 < overtaking_share(asked, 1294) < 0.13


# --- the proof


def direction(link_asked: Link, deviations_ns: list[int], copies: int = 0) -> Any:
    """A direction whose packets, one a ms, leave so much later or earlier than the link's delay."""
    count = len(deviations_ns)
    due = np.arange(count, dtype=np.int64) * MS + link_asked.delay.value
    replay = SimpleNamespace(
        accepted=np.arange(count), comparable=np.ones(count, np.bool_), due_ns=due, phase=np.zeros(count, np.int64)
    )
    passage = SimpleNamespace(
        out_ns=due + np.array(deviations_ns, np.int64), arrived=np.ones(count, np.bool_), copies=copies, out_class=None
    )
    settings = SimpleNamespace(delay_ns=link_asked.delay.value)
    phases = [SimpleNamespace(delay_ns=link_asked.delay.value, changes=0, mtu=None)]
    return SimpleNamespace(name="to_client", replay=replay, passage=passage, settings=settings, phases=phases)


def problems(asked: Link, deviations_ns: list[int], copies: int = 0) -> list[str]:
    return list(impairment_problems(direction(asked, deviations_ns, copies), [asked], 100_000, 1e-6))


def asked_link(**keys: Any) -> Link:
    return Link.model_validate(link("10 Mbit/s", "20 ms", **keys))


def test_a_jitter_s_distribution_is_held_against_the_captures() -> None:
    lot = random.Random(2)
    uniform = [round(lot.uniform(-5, 5) * MS) for _ in range(2000)]
    normal = [round(min(4, max(-4, lot.gauss(0, 1))) * 2 * MS) for _ in range(2000)]
    free = {"deviation": "5 ms", "order": "free"}
    assert problems(asked_link(jitter="5 ms"), uniform) == []
    assert "not uniform" in problems(asked_link(jitter=free), normal)[-1]
    gauss = {"deviation": "2 ms", "distribution": "normal", "order": "free"}
    assert problems(asked_link(jitter=gauss), normal) == []
    assert "not normal" in problems(asked_link(jitter=gauss), uniform)[-1]
    assert "asked at most 1.00 ms" in problems(asked_link(jitter="1 ms"), uniform)[0]


def test_an_order_that_was_to_be_kept() -> None:
    kept = asked_link(jitter={"deviation": "5 ms"})
    lot = random.Random(3)
    drawn = [round(lot.uniform(-5, 5) * MS) for _ in range(500)]
    assert "were overtaken" in problems(kept, drawn)[-1]
    ordered, last = [], 0
    for index, deviation in enumerate(drawn):
        last = max(last, index * MS + deviation)
        ordered.append(last - index * MS)
    assert problems(kept, ordered) == []


@pytest.mark.parametrize(("share", "gap"), [("25 %", 1), ("10 %", 4)])
def test_shares_of_packets_that_leave_early(share: str, gap: int) -> None:
    asked = asked_link(reorder={"share": share, "gap": gap, "ahead": "3 ms"})
    assert asked.reorder is not None
    lot, since, deviations = random.Random(4), 0, []
    for _ in range(20_000):
        # net/sched/sch_netem.c, netem_enqueue
        early = since >= gap - 1 and lot.random() < asked.reorder.share.fraction
        since = 0 if early else since + 1
        deviations.append(-3 * MS if early else 0)
    expected = early_share(asked.reorder)
    assert deviations.count(-3 * MS) / 20_000 == pytest.approx(expected, rel=0.05)
    assert problems(asked, deviations) == []
    assert "left early" in problems(asked, [0] * 20_000)[0]


def test_shares_of_packets_that_arrive_twice() -> None:
    asked = asked_link(duplicate="10 %")
    assert problems(asked, [0] * 10_000, copies=1010) == []
    assert "arrived twice" in problems(asked, [0] * 10_000, copies=100)[0]


def test_a_long_form_s_largest_deviation() -> None:
    assert Jitter(deviation=Duration(MS)).largest == Duration(MS)
    assert Jitter(deviation=Duration(MS), distribution="pareto").largest == Duration(4 * MS)
    assert early_share(Reorder(share=Percentage.parse("100 %"), gap=5)) == pytest.approx(0.2)
