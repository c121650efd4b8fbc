"""Slots: what a scenario can say, tc's words, and what the proof finds out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from harness.analysis.link_replay import Fate
from harness.analysis.slots import OpportunityReplay, replay_opportunities, slots_problems
from harness.netem import compile_path
from harness.planning.sampling import has_random_path
from harness.report.explanation import scenario_text
from harness.scenario.schema import Link, PoissonService, Slots
from tests.examples import link, path, scenario

MS = 1_000_000
WIFI = {"process": "slots", "packets": 42, "every": ["800 us", "10 ms"]}


def slotted(service: object = WIFI, **more: Any) -> Link:
    return link("10 Mbit/s", "20 ms", service=service, **more)


def slots_of(service: dict[str, Any]) -> Slots:
    slots = slotted({"process": "slots", **service}).slots
    assert slots is not None
    return slots


# --- what a scenario can say, and tc's words


def test_a_link_with_slots_keeps_its_rate_and_any_queue() -> None:
    asked = slotted(queue="fq_codel", burst="15 kB")
    assert asked.slots == slots_of({"packets": 42, "every": ["800 us", "10 ms"]}) and asked.poisson is None
    assert slots_of({"every": "5 ms"}).gaps == slots_of({"every": ["5 ms", "5 ms"]}).gaps
    poisson = link("10 Mbit/s", "20 ms", queue="20 packets", service={"process": "poisson"})
    assert isinstance(poisson.poisson, PoissonService) and poisson.slots is None
    assert has_random_path(scenario(path=path(forward=slotted())))


@pytest.mark.parametrize(
    ("server", "root"), [("serial", "serial rate 10000000bit"), ("bucket", "tbf rate 10000000bit")]
)
def test_packets_wait_behind_the_bottleneck_and_ahead_of_the_delay(server: Any, root: str) -> None:
    asked = slotted({**WIFI, "bytes": "64 kB"}, loss="1 %")
    program = compile_path(path(**{"forward": asked, "return": slotted({"process": "slots", "every": "5 ms"})}), server)
    lines = [" ".join(words) for words in program.setup]
    assert any(root in line for line in lines if "dev to_client" in line)
    slots, delay = [line for line in lines if "netem" in line and "dev left" in line]
    assert "root handle 1: netem" in slots and slots.endswith(
        "slot 800000ns 10000000ns packets 42 bytes 64000 seed 101"
    )
    assert "parent 1: handle 2: netem" in delay and "slot" not in delay and "loss random 1%" in delay
    back, _ = [line for line in lines if "netem" in line and "dev right" in line]
    assert back.endswith("slot 5000000ns 5000000ns seed 102")
    assert program.links["to_client"].service == "slots"


def test_changes_find_the_delay_where_it_is() -> None:
    changing = path(forward=slotted(), changes=[{"at": "2 s", "forward": {"delay": "30 ms", "rate": "5 Mbit/s"}}])
    (change,) = compile_path(changing, "serial").changes
    lines = [" ".join(command) for command in change.commands]
    assert any(line.startswith("tc qdisc change dev left parent 1: handle 2: netem") for line in lines)
    assert any("serial rate 5000000bit" in line for line in lines)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"service": {"process": "slots"}}, "every"),
        ({"service": {"process": "slots", "every": ["10 ms", "1 ms"]}}, "from the smallest to the largest"),
        ({"service": {"process": "slots", "every": "0 ms"}}, "no slots"),
        ({"service": {"process": "slots", "every": "1 ms", "packets": 0}}, "greater than or equal to 1"),
        ({"service": {"process": "slots", "every": "1 ms", "bytes": "0 B"}}, "passes nothing"),
        ({"service": {"process": "slots", "every": "10 ms", "packets": 5}}, "less than the link's"),
        ({"service": {"process": "slots", "every": "10 ms", "bytes": "10 kB"}}, "less than the link's"),
        ({"service": {"process": "slots", "every": "1 ms", "cold_start": "5 s"}}, "cold_start"),
        ({"service": WIFI, "jitter": "1 ms"}, "cannot be told apart"),
        ({"service": WIFI, "reorder": "1 %"}, "cannot be told apart"),
        ({"service": WIFI, "duplicate": "1 %"}, "cannot be told apart"),
    ],
)
def test_what_cannot_be_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        link("10 Mbit/s", "20 ms", **keys)


def test_a_rate_beyond_the_opportunities_is_refused_later_too() -> None:
    with pytest.raises(ValidationError, match="less than the link's"):
        path(forward=slotted(), changes=[{"at": "2 s", "forward": {"rate": "100 Mbit/s"}}])


def test_explain_says_what_waits_and_what_opportunities_carry() -> None:
    text = scenario_text(scenario(path=path(forward=slotted())), "virtual")
    assert "slots: sent at the rate, packets wait for an opportunity and leave together, 42 packets at most" in text
    assert "77.28 Mbit/s of 1200-byte datagrams" in text and "it comes 800 us to 10 ms (drawn evenly)" in text
    fixed = scenario_text(scenario(path=path(forward=slotted({"process": "slots", "every": "5 ms"}))), "virtual")
    assert "leave together; it comes 5 ms after the first of them" in fixed


# --- the proof


def netem(slots: Slots, came: Sequence[int], length: int, seed: int = 1) -> list[int]:
    """When packets leave, ns: netem_dequeue and get_slot_next, event by event."""
    lot = random.Random(seed)
    low, high = (gap.value for gap in slots.gaps)
    opens, packets, size, left = -1, 0, 0, []

    def draw(now: int) -> None:
        nonlocal opens, packets, size
        opens, packets, size = now + lot.randint(low, high), 0, 0

    now = 0
    for arrival in came:
        now = max(now, arrival)
        if opens < arrival:
            draw(now)
        now = max(now, opens)
        left.append(now)
        packets, size = packets + 1, size + length
        if (slots.packets and packets >= slots.packets) or (slots.bytes and size >= slots.bytes.bytes):
            draw(now)
    return left


def replayed(slots: Slots, came: list[int], left: list[int], length: int = 1250) -> OpportunityReplay:
    columns = (np.array(came, np.int64), np.array(left, np.int64), np.full(len(came), length, np.int64))
    return replay_opportunities(slots, *columns, [False] * len(came), 1000)


CASES: list[dict[str, Any]] = [
    {"packets": 42, "every": ["800 us", "10 ms"]},
    {"packets": 8, "every": ["1 ms", "8 ms"]},
    {"bytes": "8 kB", "every": "5 ms"},
    {"every": ["2 ms", "4 ms"]},
]


@pytest.mark.parametrize("service", CASES)
@pytest.mark.parametrize("gap", [1 * MS, 20 * MS])
def test_netem_s_slots_are_what_the_proof_expects(service: dict[str, Any], gap: int) -> None:
    slots, came = slots_of(service), [number * gap for number in range(1, 3000)]
    result = replayed(slots, came, netem(slots, came, 1250))
    assert (result.early, result.late) == (0, 0)
    low, high = (bound.value for bound in slots.gaps)
    assert min(result.gaps_ns) >= low and max(result.gaps_ns) <= high
    assert np.mean(result.gaps_ns) == pytest.approx((low + high) / 2, rel=0.05)


def direction(slots: Slots, came: list[int], left: list[int]) -> Any:
    """A direction whose packets have left the bottleneck, and then their slots, at these times."""
    count = len(came)
    replay = SimpleNamespace(
        accepted=np.arange(count), departure_ns=np.array(came, np.int64), comparable=np.ones(count, np.bool_),
        fate=np.full(count, Fate.DELIVERED),
    )  # fmt: skip
    passage = SimpleNamespace(
        out_ns=np.array(left, np.int64) + 20 * MS, entered=SimpleNamespace(length=np.full(count, 1250, np.int64))
    )
    return SimpleNamespace(
        name="to_client", replay=replay, passage=passage, phases=[SimpleNamespace(start_ns=0, delay_ns=20 * MS)]
    )


@pytest.mark.parametrize(
    ("actual", "words"),
    [
        ({"packets": 8, "every": ["1 ms", "8 ms"]}, ""),
        ({"packets": 8, "every": ["1 ms", "9 ms"]}, "too late"),
        ({"packets": 8, "every": ["0 ms", "8 ms"]}, "too early"),
        ({"packets": 9, "every": ["1 ms", "8 ms"]}, "too early"),
        ({"packets": 7, "every": ["1 ms", "8 ms"]}, "too early"),
        ({"packets": 8, "every": ["2 ms", "6 ms"]}, "on average, asked 4.500 ms"),
    ],
)
def test_slots_that_are_slightly_others_are_told_apart(actual: dict[str, Any], words: str) -> None:
    asked, came = slots_of({"packets": 8, "every": ["1 ms", "8 ms"]}), [number * 700_000 for number in range(1, 5000)]
    left = netem(slots_of(actual), came, 1250)
    problems = list(slots_problems(direction(asked, came, left), asked, 1000))
    assert bool(problems) == bool(words) and (not words or any(words in text for text in problems))


def test_packets_that_are_lost_behind_their_slots_prove_nothing() -> None:
    slots, came = slots_of(CASES[1]), [number * MS for number in range(1, 3000)]
    columns = (np.array(came, np.int64), np.array(netem(slots, came, 1250), np.int64), np.full(len(came), 1250))
    lost = [random.Random(number).random() < 0.05 for number in range(len(came))]
    result = replay_opportunities(slots, *columns, lost, 1000)
    assert (result.early, result.late) == (0, 0) and len(result.gaps_ns) > 100
