"""Changes that repeat, values drawn from ranges, outages of one direction: what a run makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.netem import compile_path, find_inexpressible, ideal_time, realise, timeline
from harness.netem.link_states import link_states
from harness.netem.patterns import MAX_CHANGES, draw_value, find_mistakes
from harness.planning.sampling import CHANGES_SEED, has_random_path, sample_values, with_drawn_values
from harness.report.explanation import scenario_text
from harness.scenario.schema import Path, fixed
from harness.store.identity import with_key
from harness.topology import build_lab, lab_summary
from harness.topology.mobility import outages_by_path
from harness.units import Duration, Rate, Size
from tests.examples import cell, link, path, scenario

MINUTE = Duration.parse("60 s")


def changing(*changes: dict[str, Any], **keys: Any) -> Path:
    return path(
        **{"forward": link("20 Mbit/s", "20 ms"), "return": link("5 Mbit/s", "20 ms"), "changes": changes, **keys}
    )


def commands(realised: Path, server: Any = "serial") -> dict[float, list[str]]:
    """Seconds → the commands of that moment."""
    outages = outages_by_path(scenario(path=realised))[""] if realised.outages else ()
    program = compile_path(realised, server, outages=outages)
    return {change.at_ns / 1e9: [" ".join(words) for words in change.commands] for change in program.changes}


# --- when, and with which values


def test_a_change_comes_again_until_no_flow_can_be_running() -> None:
    item = {"at": "15 s", "every": "15 s", "forward": {"delay": "30 ms"}}
    assert [change.at.seconds for change in realise(changing(item), 1, MINUTE).changes] == [15, 30, 45]
    # Its end is its own time, and no longer part of it.
    ended = realise(changing({**item, "until": "45 s"}), 1, MINUTE)
    assert [change.at.seconds for change in ended.changes] == [15, 30]
    assert all(change.every is None for change in ended.changes)


def test_what_changes_once_is_left_as_it_is() -> None:
    plain = changing({"at": "15 s", "forward": {"delay": "30 ms"}})
    assert realise(plain, 1, Duration.parse("1 s")) is plain
    assert CHANGES_SEED not in sample_values(scenario(path=plain), 1)


def test_values_differ_by_seed_and_repetition_and_repeat_by_seed() -> None:
    item = {"at": "15 s", "every": "15 s", "forward": {"delay": ["20 ms", "40 ms"], "rate": ["10 Mbit/s", "30 Mbit/s"]}}
    drawn = changing(item)

    def delays(realised: Path) -> list[Duration]:
        return [fixed(change.forward.delay) for change in realised.changes if change.forward and change.forward.delay]

    first, again, other = (delays(realise(drawn, seed, MINUTE)) for seed in (1, 1, 2))
    assert first == again != other and len({*first, *other}) == 6
    assert all(20_000_000 <= delay.value <= 40_000_000 and delay.value % 1000 == 0 for delay in first)
    # Neither what else changes nor how long the run may last has a part in it.
    more = changing(item, {"at": "16 s", "every": "7 s", "return": {"delay": ["20 ms", "40 ms"]}})
    assert delays(realise(more, 1, MINUTE)) == first
    assert delays(realise(drawn, 1, Duration.parse("90 s")))[:3] == first
    assert delays(realise(drawn, 1, MINUTE, "wifi")) != first


def test_draws_are_those_of_earlier_versions() -> None:
    """Another sequence would give stored runs other paths than they had."""
    item = {"at": "15 s", "every": "15 s", "forward": {"delay": ["20 ms", "40 ms"], "outage": ["20 ms", "60 ms"]}}
    realised = realise(changing(item), 7, MINUTE)
    assert [
        (str(change.forward.delay), str(change.forward.outage)) for change in realised.changes if change.forward
    ] == [
        ("26.844 ms", "20.603 ms"),
        ("27.753 ms", "38.298 ms"),
        ("32.128 ms", "46.509 ms"),
    ]
    assert str(draw_value(Rate, 10**6, 2 * 10**6, "7 words")) == "1.996 Mbit/s"


def test_draws_are_even() -> None:
    values = [draw_value(Duration, 0, 10_000_000, f"{number}").value for number in range(4000)]
    for low in range(0, 10_000_000, 1_000_000):
        assert sum(low <= value < low + 1_000_000 for value in values) == pytest.approx(400, abs=100)


def test_patterns_that_meet_make_one_change() -> None:
    realised = realise(
        changing(
            {"at": "10 s", "every": "10 s", "forward": {"rate": "1 Mbit/s"}},
            {"at": "5 s", "every": "5 s", "forward": {"delay": "30 ms"}, "return": {"delay": "25 ms"}},
        ),
        1,
        Duration.parse("21 s"),
    )
    assert [(change.at.seconds, dict(change.sides)["forward"].named) for change in realised.changes] == [
        (5, ("delay",)), (10, ("rate", "delay")), (15, ("delay",)), (20, ("rate", "delay")),
    ]  # fmt: skip


def test_two_phases_of_a_pattern_do_not_contradict_each_other() -> None:
    square = changing(
        {"at": "0 s", "every": "10 s", "forward": {"rate": "1 Mbit/s"}},
        {"at": "5 s", "every": "10 s", "forward": {"rate": "2 Mbit/s"}},
    )
    assert list(find_mistakes(square, MINUTE)) == []
    rates = [state.rate_bps / 1e6 for state in timeline(realise(square, 1, MINUTE)).states]
    assert rates == [1, 2] * 6


def test_what_a_run_has_room_for() -> None:
    item = {"at": "0 s", "every": "60 ms", "forward": {"rate": "1 Mbit/s"}}
    assert list(find_mistakes(changing(item), MINUTE)) == []
    (mistake,) = find_mistakes(changing({**item, "every": "59 ms"}), MINUTE)
    assert mistake.location == ("changes", 0, "every") and str(MAX_CHANGES) in mistake.text
    # An hour of nanoseconds is counted, and not walked through.
    endless = {"after": "1 s", "lasts": "1 ns", "every": "2 ns"}
    (mistake,) = find_mistakes(changing(blackhole=endless), Duration.parse("1 h"))
    assert mistake.location == ("blackhole", "every") and "trace" in mistake.hint


# --- a cell, its key and its runs


def drawn_cell(low: str = "20 ms", seed: int = 1) -> Any:
    item = {"at": "15 s", "every": "15 s", "forward": {"delay": [low, "40 ms"]}}
    return cell(scenario(path=changing(item), objectives=[]), seed=seed)


def test_a_run_keeps_the_seed_of_its_changes() -> None:
    lab = build_lab(drawn_cell(), 3)
    assert lab.effective[CHANGES_SEED] == str(lab.seed)
    realised = with_drawn_values(drawn_cell().scenario, lab.effective).path
    at = [change["at"] for change in lab_summary(lab)["changes"]]
    assert at == [change.at.seconds for change in realised.changes] == [15, 30, 45, 60, 75, 90, 105]
    delays = [change["to_client"]["delay_ns"] for change in lab_summary(lab)["changes"]]
    assert delays == [state.delay.value for state in link_states(realised)["to_client"]][1:]
    assert delays != [change["to_client"]["delay_ns"] for change in lab_summary(build_lab(drawn_cell(), 2))["changes"]]
    assert has_random_path(drawn_cell().scenario)


def test_the_key_of_a_cell_holds_what_is_drawn_from() -> None:
    keys = {with_key(item).key for item in (drawn_cell(), drawn_cell(), drawn_cell("21 ms"), drawn_cell(seed=2))}
    assert len(keys) == 3


# --- what a change may name


def test_a_change_may_name_any_value() -> None:
    new = {
        "rate": "10 Mbit/s", "delay": "30 ms", "jitter": "5 ms", "reorder": "1 %", "duplicate": "2 %", "loss": "1 %",
        "queue": "100 ms",
    }  # fmt: skip
    changing_path = changing(
        {"at": "2 s", "forward": new}, {"at": "3 s", "forward": {"reorder": "none", "jitter": "0 s"}}
    )
    first, second = commands(changing_path)[2], commands(changing_path)[3]
    # 100 ms of 10 Mbit/s.
    assert "parent 1:1 handle 10: bfifo limit 125000" in first[1] and "serial rate 10000000bit" in first[0]
    assert "delay 30000000ns 5000000ns loss random 1% reorder 1% gap 1 duplicate 2% seed" in first[2]
    assert "delay 30000000ns loss random 1% duplicate 2% seed" in second[0]
    # A netem that duplicates stands no other on its device.
    roots = [words for words in compile_path(changing_path, "serial").setup if words[4:6] == ("left", "root")]
    assert len(roots) == 1 and "rate" not in roots[0]
    (bucket,) = [text for text in commands(changing_path, "bucket")[2] if "to_client" in text]
    assert bucket.endswith("limit 125000") and "tbf rate 10000000bit" in bucket


def test_a_time_alone_keeps_the_rest_of_a_jitter() -> None:
    normal = {"deviation": "2 ms", "distribution": "normal", "correlation": "25 %"}
    changing_path = changing(
        {"at": "2 s", "forward": {"jitter": "3 ms"}}, forward=link("20 Mbit/s", "20 ms", jitter=normal)
    )
    (text,) = commands(changing_path)[2]
    assert "delay 20000000ns 3000000ns 25% distribution normal rate 1000gbit seed" in text


@pytest.mark.parametrize(
    ("queue", "size", "words"),
    [
        ("25 packets", "50 packets", "pfifo limit 50"),
        ("25 packets", "151400 B", "pfifo limit 100"),
        ("50 kB", "25 packets", "bfifo limit 37850"),
        ("codel", "1 BDP", "codel limit 66"),
        ("fq_codel", "500 packets", "fq_codel limit 500"),
        ("pie", "500 packets", "pie limit 500"),
        ("fq_pie", "500 packets", "fq_pie limit 500"),
        ("dualpi2", "500 packets", "dualpi2 limit 500"),
        ("cake", "1 MB", "cake memlimit 1000000"),
        ({"discipline": "step", "threshold": "1 ms"}, "500 packets", "codel limit 500"),
    ],
)
def test_a_queue_is_resized_where_it_is(queue: Any, size: str, words: str) -> None:
    forward = link("20 Mbit/s", "20 ms", queue=queue)
    (text,) = commands(changing({"at": "2 s", "forward": {"queue": size}}, forward=forward))[2]
    assert text.startswith("tc qdisc change dev to_client parent 1:1 handle 10: ") and text.endswith(words)


@pytest.mark.parametrize(("queue", "why"), [("RED 1 BDP", "loses what waits"), ("sfq", "cannot be changed")])
def test_a_queue_that_no_kernel_resizes_is_refused(queue: str, why: str) -> None:
    changing_path = changing(
        {"at": "2 s", "forward": {"queue": "50 packets"}}, forward=link("20 Mbit/s", "20 ms", queue=queue)
    )
    mistake = find_inexpressible(changing_path, MINUTE)
    assert mistake is not None and mistake.location == ("changes", 0, "forward", "queue") and why in mistake.text


def test_a_queue_in_time_is_of_the_rate_and_the_delays_from_now_on() -> None:
    changing_path = changing(
        {"at": "1 s", "forward": {"rate": "8 Mbit/s"}},
        {"at": "2 s", "forward": {"queue": "2 BDP", "delay": "80 ms"}},
        {"at": "3 s", "forward": {"rate": "80 Mbit/s"}},
    )
    sizes = [str(state.queue.capacity) for state in link_states(changing_path)["to_client"]]
    assert sizes == ["1 BDP", "1 BDP", "200 kB", "200 kB"]
    summary = lab_summary(build_lab(cell(scenario(path=changing_path, objectives=[])), 0))
    assert [change["to_client"].get("limit_bytes") for change in summary["changes"]] == [None, 200_000, None]


# --- outages


def test_an_outage_of_one_direction_drops_what_leaves_its_queue() -> None:
    realised = realise(changing(**{"return": link("5 Mbit/s", blackhole={"after": "2 s", "lasts": "1 s"})}), 1, MINUTE)
    assert commands(realised) == {
        2.0: ["nft add rule inet outages to_server drop"], 3.0: ["nft flush chain inet outages to_server"],
    }  # fmt: skip
    program = compile_path(realised, "serial", outages=outages_by_path(scenario(path=realised))[""])
    rules = [" ".join(words) for words in program.setup if words[0] == "nft"]
    assert "add rule inet outages through iifname left jump to_server" in rules[-1]
    assert not any("to_client" in rule for rule in rules)
    (facts,) = lab_summary(build_lab(cell(scenario(path=realised, objectives=[])), 0))["paths"]
    assert facts["outages"] == [{"from_ns": 2 * 10**9, "until_ns": 3 * 10**9, "direction": "to_server"}]


def test_an_outage_of_the_whole_path_stays_what_it_was() -> None:
    """Beside no change the clients' side is gone; what is stored of it has no new word."""
    dark = path(blackhole={"after": "5 s", "lasts": "2 s"})
    assert dark.is_plain
    lab = build_lab(cell(scenario(path=dark, objectives=[])), 0)
    assert "tc qdisc replace dev left root blackhole" in lab.simulators[0].program.lines()
    assert lab_summary(lab)["paths"][0]["outages"] == [{"from_ns": 5 * 10**9, "until_ns": 7 * 10**9}]


