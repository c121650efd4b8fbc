"""Sweeps: what is varied, over what, and what cannot be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix
from harness.planning.sweep import dimensions, expand_points
from harness.report.parameters import requested_parameters, sort_key
from harness.scenario.schema import DropTail
from harness.units import QueueSize
from tests.examples import SIM, cell, images, implementation, link, path, scenario


def test_nothing_to_vary_is_one_point() -> None:
    tested_scenario = scenario(parameters={"server.initial_rtt": "0.1 s"})
    assert [point.parameters for point in expand_points(tested_scenario, {}, {})] == [{"server.initial_rtt": "100 ms"}]


@given(first=st.integers(1, 4), second=st.integers(1, 4))
def test_every_value_with_every_other(first: int, second: int) -> None:
    vary: dict[str, list[object]] = {
        "client.initial_rtt": [f"{n + 1} ms" for n in range(first)],
        "ack_ratio": [n + 1 for n in range(second)],
    }
    points = expand_points(scenario(), {}, vary)
    assert len({str(point.parameters) for point in points}) == first * second
    assert all(point.parameters["client.ack_ratio"] == point.parameters["server.ack_ratio"] for point in points)


def test_paired_values() -> None:
    vary = {"path.forward.rate": ["50 Mbit/s", "250 Mbit/s"], "path.return.rate": ["500 kbit/s", "3 Mbit/s"]}
    points = expand_points(scenario(), {}, vary, "zip")
    rates = [(str(point.scenario.path.forward.rate), str(point.scenario.path.return_.rate)) for point in points]
    assert rates == [("50 Mbit/s", "500 kbit/s"), ("250 Mbit/s", "3 Mbit/s")]
    with pytest.raises(InputError, match="as many"):
        expand_points(scenario(), {}, {**vary, "client.ack_ratio": [1, 2, 3]}, "zip")
    assert expand_points(scenario(), {}, {}, "zip")


def test_a_scenario_has_a_sweep_of_its_own_which_the_command_line_replaces() -> None:
    tested_scenario = scenario(vary={"client.ack_ratio": [2, 10], "path.down.loss": ["0 %", "1 %"]})
    assert len(expand_points(tested_scenario, {}, {})) == 4
    assert len(expand_points(tested_scenario, {}, {"client.ack_ratio": ["5"]})) == 2
    assert len(expand_points(tested_scenario, {"client.ack_ratio": "5"}, {})) == 2
    assert all(not point.scenario.vary for point in expand_points(tested_scenario, {}, {}))


def test_the_client_is_down_wherever_the_terminal_is() -> None:
    for terminal, changed in (("client", "forward"), ("server", "return_")):
        tested_scenario = scenario(path=path(terminal=terminal))
        (point,) = expand_points(tested_scenario, {"path.down.loss": "1%"}, {})
        assert str(getattr(point.scenario.path, changed).loss) == "1 %"
        assert point.scenario.path.to_client.mean_loss == 0.01
        assert point.scenario.path.to_server.mean_loss == 0


def test_queues_by_their_size() -> None:
    (point,) = expand_points(scenario(), {"path.forward.queue": "2 BDP"}, {})
    queue = point.scenario.path.forward.queue
    assert isinstance(queue, DropTail)
    assert str(queue.size) == "2 BDP"
    assert point.parameters == {"path.forward.queue": "2 BDP"}


def test_queues_by_their_discipline() -> None:
    points = expand_points(scenario(), {}, {"path.forward.queue": ["RED 1 BDP", "1 BDP", "RED 0.5 BDP", "0.5 BDP"]})
    assert [type(point.scenario.path.forward.queue).__name__ for point in points] == [
        "Red",
        "DropTail",
        "Red",
        "DropTail",
    ]
    assert points[0].scenario.path.forward.queue.capacity == QueueSize.parse("1 BDP")
    cells = [cell().model_copy(update={"parameters": dict(point.parameters)}) for point in points]
    in_order = [tested_cell.parameters["path.forward.queue"] for tested_cell in sorted(cells, key=sort_key)]
    assert in_order == ["0.5 BDP", "1 BDP", "RED 0.5 BDP", "RED 1 BDP"]


def test_a_cell_says_what_tells_it_from_its_like() -> None:
    parameters = {"server.pacing": "on", "path.down.loss": "1 %", "flow1.server": "gamma"}
    tested_cell = cell().model_copy(update={"parameters": parameters})
    assert CellResult(tested_cell, (), judge(tested_cell.scenario, []), ()).name == (
        "alpha→beta pacing=on (path.down.loss=1 %, flow1.server=gamma)"
    )


@pytest.mark.parametrize(
    ("fixed", "vary", "words"),
    [
        ({"client.ack_ratio": 2}, {"client.ack_ratio": [3]}, "both set and varied"),
        ({}, {"client.ack_ratio": []}, "nothing to vary"),
        ({"path.forward.colour": "red"}, {}, "not a property of the path"),
        ({"path.sideways.rate": "1 Mbit/s"}, {}, "not a property of the path"),
        ({"path.forward.rate": "fast"}, {}, "is not a rate"),
        ({"path.forward.rate": "1 bit/s"}, {}, "at least 1 kbit/s"),
        ({"client.rtt": "1 ms"}, {}, "not a parameter"),
        ({"initial_rtt": "1"}, {}, "no unit"),
    ],
)
def test_what_cannot_be_varied(fixed: dict[str, object], vary: dict[str, list[object]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        expand_points(scenario(), fixed, vary)


def test_a_rate_that_tc_cannot_express_is_refused_where_it_is_asked_for() -> None:
    served = path(
        forward=link("20 Mbit/s", queue="20 packets", service={"process": "poisson"}), **{"return": link("5 Mbit/s")}
    )
    assert expand_points(scenario(path=served), {"path.forward.rate": "8 kbit/s"}, {})
    with pytest.raises(InputError, match=r"path\.forward\.rate = 5 kbit/s: netem has no Poisson process as slow"):
        expand_points(scenario(path=served), {"path.forward.rate": "5 kbit/s"}, {})


def test_every_dimension_is_known_once() -> None:
    names = dimensions()
    assert len(names) == len(set(names))
    assert {"client.ack_ratio", "ack_ratio", "path.down.loss", "path.return.rate"} <= set(names)


def test_the_path_is_part_of_a_cell_and_its_key() -> None:
    contestants = [implementation("alpha")]
    request = Request([scenario()], contestants, contestants, vary={"path.down.loss": ["0 %", "1 %"]})
    cells = build_matrix(request, images("alpha"), SIM)
    assert [item.scenario.path.forward.mean_loss for item in cells] == [0, 0.01]
    assert [item.parameters for item in cells] == [{"path.down.loss": "0 %"}, {"path.down.loss": "1 %"}]
    assert cells[0].key != cells[1].key


def test_columns_are_what_differs() -> None:
    cells = [
        cell(parameters={"initial_rtt": rtt, "server.congestion_control": "reno"}) for rtt in ("1 s", "20 ms", "100 ms")
    ]
    requested = requested_parameters(cells)
    assert requested.varied == ("initial_rtt",)
    assert requested.suffix == ", server.congestion_control reno"
    assert [requested.cells(tested_cell) for tested_cell in sorted(cells, key=sort_key)] == [
        ["20 ms"],
        ["100 ms"],
        ["1 s"],
    ]
    mixed = requested_parameters([*cells, cell()])
    assert mixed.varied == ("client.initial_rtt", "server.congestion_control", "server.initial_rtt")
    assert mixed.cells(cell()) == ["–", "–", "–"]


# --- keys of a link's parts


def test_keys_of_a_queue_a_jitter_and_a_reordering_are_varied_as_they_are_written() -> None:
    forward = link(queue="codel", jitter={"deviation": "5 ms", "distribution": "normal"}, reorder="1 %", loss="1 %")
    swept_scenario = scenario(path=path(forward=forward))
    points = expand_points(
        swept_scenario, {"path.down.queue.ecn": "true"}, {"path.forward.queue.target": ["5 ms", "20 ms"]}
    )
    links = [point.scenario.path.forward for point in points]
    assert [(str(item.queue.target), item.queue.ecn) for item in links] == [("5 ms", True), ("20 ms", True)]  # type: ignore[union-attr]
    assert points[1].parameters == {"path.down.queue.ecn": "True", "path.forward.queue.target": "20 ms"}
    (changed,) = expand_points(
        swept_scenario,
        {"path.forward.jitter.deviation": "2 ms", "path.forward.reorder.gap": "5", "path.down.duplicate": "3 %"},
        {},
    )
    forward_link = changed.scenario.path.forward
    assert forward_link.variation.distribution == "normal" and str(forward_link.variation.deviation) == "2 ms"
    assert (
        forward_link.reorder is not None and forward_link.reorder.gap == 5 and forward_link.duplicate.fraction == 0.03
    )


@pytest.mark.parametrize("words", [["true", "false"], [True, False], ["on", "off"]])
def test_a_switch_of_a_queue_is_varied(words: list[object]) -> None:
    swept_scenario = scenario(path=path(forward=link(queue="pie")), vary={"path.forward.queue.ecn": words})
    assert [point.scenario.path.forward.queue.may_mark for point in expand_points(swept_scenario, {}, {})] == [
        True,
        False,
    ]


def test_a_discipline_s_key_may_be_varied_with_the_discipline() -> None:
    swept_scenario = scenario(
        vary={"path.forward.queue": ["codel", "fq_codel"], "path.forward.queue.target": ["5 ms", "10 ms"]}
    )
    queues = [point.scenario.path.forward.queue for point in expand_points(swept_scenario, {}, {})]
    assert [(queue.discipline, str(queue.target)) for queue in queues] == [  # type: ignore[union-attr]
        ("codel", "5 ms"),
        ("codel", "10 ms"),
        ("fq_codel", "5 ms"),
        ("fq_codel", "10 ms"),
    ]


@pytest.mark.parametrize(
    ("name", "value", "words", "hint"),
    [
        ("path.forward.queue.target", "5 ms", "a droptail queue has no target", "size"),
        ("path.forward.jitter.deviation", "5 ms", "its jitter is '0 ns', which has no deviation", "with its keys"),
        ("path.forward.reorder.share", "5 %", "its reorder is none, which has no share", "with its keys"),
        ("path.forward.queue.taget", "5 ms", "not a property of the path", "'queue.target'"),
        ("path.forward.reorder", "0 %", "reorders nothing", "1 %"),
        ("path.forward.ecn", "clear", "expected", "bleach"),
    ],
)
def test_a_key_that_a_link_s_part_lacks(name: str, value: str, words: str, hint: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        expand_points(scenario(), {name: value}, {})
    assert hint in caught.value.hint


def test_a_segment_may_have_a_direction_s_name() -> None:
    segments = [{"name": name, "forward": link(), "return": link()} for name in ("forward", "last")]
    (point,) = expand_points(scenario(path=segments), {"path.forward.forward.delay": "7 ms"}, {})
    assert {name: str(part.forward.delay) for name, part in point.scenario.every_path.items()} == {
        "forward": "7 ms",
        "last": "325 ms",
    }
