"""Designs of studies: fractions by their words, what pairs honour, and studies that cannot be had."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.catalogue import Catalogue
from harness.errors import InputError
from harness.execution.matrix import Request, build_matrix, study_designs
from harness.planning.design import (
    combinations,
    design_for_pair,
    design_resolution,
    design_size,
    find_aliases,
    fraction,
    least_random_runs,
)
from harness.planning.sweep import Point, expand_points
from harness.report.designs import design_data, design_lines
from harness.scenario.schema import Implementation, Scenario
from tests.examples import SIM, catalogue, images, implementation, scenario


def _study(**study: object) -> Scenario:
    return scenario(objectives=[], study=study)


FACTORS = {
    "server.congestion_control": ["reno", "cubic"],
    "server.initial_rtt": ["100 ms", "333 ms"],
    "client.ack_ratio": [2, 10],
    "path.forward.loss": ["0 %", "1 %"],
}


# --- fractions


@pytest.mark.parametrize(
    ("factors", "least", "runs"),
    # G. E. P. Box, J. S. Hunter, W. G. Hunter, Statistics for Experimenters, 2nd ed., table 6.22.
    [
        (3, 3, 4), (4, 4, 8), (5, 3, 8), (6, 3, 8), (7, 3, 8), (5, 5, 16), (6, 4, 16), (7, 4, 16), (8, 4, 16),
        (9, 3, 16), (10, 3, 16), (11, 3, 16), (6, 6, 32), (9, 4, 32), (10, 4, 32), (11, 4, 32), (7, 7, 64), (8, 5, 64),
        (9, 6, 128), (10, 5, 128), (11, 5, 128),
    ],
)  # fmt: skip
def test_fractions_are_as_small_as_in_the_book_and_of_their_resolution(factors: int, least: int, runs: int) -> None:
    rows = fraction(factors, least)
    assert len(rows) == len(set(rows)) == runs
    assert design_resolution(rows) >= least
    assert rows[0] == (0,) * factors


@given(factors=st.integers(2, 9), least=st.integers(3, 6))
def test_every_fraction_is_balanced_and_tells_what_it_claims(factors: int, least: int) -> None:
    rows = fraction(factors, least)
    signs = 2 * np.array(rows) - 1
    assert not signs.sum(axis=0).any()
    # Whatever involves fewer factors than the resolution together is not mistaken for one another.
    for short in range(1, min(least, factors + 1)):
        for word in itertools.combinations(range(factors), short):
            assert not signs[:, list(word)].prod(axis=1).sum()


def test_what_a_fraction_cannot_tell_apart() -> None:
    aliases = find_aliases(fraction(5, 3))
    assert {n for n, _ in aliases.of_main} == {0, 1, 2, 3, 4}
    assert dict(aliases.of_main)[4] == ((0, 1), (2, 3))
    clear = find_aliases(fraction(4, 4))
    assert not clear.of_main
    assert clear.together == (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))
    assert find_aliases(fraction(5, 5)) == find_aliases([]) == type(clear)((), ())


# --- other designs


@given(counts=st.lists(st.integers(2, 4), min_size=1, max_size=4))
def test_designs_have_the_combinations_they_say(counts: list[int]) -> None:
    for kind, number in (("full", 0), ("one-at-a-time", 0), ("random", least_random_runs(counts))):
        rows = combinations(kind, number, counts, "a")  # type: ignore[arg-type]
        assert len(rows) == len(set(rows)) == design_size(kind, number, counts)  # type: ignore[arg-type]
        assert all(0 <= level < count for row in rows for level, count in zip(row, counts, strict=True))
    assert len(combinations("full", 0, counts, "")) == math.prod(counts)
    alone = combinations("one-at-a-time", 0, counts, "")
    assert all(sum(level > 0 for level in row) <= 1 for row in alone)


def test_a_random_design_is_the_same_everywhere_and_tells_main_effects_apart() -> None:
    counts = [4, 3, 3, 2, 2]
    rows = combinations("random", 12, counts, "studies/one")
    assert rows == combinations("random", 12, counts, "studies/one") != combinations("random", 12, counts, "other")
    columns = [[1.0, *(float(row[n] == i) for n, c in enumerate(counts) for i in range(1, c))] for row in rows]
    assert np.linalg.matrix_rank(np.array(columns)) == least_random_runs(counts)


# --- pairs


def _pair(definition: Scenario, client: Implementation, server: Implementation):  # type: ignore[no-untyped-def]
    (point,) = expand_points(definition, {}, {})
    return design_for_pair(point, {"client": client, "server": server})


def test_a_pair_has_the_factors_that_it_honours_and_the_others_are_absent_by_name() -> None:
    pair_design = _pair(_study(factors=FACTORS, design="full"), implementation("alpha"), implementation("beta"))
    assert list(pair_design.factors) == ["server.congestion_control", "server.initial_rtt", "path.forward.loss"]
    assert pair_design.unsupported == {"client.ack_ratio": "alpha cannot set ack_ratio as a client; it is 2"}
    assert len(pair_design.points) == 8
    assert pair_design.points[0].parameters == {
        "server.congestion_control": "reno", "server.initial_rtt": "100 ms", "path.forward.loss": "0 %",
    }  # fmt: skip


def test_a_level_that_a_pair_does_not_honour_is_left_out_alone() -> None:
    levels = {"server.congestion_control": ["bbr", "reno", "cubic"], "server.initial_rtt": ["0 ms", "100 ms"]}
    slow = implementation("beta", parameters={
        "congestion_control": {"server": {"values": ["reno", "cubic"], "flag": "{value}"}},
        "initial_rtt": {"server": {"flag": "{ms}", "minimum": "1 ms"}},
    })  # fmt: skip
    pair_design = _pair(
        _study(factors={**levels, "server.initial_rtt": ["10 us", "1 ms"]}), implementation("alpha"), slow
    )
    assert pair_design.factors == {"server.congestion_control": ("reno", "cubic")}
    assert pair_design.unsupported == {
        "server.congestion_control bbr": "beta does not know congestion_control bbr; known: reno, cubic",
        "server.initial_rtt": "beta takes initial_rtt from 1 ms, not 10 us",
    }


def test_a_fraction_is_of_the_factors_that_are_honoured() -> None:
    pair_design = _pair(
        _study(factors=FACTORS, design="fractional(4)"), implementation("alpha"), implementation("beta")
    )
    # Of three factors no fraction has resolution IV.
    assert len(pair_design.rows) == 8
    assert not pair_design.aliases.of_main


def test_who_honours_too_little_has_no_cells() -> None:
    tested_scenario = _study(factors=FACTORS, least=4)
    pair_design = _pair(tested_scenario, implementation("alpha"), implementation("beta"))
    assert not pair_design.points
    assert pair_design.too_few == "it honours 3 factors, and 4 are the least"
    assert (
        build_matrix(
            Request([tested_scenario], [implementation("alpha")], [implementation("beta")]),
            images("alpha", "beta"),
            SIM,
        )
        == []
    )


def test_profiles_are_told_as_far_as_they_are_honoured() -> None:
    profiles = {
        "swift's": {"server.congestion_control": "cubic", "client.ack_ratio": 10},
        "old": {"server.congestion_control": "reno", "server.initial_rtt": "100 ms"},
        "strange": {"client.ack_ratio": 25},
    }
    pair_design = _pair(_study(profiles=profiles), implementation("alpha"), implementation("beta"))
    assert pair_design.labels == ("its own parameters", "swift's", "old")
    assert pair_design.points[1].parameters == {"server.congestion_control": "cubic"}
    assert set(pair_design.unsupported) == {"swift's: client.ack_ratio 10", "strange: client.ack_ratio 25", "strange"}


def test_what_is_set_or_varied_is_no_factor_any_more() -> None:
    tested_scenario = _study(factors=FACTORS)
    (point,) = expand_points(tested_scenario, {"server.congestion_control": "cubic"}, {})
    pair_design = design_for_pair(point, {"client": implementation("alpha"), "server": implementation("beta")})
    assert list(pair_design.factors) == ["server.initial_rtt", "path.forward.loss"]
    assert {each.parameters["server.congestion_control"] for each in pair_design.points} == {"cubic"}
    (point,) = expand_points(_study(factors={"ack_ratio": [2, 10], "server.initial_rtt": ["1 ms", "2 ms"]}),
                      {"client.ack_ratio": "5", "server.initial_rtt": "3 ms"}, {})  # fmt: skip
    assert isinstance(point, Point)
    assert point.scenario.study is None


def test_cells_of_a_study_are_resumed_by_their_keys() -> None:
    tested_scenario = _study(factors=FACTORS, design="one-at-a-time")
    request = Request([tested_scenario], [implementation("alpha")], [implementation("beta")])
    cells = build_matrix(request, images("alpha", "beta"), SIM)
    assert len({cell.key for cell in cells}) == len(cells) == 4
    # A level more leaves the other cells what they are.
    more = _study(factors={**FACTORS, "path.forward.loss": ["0 %", "1 %", "2 %"]}, design="one-at-a-time")
    again = build_matrix(Request([more], request.clients, request.servers), images("alpha", "beta"), SIM)
    assert {cell.key for cell in cells} < {cell.key for cell in again}
    assert len(again) == 5


# --- what cannot be had

GOOD = """\
schema: 1
title: A study
path:
  forward: {rate: 50 Mbit/s, delay: 325 ms, queue: 1 BDP}
  return: {rate: 10 Mbit/s, delay: 325 ms}
