"""Policers: what a scenario can say, tc's words, reference times, and what the proof finds out."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from simulator.features import needed_features

from harness.analysis.link_replay import DropCounts, Fate, LinkPhase, PolicedLink, Replay, replay
from harness.analysis.policing import policing_problems, token_surplus_ns
from harness.capture.matching import MatchedPackets
from harness.netem import compile_path, find_inexpressible, ideal_time, slow_start_time
from harness.netem.timeline import timeline
from harness.report.explanation import scenario_text
from harness.scenario.schema import Link, Policer, Remark
from harness.scenario.schema import Path as EmulatedPath
from harness.units import Duration, Size
from tests.examples import link, path, scenario

MS = 1_000_000
DELAY = 20 * MS
POLICER = {"discipline": "policer", "burst": "20 kB"}


def policed(queue: object = "policer 20 kB", rate: str = "10 Mbit/s", **more: Any) -> EmulatedPath:
    return path(forward=link(rate, "20 ms", queue=queue), **more)


def setup_of(queue: object, server: Any = "serial", **more: Any) -> list[str]:
    return [" ".join(words) for words in compile_path(policed(queue, **more), server).setup if "to_client" in words]


# --- what a scenario can say, and tc's words


def test_a_burst_may_stand_behind_the_name() -> None:
    asked = Link.model_validate(link(queue="policer 100 kB")).queue
    assert isinstance(asked, Policer) and asked.burst.bytes == 100_000 and asked.drops
    assert asked == Link.model_validate(link(queue={"discipline": "policer", "burst": "100 kB"})).queue
    remarking = Link.model_validate(link(queue={**POLICER, "exceed": {"dscp": 8}})).queue
    assert isinstance(remarking, Policer) and remarking.exceed == Remark(dscp=8) and not remarking.drops


@pytest.mark.parametrize("server", ["serial", "bucket"])
def test_tc_s_words_are_the_same_with_every_server(server: str) -> None:
    commands = setup_of(POLICER, server)
    assert any("root handle 1: prio bands 2" in command for command in commands)
    (police,) = [command for command in commands if "police" in command]
    bucket = "police rate 10000000bit burst 20000 mtu 65535 conform-exceed drop/ok index 1"
    assert police.endswith(f"parent 1: protocol all matchall classid 1:1 action {bucket}")
    assert not any(word in command for command in commands for word in ("tbf", "serial", "hfsc"))
    assert {"police", "prio", "matchall"} <= set(needed_features(command.split() for command in commands))


def test_one_that_remarks_marks_packets_for_nftables() -> None:
    program = compile_path(policed({**POLICER, "exceed": {"dscp": 8}}), "serial")
    lines = [" ".join(words) for words in program.setup]
    assert any(line.endswith("conform-exceed pipe/ok index 1 action skbedit mark 156") for line in lines)
    rules = [line for line in lines if line.startswith("nft add rule inet policing")]
    assert [rule.partition("iifname ")[2] for rule in rules] == [
        "right meta mark 156 ip dscp set 8", "right meta mark 156 ip6 dscp set 8",
    ]  # fmt: skip
    assert program.links["to_client"].limit_bytes is None
    assert compile_path(policed(), "serial").links["to_client"].limit_bytes == 0


def test_a_change_of_rate_changes_the_bucket_s() -> None:
    changing = policed(changes=[{"at": "2 s", "forward": {"rate": "4 Mbit/s"}}])
    (change,) = compile_path(changing, "bucket").changes
    (command,) = change.commands
    assert " ".join(command).startswith("tc actions replace action police rate 4000000bit burst 20000")
    assert command[-2:] == ("index", "1")


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ("policer", "burst"),
        ({**POLICER, "exceed": "remark"}, "it drops, or gives another DSCP"),
        ({**POLICER, "exceed": {"dscp": 64}}, "less than or equal to 63"),
        ({**POLICER, "limit": "1 BDP"}, "limit"),
    ],
)
def test_what_no_policer_does_is_refused(queue: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Link.model_validate(link(queue=queue))


def test_a_link_s_burst_is_not_a_policer_s() -> None:
    with pytest.raises(ValidationError, match="a bucket of its own"):
        link(queue="policer 20 kB", burst="15 kB")
    with pytest.raises(ValidationError, match="at a rate of 0"):
        policed(changes=[{"at": "2 s", "forward": {"rate": "0 bit/s"}}])


@pytest.mark.parametrize(
    ("queue", "rate", "message"),
    [
        ("policer 1 kB", "10 Mbit/s", "holds less than one frame"),
        ("policer 1 MB", "10 kbit/s", "800 s to fill"),
    ],
)
def test_what_tc_cannot_say_is_refused(queue: str, rate: str, message: str) -> None:
    mistake = find_inexpressible(policed(queue, rate), Duration.parse("1 min"))
    assert mistake is not None and message in mistake.text and mistake.location == ("forward", "queue", "burst")


def test_a_rate_at_which_the_bucket_fills_too_slowly_is_refused() -> None:
    mistake = find_inexpressible(
        policed("policer 1 MB", changes=[{"at": "2 s", "forward": {"rate": "10 kbit/s"}}]), Duration.parse("1 min")
    )
    assert mistake is not None and mistake.location == ("changes", 0, "forward", "rate")


# --- what it amounts to


def test_explain_says_what_it_does() -> None:
    text = scenario_text(scenario(path=policed("policer 100 kB")), "virtual")
    assert "no queue" in text and "policer: 100,000 B (80.0 ms at the rate) pass at once after a rest" in text
    remarks = scenario_text(scenario(path=policed({**POLICER, "exceed": {"dscp": 8}})), "virtual")
    assert "what exceeds that gets DSCP 8 and passes" in remarks


def test_the_bucket_s_bytes_take_no_time() -> None:
    """1 MB at 10 Mbit/s: 0.8 s on a serial link, and 100 kB less behind a full bucket."""
    size = Size.parse("1 MB")
    serial, bucket = timeline(policed("50 kB")), timeline(policed("policer 100 kB"))
    assert ideal_time(serial, size) - ideal_time(bucket, size) == pytest.approx(0.08)
    assert ideal_time(bucket, size) <= slow_start_time(bucket, size) < slow_start_time(serial, size)
    # Nothing limits what is remarked.
    remarking = timeline(policed({**POLICER, "exceed": {"dscp": 8}}))
    round_trip = policed().rtt.seconds
    assert ideal_time(remarking, size) == ideal_time(remarking, Size.parse("1 GB")) == pytest.approx(2 * round_trip)


# --- the proof


@dataclass
class TokenBucket:
    """act_police in whole bytes and seconds: it says for each packet whether it passes."""

    rate: float
    burst: float

    def run(self, arrivals: list[int], lengths: list[int]) -> list[bool]:
        tokens, last, passed = self.burst, arrivals[0], []
        for now, length in zip(arrivals, lengths, strict=True):
            tokens, last = min(self.burst, tokens + (now - last) * self.rate / 8e9), now
            passed.append(tokens >= length)
            tokens -= length if passed[-1] else 0
        return passed


def phase(rate: int = 10_000_000, burst: int = 20_000, limit: int | None = 0, start: int = 0) -> LinkPhase:
    return LinkPhase(start, rate, DELAY, 0.0, burst, limit, None)


def passage_of(
    arrivals: list[int], lengths: list[int], passed: list[bool], out_dscp: int | None = None
) -> MatchedPackets:
    t_ns, delivered = np.array(arrivals, np.int64), np.array(passed, np.bool_)
    dscp = np.zeros(len(arrivals), np.uint8)
    entered = SimpleNamespace(
        t_ns=t_ns, flow=np.zeros(len(arrivals), np.int64), length=np.array(lengths, np.int64), traffic_class=dscp
    )
    out = np.where(delivered | (out_dscp is not None), t_ns + DELAY, -1)
    out_class = None if out_dscp is None else np.where(delivered, 0, out_dscp << 2).astype(np.uint8)
    return MatchedPackets(entered, out, 0, int(t_ns[-1]) + 10**9, out_class=out_class)  # type: ignore[arg-type]


def replayed(passage: MatchedPackets, phases: tuple[LinkPhase, ...] = (phase(),)) -> Replay:
    none = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    return replay(passage, phases, Policer, DropCounts(none, none))


def problems(passage: MatchedPackets, queue: Policer, phases: tuple[LinkPhase, ...] = (phase(),)) -> list[str]:
    direction: Any = SimpleNamespace(name="to_client", passage=passage, replay=replayed(passage, phases), phases=phases)
    return list(policing_problems(direction, queue, 10_000, 1_000_000))


ASKED = Policer.model_validate(POLICER)


@given(st.data())
def test_what_a_token_bucket_passes_is_what_the_proof_expects(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 80))
    gaps = data.draw(st.lists(st.integers(20_000, 2_000_000), min_size=count, max_size=count))
    lengths = data.draw(st.lists(st.integers(60, 1514), min_size=count, max_size=count))
    arrivals = np.cumsum(gaps).tolist()
    passed = TokenBucket(10e6, 20_000).run(arrivals, lengths)
    passage = passage_of(arrivals, lengths, passed)
    result = replayed(passage)
    assert ((result.fate == Fate.QUEUE_DROP) == ~np.array(passed)).all()
    assert np.abs(result.lateness_ns(passage)).max(initial=0) <= 1
    assert not result.waited.any()
    assert problems(passage, ASKED) == []


def overloaded(rate: float = 10e6, burst: float = 20_000, count: int = 5000) -> MatchedPackets:
    """Twice what passes."""
    arrivals, lengths = (np.arange(1, count + 1) * 500_000).tolist(), [1250] * count
    return passage_of(arrivals, lengths, TokenBucket(rate, burst).run(arrivals, lengths))


@pytest.mark.parametrize(
    ("rate", "burst", "words"),
    [
        (10e6, 20_000, ""),
        (10.02e6, 20_000, "had too few tokens"),
        (9.98e6, 20_000, "had enough tokens"),
        (10e6, 22_000, "had too few tokens"),
        (10e6, 18_000, "had enough tokens"),
    ],
)
def test_a_policer_that_is_slightly_another_is_told_apart(rate: float, burst: float, words: str) -> None:
    link_problems = problems(overloaded(rate, burst), ASKED)
    assert bool(link_problems) == bool(words) and all(words in text or "tokens" in text for text in link_problems)
    assert not words or any(words in text for text in link_problems)


def test_packets_that_were_to_be_remarked() -> None:
    queue = Policer.model_validate({**POLICER, "exceed": {"dscp": 8}})
    arrivals, lengths = (np.arange(1, 2001) * 500_000).tolist(), [1250] * 2000
    phases = (phase(limit=None),)
    for rate, words in ((10e6, ""), (10.02e6, "too few tokens"), (9.98e6, "given another DSCP by a policer")):
        passed = TokenBucket(rate, 20_000).run(arrivals, lengths)
        passage = passage_of(arrivals, lengths, passed, out_dscp=8)
        link_problems = problems(passage, queue, phases)
        assert bool(link_problems) == bool(words) and all("tokens" in text for text in link_problems)
        assert not words or any(words in text for text in link_problems)


def test_the_bucket_is_full_when_its_rate_changes() -> None:
    """act_police.c, tcf_police_init: at 1 s 16 packets of 1250 bytes pass at once again."""
    phases = (phase(), phase(4_000_000, start=1_000_000_000))
    policer = PolicedLink(phases, [1250] * 40)
    policer.advance(0)
    for index in range(16):
        policer.accept(index, 0)
    assert policer.is_full(1250)
    policer.advance(1_000_000_000)
    accepted = 0
    while not policer.is_full(1250):
        policer.accept(16 + accepted, 1_000_000_000)
        accepted += 1
    assert accepted == 16
    arrivals, every = np.array([0, 999_000_000, 1_000_000_000], np.int64), np.ones(3, np.bool_)
    surplus = token_surplus_ns(arrivals, np.array([1250] * 3), every, every, phases)
    # Time at the rate in force: 20 kB less a packet.
    assert surplus.tolist() == [15 * MS, 15 * MS, 37.5 * MS]
