from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evaluation.verdict import judge
from harness.outcome import LinkProof, MeasuredRun, Outcome, Run
from harness.scenario.schema import Scenario
from tests.measurements import measurement
from tests.unit.captures import SCENARIO, make_run

Observation = tuple[Run, MeasuredRun | None]


def scenario(*objectives: dict[str, Any]) -> Scenario:
    return Scenario.model_validate({**SCENARIO, "objectives": list(objectives)})


def measured(valid: bool = True, unit: str = "s", **values: float) -> MeasuredRun:
    problems = () if valid else ("to_client: 9.700 Mbit/s in 2.5 s of busy queue, asked 10.000 Mbit/s",)
    return MeasuredRun(
        version=1,
        measurements=tuple(measurement(name, value, unit) for name, value in values.items()),
        link=LinkProof(valid=valid, problems=problems),
    )


def completed(*values: float) -> list[Observation]:
    return [(make_run(), measured(completion=value)) for value in values]


def ended(status: str, role: str | None = None, measured_run: MeasuredRun | None = None, **fields: str) -> Observation:
    outcome = Outcome(status=status, role=role, **fields)
    return make_run(outcome=outcome), measured_run


THREE = scenario({"metric": "completion", "at_most": "3 s"})


def test_pass() -> None:
    verdict = judge(THREE, completed(2.0, 2.5, 2.8), ["a", "b", "c"])
    assert (verdict.status, verdict.reason) == ("pass", "objectives_met")
    assert verdict.sentence == "All 1 met; completion: median 2.5 s [2, 2.8], n = 3, demanded ≤ 3 s."
    assert verdict.evidence == ("a", "b", "c")
    assert verdict.objectives[0].verdict == "pass" and verdict.objectives[0].bound == 3


def test_fail_names_the_worst_miss() -> None:
    demands = scenario({"metric": "completion", "at_most": "3 s"}, {"metric": "milestone_2MB", "at_most": "1 s"})
    runs: list[Observation] = [(make_run(), measured(completion=4.0, milestone_2MB=v)) for v in (1.9, 2.0)]
    verdict = judge(demands, runs)
    assert (verdict.status, verdict.reason) == ("fail", "milestone_2MB_missed")
    assert verdict.sentence == "milestone_2MB: median 1.95 s [1.9, 2], n = 2, demanded ≤ 1 s: 95% over."


def test_straddling() -> None:
    verdict = judge(THREE, completed(2.9, 3.1))
    assert (verdict.status, verdict.reason) == ("inconclusive", "interval_straddles")
    assert verdict.sentence.endswith("; more repetitions can tell.")


def test_one_run_is_enough_to_say_so() -> None:
    assert judge(THREE, completed(2.9)).sentence == "All 1 met; completion: 2.9 s, n = 1 (no interval), demanded ≤ 3 s."
    assert judge(THREE, completed(3.3)).sentence == "completion: 3.3 s, n = 1 (no interval), demanded ≤ 3 s: 10% over."
    assert judge(THREE, completed(3.009)).sentence.endswith("demanded ≤ 3 s: 0.3% over.")


def test_at_least() -> None:
    demands = scenario({"metric": "goodput", "at_least": "20 Mbit/s"})

    def runs(*values: float) -> list[Observation]:
        return [(make_run(), measured(unit="Mbit/s", goodput=value)) for value in values]

    assert judge(demands, runs(21, 22)).status == "pass"
    failed = judge(demands, runs(15))
    assert failed.reason == "goodput_missed" and failed.sentence.endswith("demanded ≥ 20 Mbit/s: 25% under.")


def test_units_are_converted() -> None:
    demands = scenario({"metric": "queue_delay_p95_to_client", "at_most": "50 ms"})
    assert judge(demands, [(make_run(), measured(unit="ms", queue_delay_p95_to_client=40))]).status == "pass"
    assert judge(demands, [(make_run(), measured(unit="ms", queue_delay_p95_to_client=60))]).status == "fail"


def test_time_outs_miss_objectives() -> None:
    late = ended("timed_out", "client", measured(milestone_1MB=1.0))
    verdict = judge(THREE, [late, late])
    assert (verdict.status, verdict.reason) == ("fail", "timed_out")
    assert verdict.sentence == "The transfer did not finish within 120 s in 2 of 2 runs, so completion ≤ 3 s is missed."
    assert verdict.objectives[0].observed is not None and math.isinf(verdict.objectives[0].observed.low)
    early = scenario({"metric": "milestone_1MB", "at_most": "2 s"})
    ended_well = (make_run(), measured(milestone_1MB=1.0))
    # The objective was met before the time ran out, but not all that was to be transferred arrived.
    verdict = judge(early, [late])
    assert (verdict.status, verdict.reason, verdict.objectives[0].verdict) == ("fail", "timed_out", "pass")
    verdict = judge(early, [ended_well, late])
    assert (verdict.status, verdict.reason) == ("pass", "objectives_met")
    assert verdict.sentence.endswith("; timed out 1 of 2.")
    assert judge(THREE, [*completed(2.0), late]).reason == "interval_straddles"
    assert judge(scenario({"metric": "goodput", "at_least": "1 Mbit/s"}), [late]).reason == "timed_out"