flows:
  - {download: 10 MB}
draw:
  path.return.delay: [324 ms, 325 ms]
study:
  design: full
  factors:
    server.initial_cwnd: [10, 32]
    server.initial_rtt: [100 ms, 600 ms]
    client.ack_ratio: [2, 10]
    server.congestion_control: [cubic, bbr]
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("[10, 32]", "[10, 32, many]", 13, "'many' is not a whole number"),
        ("[100 ms, 600 ms]", "[100 ms, 600]", 14, "'600' has no unit"),
        ("[cubic, bbr]", "[cubic, hybla]", 16, "nobody here has the congestion control 'hybla'"),
        ("[2, 10]", "[2, 2]", 15, "the level 2 is given twice"),
        ("[2, 10]", "[2]", 15, "needs at least 2 entries"),
        ("client.ack_ratio", "client.ack_rate", 15, "'client.ack_rate' is neither a parameter"),
        ("client.ack_ratio", "ack_ratio", 15, "ack_ratio alone is both ends'"),
        ("client.ack_ratio: [2, 10]", "flow0.server: [quiche, quinn]", 15, "'flow0.server' is neither"),
        ("client.ack_ratio: [2, 10]", "path.return.delay: [1 ms, 2 ms]", 15, "both drawn and a factor"),
        ("client.ack_ratio: [2, 10]", "path.up.delay: [1 ms, 2 ms]", 15, "both drawn and a factor"),
        ("client.ack_ratio: [2, 10]", "initial_rtt: [1 ms, 2 ms]", 15, "that is server.initial_rtt, too"),
        ("client.ack_ratio: [2, 10]", "path.forward.rate: [1, 2 Mbit/s]", 15, ": 1 has no unit"),
        ("design: full", "design: fractional(2)", 11, "resolution 2 aliases main effects with each other"),
        ("design: full", "design: fractional(5)", 11, "no fraction of 4 factors has resolution 5"),
        ("design: full", "design: random(4)", 11, "4 combinations alias main effects"),
        ("design: full", "design: random(17)", 11, "there are 16 combinations, and 17 are to be drawn"),
        ("design: full", "design: half", 11, "'half' is not a design"),
        ("design: full", "least: 5", 11, "5 factors must be honoured, and there are 4"),
        ("design: full\n", "design: fractional(3)\n  profiles: {a: {server.initial_cwnd: 10}}\n", 11, "exactly one of"),
        ("study:\n", "vary: {server.initial_cwnd: [10]}\nstudy:\n", 1, "a study has its own factors"),
    ],
)  # fmt: skip
def test_a_study_that_cannot_be_had_is_told_where(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert GOOD.count(old) == 1, old
    file = tmp_path / "study.yaml"
    file.write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError) as exception_info:
        _catalogue().scenario(file)
    assert f"{file}:{line}:" in exception_info.value.message
    assert says in exception_info.value.message
    assert exception_info.value.hint


