from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.scenario.schema import Flow, GilbertElliott, Implementation, Red, Scenario
from tests.examples import implementation, link, path, scenario


def test_a_scenario_survives_json() -> None:
    tested_scenario = scenario(path=path(changes=[{"at": "5 s", "forward": {"rate": "10 Mbit/s"}}]))
    assert Scenario.model_validate_json(tested_scenario.model_dump_json(by_alias=True)) == tested_scenario


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"jitter": "1 s"}, "jitter"),
        ({"burst": "100 B"}, "below one frame"),
        ({"rate": "1 bit/s"}, "at least 1 kbit/s"),
        ({"queue": {"discipline": "red", "limit": "50 kB", "min": "15 kB", "max": "40 kB", "probability": "100 %", "wq": 0.002}}, "wraps"),
        ({"queue": {"discipline": "red", "limit": "50 kB", "min": "15 kB", "max": "40 kB", "probability": "10 %"}}, "exactly one of wq and burst"),
        ({"queue": {"discipline": "fifo", "size": "1 BDP"}}, "droptail"),
    ],
)  # fmt: skip
def test_impossible_links(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        link(**more)


def test_a_queue_may_be_written_as_its_size() -> None:
    assert link(queue="25 packets") == link(queue={"discipline": "droptail", "size": "25 packets"})
    assert link(queue={"size": "25 packets"}) == link(queue="25 packets")


@pytest.mark.parametrize(
    ("limit", "low", "high"),
    [("1 BDP", "0.3 BDP", "0.8 BDP"), ("25 kB", "7500 B", "20 kB"), ("33 packets", "10 packets", "26 packets")],
)
def test_red_may_be_written_as_its_limit(limit: str, low: str, high: str) -> None:
    red = {"discipline": "red", "limit": limit, "min": low, "max": high, "probability": "10 %", "wq": 0.002}
    assert link(queue=f"RED {limit}") == link(queue={**red, "average_packet": "1500 B"})
    assert link(queue=f"red {limit}") == link(queue=f"RED {limit}")


@pytest.mark.parametrize(
    ("text", "reason"), [("RED", "not a queue size"), ("RED 1", "not a queue size"), ("red", "not a queue size")]
)
def test_red_needs_a_limit(text: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        link(queue=text)


def test_a_switch_may_be_written_as_yaml_reads_it() -> None:
    text = "{server.pacing: off, client.ecn: on}"
    assert yaml.safe_load(text) == {"server.pacing": False, "client.ecn": True}
    flow = Flow.model_validate({"download": "1 MB", "parameters": yaml.safe_load(text)})
    assert flow.parameters == {"server.pacing": "off", "client.ecn": "on"}


def test_red_is_read() -> None:
    queue = {"discipline": "red", "limit": "50 kB", "min": "15 kB", "max": "40 kB", "probability": "10 %", "wq": 0.002}
    assert isinstance(link(queue=queue).queue, Red)


def test_changes_are_in_order() -> None:
    with pytest.raises(ValidationError, match="in order of time"):
        path(changes=[{"at": "5 s", "forward": {"rate": "1 Mbit/s"}}, {"at": "1 s", "forward": {"rate": "2 Mbit/s"}}])
    with pytest.raises(ValidationError, match="needs a direction"):
        path(changes=[{"at": "5 s"}])


def test_an_upload_turns_the_path_round() -> None:
    down, up = path(), path(terminal="server")
    assert (down.to_client, down.to_server) == (up.to_server, up.to_client)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"objectives": [{"metric": "milestone_3MB", "at_most": "3 s"}]}, "milestones are"),
        ({"objectives": [{"metric": "repeat_completion", "at_most": "3 s"}]}, "repeat_after"),
        ({"objectives": [{"metric": "completion", "at_most": "3 s", "at_least": "1 s"}]}, "exactly one"),
        ({"objectives": [{"metric": "completion", "at_most": "3 apples"}]}, "not a bound"),
        ({"parameters": {"server.congestion": "bbr"}}, "not a parameter"),
        ({"flows": []}, "at least 1 item"),
    ],
)  # fmt: skip
def test_impossible_scenarios(more: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        scenario(**more)


def test_bounds_have_the_unit_of_their_metric() -> None:
    bounds = [
        ({"metric": "completion", "at_most": "1500 ms"}, 1.5, "s"),
        ({"metric": "goodput", "at_least": "20 Mbit/s"}, 20.0, "Mbit/s"),
        ({"metric": "ack_ratio", "at_least": 2}, 2.0, "1"),
    ]
    for content, value, unit in bounds:
        objective = scenario(objectives=[content]).objectives[0]
        assert (objective.bound, objective.unit) == (value, unit)


@given(p=st.floats(0, 1), r=st.floats(0, 1))
def test_gilbert_elliott_mean_is_a_share(p: float, r: float) -> None:
    model = GilbertElliott.model_validate({"good_to_bad": f"{p * 100:.6f} %", "bad_to_good": f"{r * 100:.6f} %"})
    assert 0 <= model.mean <= 1


def test_an_implementation_has_one_source() -> None:
    with pytest.raises(ValidationError, match="exactly one of image"):
        implementation(build=".")
    assert Implementation(name="x", image="y:z").roles == ("client", "server")
