"""An objective that nothing could ever meet or miss is a mistake of its file, at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.analysis.objectives import mistakes
from harness.catalogue import Catalogue
from harness.errors import InputError
from harness.evaluation.verdict import judge
from harness.outcome import LinkProof, MeasuredRun, Measurement
from harness.scenario.schema import Scenario
from tests.examples import ROOT
from tests.measurements import measurement
from tests.unit.captures import SCENARIO, make_run

TEXT = """schema: 1
title: x
path:
  forward: {{rate: 50 Mbit/s, delay: 325 ms}}
  return: {{rate: 10 Mbit/s, delay: 325 ms}}
flows: [{flows}]
objectives:
  - {{metric: completion, at_most: 30 s}}
  - metric: {metric}
    {bound}
"""
REPEATED_DOWNLOAD = "{download: 10 MB, repeat_after: 10 s}"


def load(folder: Path, metric: str, bound: str, flows: str = REPEATED_DOWNLOAD) -> Scenario:
    file = folder / "x.yaml"
    text = TEXT.format(metric=metric, bound=bound, flows=flows)
    if flows != REPEATED_DOWNLOAD:
        text = text.replace("  - {metric: completion, at_most: 30 s}\n", "")
    file.write_text(text)
    return Catalogue(ROOT, mistakes=mistakes).scenario(file)


@pytest.mark.parametrize(
    ("metric", "bound", "place", "text", "hint"),
    [
        ("goodput", "at_least: 3 s", "10:15", "goodput is in Mbit/s, and '3 s' is not", "write '20 Mbit/s', say"),
        ("completion", "at_most: 3 Mbit/s", "10:14", "completion is in s, and '3 Mbit/s' is not", "write '3 s', say"),
        ("completion", "at_most: 3", "10:14", "completion is in s, and '3' is not", "write '3 s', say"),
        ("ack_ratio", "at_most: 3 s", "10:14", "ack_ratio is a plain number, and '3 s' is not", "write 0.9, say"),
        ("completoin", "at_most: 3 s", "9:13", "there is no metric 'completoin'", "did you mean 'completion'"),
        ("repeat_godput", "at_least: 3 Mbit/s", "9:13", "there is no metric 'godput'", "did you mean 'goodput'?"),
        ("milestone_2MBB", "at_most: 3 s", "9:13", "milestone_2MBB", ""),
        ("flow1_completion", "at_most: 3 s", "9:13", "there is no flow 1", "the last one is flow0"),
        ("flow0_completion", "at_most: 3 s", "9:13", "the only flow is not named", "write 'completion'"),
        ("flow0_jain_shared", "at_least: 0.9", "9:13", "jain_shared is not a flow's", "write 'jain_shared'"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_place(
    metric: str, bound: str, place: str, text: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, metric, bound)
    if hint:
        assert f"x.yaml:{place}: " in str(caught.value)
    assert text in str(caught.value)
    assert hint in caught.value.hint


def test_of_several_flows_one_must_be_named(tmp_path: Path) -> None:
    two = "{download: 10 MB}, {download: 1 MB}"
    with pytest.raises(InputError) as caught:
        load(tmp_path, "completion", "at_most: 3 s", two)
    assert "each of 2 flows has its own completion" in str(caught.value)
    assert caught.value.hint == "write 'flow0_completion'"
    assert load(tmp_path, "flow1_completion", "at_most: 3 s", two).objectives[0].metric == "flow1_completion"


@pytest.mark.parametrize(
    ("metric", "bound"),
    [
        ("goodput", "at_least: 3 Mbit/s"),
        ("repeat_completion", "at_most: 3 s"),
        ("queue_delay_p95_to_client", "at_most: 50 ms"),
        ("milestone_2MB", "at_most: 3 s"),
        ("ack_ratio", "at_least: 2"),
        ("queue_drops_to_client", "at_most: 10"),
        ("utilisation_shared", "at_least: 0.9"),
    ],
)
def test_what_can_be_judged_loads(metric: str, bound: str, tmp_path: Path) -> None:
    assert load(tmp_path, metric, bound).objectives[1].metric == metric


def test_a_stored_objective_in_another_unit_is_neither_met_nor_missed() -> None:
    """goodput ≥ 3 s was met at 34 Mbit/s."""
    scenario = Scenario.model_validate({**SCENARIO, "objectives": [{"metric": "goodput", "at_least": "3 s"}]})
    measured_run = MeasuredRun(
        version=1, measurements=(measurement("goodput", 34, "Mbit/s"),), link=LinkProof(valid=True)
    )
    verdict = judge(scenario, [(make_run(), measured_run)])
    assert (verdict.status, verdict.reason) == ("inconclusive", "unit_mismatch")
    assert verdict.sentence == "goodput ≥ 3 s is in a unit that goodput does not convert to."


NAT = "{download: 10 MB, moves: [{at: 1 s, how: nat-port, every: 50 s}]}"


@pytest.mark.parametrize(
    ("metric", "flows", "text", "hint"),
    [
        ("move1_completion", NAT, "completion is not a move's", "write 'completion'"),
        ("delivery_gap", NAT, "each move has its own delivery_gap", "write 'move1_delivery_gap'"),
        ("move4_delivery_gap", NAT, "there is no move 4", "the last one move3"),
        ("move0_delivery_gap", NAT, "there is no move 0", "the first one is move1"),
        ("move1_delivery_gap", "{download: 10 MB}", "no client moves", "give the flow moves"),
        ("move1_delivery_gap", f"{NAT}, {NAT}", "each of 2 flows has its own delivery_gap", "flow0_move1_delivery_gap"),
    ],
)
def test_an_objective_names_the_move_it_is_on(metric: str, flows: str, text: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, metric, "at_most: 50 ms", flows)
    assert text in str(caught.value) and hint in caught.value.hint


def test_an_objective_on_a_move_that_did_not_come_is_not_observed(tmp_path: Path) -> None:
    scenario = load(tmp_path, "move2_delivery_gap", "at_most: 50 ms", NAT)
    run = make_run(scenario={"flows": [{"download": "3 MB"}]})
    late = MeasuredRun(version=1, link=LinkProof(valid=True))
    verdict = judge(scenario, [(run, late)])
    assert (verdict.status, verdict.reason) == ("inconclusive", "not_observed")
    gap = Measurement(name="delivery_gap", value=20.0, unit="ms", flow=0, transfer="first", move=2)
    assert judge(scenario, [(run, late.model_copy(update={"measurements": (gap,)}))]).status == "pass"