def test_three_levels_are_no_fraction_and_so_many_cells_are_a_slip(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    wide = GOOD.replace("full", "fractional(4)").replace("[10, 32]", "[10, 32, 100]")
    file.write_text(wide, encoding="utf-8")
    with pytest.raises(InputError, match=r"study.yaml:13:5: .*two levels each, and server.initial_cwnd has 3"):
        _catalogue().scenario(file)
    many = "".join(f"    path.{way}.{name}: [1 ms, 2 ms, 3 ms, 4 ms, 5 ms, 6 ms, 7 ms, 8 ms, 9 ms, 10 ms]\n"
                   for way, name in (("forward", "delay"), ("forward", "jitter")))  # fmt: skip
    file.write_text(
        GOOD.replace("[10, 32]", "[10, 20, 32, 40]") + many.replace("forward.jitter", "return.jitter"), encoding="utf-8"
    )
    with pytest.raises(InputError, match=r"study.yaml:11:.*3200 combinations of each pair"):
        _catalogue().scenario(file)


def test_the_good_one_is_good(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(GOOD, encoding="utf-8")
    assert _catalogue().scenario(file).study is not None


def _catalogue() -> Catalogue:
    """With what is read of this repository's manifests once."""
    return catalogue()


# --- what a plan says of them


def test_a_plan_says_what_is_absent_and_what_is_aliased() -> None:
    two = {**FACTORS, "server.initial_cwnd": [10, 32]}
    tested_scenario = _study(factors=two, design="fractional(4)", least=3)
    able = {"initial_cwnd": {"server": {"flag": "--iw={value}"}}}
    server = implementation("beta", parameters={**_plain("beta"), **able})
    bare = implementation("gamma", parameters={"congestion_control": {"default": "cubic"}})
    designs = study_designs(Request([tested_scenario], [implementation("alpha")], [server, bare]), {})
    assert design_lines(designs) == [
        "study test/case alpha→beta: 8 cells, fractional(4): server.congestion_control [reno, cubic]; "
        "server.initial_rtt [100 ms, 333 ms]; path.forward.loss [0 %, 1 %]; server.initial_cwnd [10, 32]",
        "  absent: client.ack_ratio: alpha cannot set ack_ratio as a client; it is 2",
        "  aliased: server.congestion_control × server.initial_rtt = path.forward.loss × server.initial_cwnd",
        "  aliased: server.congestion_control × path.forward.loss = server.initial_rtt × server.initial_cwnd",
        "  aliased: server.congestion_control × server.initial_cwnd = server.initial_rtt × path.forward.loss",
        "without cells, since they honour too little: alpha→gamma",
    ]
    data = design_data(designs)
    assert [(each["cells"], bool(each["too_few"])) for each in data] == [(8, False), (0, True)]
    assert len(data[0]["aliases"]["interactions"]) == 3
    profiles = {"swift": {"server.congestion_control": "cubic"}}
    assert (
        "its own parameters; swift"
        in design_lines(study_designs(Request([_study(profiles=profiles)], [implementation("alpha")], [server]), {}))[0]
    )


def _plain(name: str) -> dict[str, object]:
    stack = implementation(name)
    return {key: {"server": stack.parameters[key].server} for key in ("congestion_control", "initial_rtt")}