def test_outages_and_changes_go_together() -> None:
    realised = realise(
        changing(
            {"at": "15 s", "every": "15 s", "forward": {"delay": "30 ms"}},
            blackhole={"after": "15 s", "lasts": ["50 ms", "80 ms"], "every": "15 s"},
        ),
        1,
        Duration.parse("31 s"),
    )
    down, up = (
        [(begin, end) for begin, end, side in realised.outages if side == name] for name in ("forward", "return")
    )
    # Both directions are dark together.
    assert down == up and [begin.seconds for begin, _ in down] == [15, 30]
    at_15 = commands(realised)[15]
    assert "delay 30000000ns" in at_15[0] and at_15[1:] == [
        "nft add rule inet outages to_client drop", "nft add rule inet outages to_server drop",
    ]  # fmt: skip


def test_reference_times_wait_for_the_direction_that_is_dark() -> None:
    plain = ideal_time(timeline(changing()), Size.parse("1 MB"))
    dark = {"blackhole": {"after": "1 ms", "lasts": "1 s"}}
    down = realise(changing(forward=link("20 Mbit/s", "20 ms", **dark)), 1, MINUTE)
    up = realise(changing(**{"return": link("5 Mbit/s", "20 ms", **dark)}), 1, MINUTE)
    assert ideal_time(timeline(down), Size.parse("1 MB")) == pytest.approx(plain + 0.981, abs=0.01)
    # The handshake's second flight waits: 40 ms on a path that is up, and 1.001 s here.
    assert ideal_time(timeline(up), Size.parse("1 MB")) == pytest.approx(plain + 0.961, abs=0.01)


def test_the_explanation_says_what_repeats_and_what_is_drawn() -> None:
    text = scenario_text(
        scenario(
            path=changing(
                {
                    "at": "15 s", "every": "15 s", "until": "100 s",
                    "forward": {"delay": ["20 ms", "40 ms"], "outage": "50 ms"},
                },
                forward=link("20 Mbit/s", "20 ms", blackhole={"after": "4 s", "lasts": "1 s", "every": "30 s"}),
            )
        ),
        "virtual",
    )  # fmt: skip
    assert (
        "after 15 s, and every 15 s until 100 s: forward delay drawn from 20 ms to 40 ms, nothing passes for 50 ms"
        in text
    )
    assert "from 4 s: forward nothing passes for 1 s, every 30 s" in text
    assert "drawn anew for each repetition of a run" in text