def test_without_objectives() -> None:
    verdict = judge(scenario(), completed(2.0))
    assert (verdict.status, verdict.reason) == ("measured", "no_objectives")
    late = ended("timed_out", "client", measured())
    assert judge(scenario(), [late]).status == "fail"
    assert judge(scenario(), [*completed(2.0), late]).reason == "no_objectives"


@pytest.mark.parametrize(
    ("runs", "status", "reason"),
    [
        ([], "error", "no_runs"),
        ([ended("unsupported", "client", detail="x has no client")], "unsupported", "unsupported_client"),
        ([ended("crashed", "server")], "error", "crashed_server"),
        ([ended("wrong_file", "client")], "error", "wrong_file_client"),
        ([ended("log_overflow")], "error", "log_overflow"),
        ([ended("infrastructure", "sim")], "error", "infrastructure"),
        ([ended("infrastructure", "sim"), ended("crashed", "client")], "error", "crashed_client"),
        ([ended("crashed", "client"), ended("unsupported", "server")], "unsupported", "unsupported_server"),
        ([ended("completed", None, measured(valid=False, completion=1.0))], "error", "link_invalid"),
        ([ended("timed_out", None, measured(valid=False))], "error", "link_invalid"),
        ([ended("completed")], "error", "not_measured"),
        ([ended("completed", None, MeasuredRun(version=1))], "error", "not_measured"),
    ],
)
def test_nothing_to_judge(runs: list[Observation], status: str, reason: str) -> None:
    verdict = judge(THREE, runs, [str(i) for i in range(len(runs))])
    assert (verdict.status, verdict.reason) == (status, reason)
    assert len(verdict.evidence) == len(runs)


def test_sentences_of_failures_have_the_figure() -> None:
    invalid = ended("completed", None, measured(valid=False))
    sentence = judge(THREE, [invalid]).sentence
    assert (
        sentence == "Link invalid in 1 of 1 runs: to_client: 9.700 Mbit/s in 2.5 s of busy queue, asked 10.000 Mbit/s."
    )
    crash = ended("crashed", "server", detail="The server ended with exit code 139.")
    assert judge(THREE, [crash]).sentence == "Crashed (server) in 1 of 1 runs: The server ended with exit code 139."


def test_a_crash_keeps_a_cell_from_passing() -> None:
    verdict = judge(THREE, [*completed(2.0, 2.1, 2.2), ended("crashed", "server", detail="exit 1")], list("abcd"))
    assert (verdict.status, verdict.reason) == ("inconclusive", "crashed_server")
    assert verdict.sentence == "Crashed (server) in 1 of 4 runs: exit 1."
    assert verdict.evidence == ("a", "b", "c") and verdict.objectives[0].verdict == "pass"
    assert judge(THREE, [*completed(4.0), ended("crashed", "server")]).reason == "completion_missed"


def test_failures_of_the_ground_do_not_count() -> None:
    invalid = ended("completed", None, measured(valid=False, completion=9.0))
    verdict = judge(THREE, [*completed(2.0, 2.1), ended("infrastructure", "sim"), invalid])
    assert verdict.status == "pass" and verdict.objectives[0].observed is not None
    assert verdict.objectives[0].observed.n == 2
    assert "not counted: infrastructure 1 of 4; not counted: link_invalid 1 of 4" in verdict.sentence


def test_a_metric_nobody_measured() -> None:
    demands = scenario({"metric": "milestone_2MB", "at_most": "3 s"})
    verdict = judge(demands, completed(2.0))
    assert (verdict.status, verdict.reason) == ("inconclusive", "not_observed")


def test_paths_must_fit() -> None:
    with pytest.raises(ValueError, match="2 paths for 1 runs"):
        judge(THREE, completed(1.0), ["a", "b"])


ORDER = {"fail": 0, "inconclusive": 1, "pass": 2}
TIMES = st.lists(st.floats(0.5, 6) | st.just(math.inf), min_size=1, max_size=12)


def observed(times: Sequence[float]) -> list[Observation]:
    return [ended("timed_out", "client", measured()) if math.isinf(t) else completed(t)[0] for t in times]


@given(TIMES, st.data())
def test_a_faster_run_never_makes_a_worse_verdict(times: list[float], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(times) - 1))
    faster = [*times]
    faster[index] = data.draw(st.floats(0.1, min(times[index], 6)))
    assert ORDER[judge(THREE, observed(faster)).status] >= ORDER[judge(THREE, observed(times)).status]


@given(TIMES, st.floats(1, 5), st.floats(0, 3))
def test_a_softer_demand_never_makes_a_worse_verdict(times: list[float], bound: float, more: float) -> None:
    hard, soft = (scenario({"metric": "completion", "at_most": value}) for value in (bound, bound + more))
    assert ORDER[judge(soft, observed(times)).status] >= ORDER[judge(hard, observed(times)).status]


@given(TIMES, st.randoms())
def test_order_does_not_matter(times: list[float], rng: Any) -> None:
    runs = observed(times)
    before = judge(THREE, runs)
    rng.shuffle(runs)
    assert judge(THREE, runs) == before


@given(TIMES)
def test_verdict_and_objective_agree(times: list[float]) -> None:
    verdict = judge(THREE, observed(times))
    assert verdict.status == verdict.objectives[0].verdict
    assert verdict.sentence.endswith(".") and "\n" not in verdict.sentence
