from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from harness.evaluation.cell_result import CellResult
from harness.outcome import DirectionProof, EngineName, Image, LinkProof, MeasuredRun, Observation
from harness.report.compare import CPU_BOUND, MetricComparison, comparison_document, comparisons, default_metrics
from harness.report.markdown import render_markdown
from tests.engine_pairs import completions, repeating, result, run
from tests.examples import cell, implementation, link, path, scenario
from tests.rendering import printed


def compare_metric(*results: CellResult, metric: str = "completion", within: float = 0.03) -> MetricComparison:
    (comparison,) = comparisons(results, [metric], within)
    return comparison


def busy(completion: float = 20, **cores: float) -> CellResult:
    """One real-time run whose containers used so many cores."""
    spent = {f"cpu_{role}": share * completion for role, share in cores.items()}
    return result("compose", run(completion=completion, figures=spent))


# --- what is compared


def test_medians_intervals_and_difference() -> None:
    comparison = compare_metric(completions("compose", 20, 22, 21), completions("virtual", 18, 18.9, 20))
    assert comparison.compose is not None and comparison.compose.interval is not None
    assert comparison.virtual is not None and comparison.virtual.interval is not None
    span = comparison.compose.interval
    assert (span.n, span.median, span.low, span.high) == (3, 21, 20, 22)
    assert comparison.virtual.interval.median == 18.9
    assert comparison.difference == pytest.approx(-0.1)
    assert (comparison.within, comparison.unit, comparison.direction) == (False, "s", "lower")


@pytest.mark.parametrize(
    ("virtual", "within", "met"),
    [
        (20.5, 0.03, True),
        (19.5, 0.03, True),
        (20.6, 0.03, True),
        (20.61, 0.03, False),
        (19.39, 0.03, False),
        (20.5, 0.02, False),
    ],
)
def test_tolerance_on_both_sides(virtual: float, within: float, met: bool) -> None:
    comparison = compare_metric(completions("compose", 20.0), completions("virtual", virtual), within=within)
    assert comparison.within is met and comparison.tolerance == within
    assert (comparison.reason == "within_tolerance") is met
    assert (comparison.explanation == "") is met


def test_a_negative_tolerance_is_refused() -> None:
    with pytest.raises(ValueError, match="below zero"):
        comparisons([], within=-0.01)


def test_metrics_of_the_first_transfer() -> None:
    assert default_metrics(scenario()) == ["milestone_2MB", "completion"]
    assert default_metrics(repeating()) == ["milestone_2MB", "completion", "repeat_completion"]
    two = scenario(flows=[{"download": "1 MB"}, {"download": "100 MB", "repeat_after": "1 s"}])
    assert default_metrics(two) == ["flow0_completion"]
    engines = completions("compose", 20, definition=repeating()), completions("virtual", 20, definition=repeating())
    assert [item.metric for item in comparisons(engines)] == default_metrics(repeating())


def test_points_are_apart_and_in_order() -> None:
    def both(seconds: float, **more: object) -> list[CellResult]:
        return [completions("virtual", seconds, **more), completions("compose", 20, **more)]

    results = [
        *both(23, seed=2),
        *both(22, parameters={"server.congestion_control": "cubic"}),
        *both(24, definition=scenario(name="test/a")),
        *both(21),
        *both(25, client=implementation("zeta")),
    ]
    compared = comparisons(results, ["completion"])
    keys = [(item.point.scenario, item.point.client, item.point.parameters, item.point.seed) for item in compared]
    cubic = (("server.congestion_control", "cubic"),)
    assert keys == [
        ("test/a", "alpha", (), 1),
        ("test/case", "alpha", cubic, 1),
        ("test/case", "alpha", (), 1),
        ("test/case", "alpha", (), 2),
        ("test/case", "zeta", (), 1),
    ]
    assert [round(item.difference or 0, 2) for item in compared] == [0.2, 0.1, 0.05, 0.15, 0.25]


def test_a_reworded_scenario_is_the_same_point() -> None:
    comparison = compare_metric(
        completions("compose", 20), completions("virtual", 20, definition=scenario(title="said otherwise"))
    )
    assert comparison.within is True and comparison.explanation == ""


def test_two_cells_of_one_engine_at_a_point_are_refused() -> None:
    with pytest.raises(ValueError, match="two cells of compose"):
        comparisons([completions("compose", 20), completions("compose", 21)])


# --- what cannot be compared


@pytest.mark.parametrize(("there", "missing"), [("compose", "virtual"), ("virtual", "compose")])
def test_one_engine_only_is_listed(there: Any, missing: str) -> None:
    comparison = compare_metric(completions(there, 20))
    assert (comparison.within, comparison.difference) == (None, None)
    assert (comparison.reason, comparison.explanation) == ("one_engine", f"no {missing} runs")
    side = comparison.compose if there == "compose" else comparison.virtual
    assert side is not None and side.interval is not None and side.interval.median == 20


def test_runs_that_crashed_do_not_count() -> None:
    crashed = result("compose", run("crashed", completion=5), run("infrastructure"))
    comparison = compare_metric(crashed, completions("virtual", 20))
    assert comparison.reason == "no_run_counts"
    assert comparison.explanation == "no compose run counts (crashed 1, infrastructure 1)"


def test_an_invalid_link_does_not_count() -> None:
    of, measured = run(completion=40)
    assert measured is not None and measured.link is not None
    broken = measured.model_copy(update={"link": measured.link.model_copy(update={"valid": False})})
    comparison = compare_metric(result("compose", (of, broken), run(completion=20)), completions("virtual", 20))
    assert comparison.difference == 0 and comparison.compose is not None
    assert (comparison.compose.counted, dict(comparison.compose.outcomes)) == (1, {"completed": 1, "infrastructure": 1})


def test_a_metric_nobody_measured() -> None:
    comparison = compare_metric(completions("compose", 20), completions("virtual", 20), metric="no_such_metric")
    assert (comparison.within, comparison.reason, comparison.unit) == (None, "not_measured", "")
    assert comparison.explanation == "not measured in any compose or virtual run"
    real = result("compose", run(completion=20, first_byte=1))
    assert (
        compare_metric(real, completions("virtual", 20), metric="first_byte").explanation
        == "not measured in any virtual run"
    )


# --- time-outs


def test_a_time_never_reached_is_infinite() -> None:
    late = run("timed_out", received=5_000_000, milestone_2MB=4.0)
    compared = comparisons([result("compose", late), result("virtual", run(completion=20, milestone_2MB=4.0))])
    by = {item.metric: item for item in compared}
    assert by["milestone_2MB"].within is True
    assert by["completion"].difference == -1 and by["completion"].within is False
    back = compare_metric(completions("compose", 20), result("virtual", late))
    assert back.difference == math.inf and back.within is False
    neither = compare_metric(result("compose", late), result("virtual", late, late))
    assert (neither.difference, neither.within, neither.unit, neither.direction) == (0, True, "s", "lower")
    assert "| never | never |" in render_markdown(comparison_document([neither]))


def test_some_runs_in_time() -> None:
    mixed = result("compose", run(completion=20), run(completion=20.2), run("timed_out", received=10))
    comparison = compare_metric(mixed, completions("virtual", 20))
    assert comparison.compose is not None and comparison.compose.interval is not None
    span = comparison.compose.interval
    assert (span.n, span.median, span.high) == (3, 20.2, math.inf)


def test_a_time_that_was_reached_but_left_out_is_unknown() -> None:
    """Milestones are left out when they are too vague; that is no reason to take them for infinite."""
    vague = run("timed_out", received=5_000_000)
    comparison = compare_metric(result("compose", vague), completions("virtual", 20), metric="milestone_2MB")
    assert comparison.reason == "not_measured"


def test_other_figures_of_a_timed_out_run_are_unknown() -> None:
    late = result("compose", run("timed_out", received=10))
    virtual = result("virtual", run(completion=20, goodput=4, handshake=1))
    assert compare_metric(late, virtual, metric="handshake").reason == "not_measured"
    # What was never complete has no goodput.
    assert compare_metric(late, virtual, metric="goodput").difference == math.inf


def test_a_repeat_that_never_began() -> None:
    late = result("compose", run("timed_out", completion=20), definition=repeating())
    virtual = result("virtual", run(completion=20, repeat_completion=19), definition=repeating())
    assert compare_metric(late, virtual, metric="completion").within is True
    assert compare_metric(late, virtual, metric="repeat_completion").difference == -1


# --- explanations


def test_cpu_is_the_median_of_shares() -> None:
    runs = [run(completion=seconds, cpu_server=spent) for seconds, spent in ((20, 10), (40, 12), (20, 19))]
    comparison = compare_metric(result("compose", *runs), completions("virtual", 20))
    assert comparison.cpu["server"].seconds == 12 and comparison.cpu["server"].share == 0.5
    assert set(comparison.cpu) == {"server"} and comparison.cores == 2


@pytest.mark.parametrize("role", ["client", "server"])
def test_cpu_bound(role: str) -> None:
    comparison = compare_metric(busy(**{role: 0.95}), completions("virtual", 15))
    assert comparison.reason == "cpu_bound"
    assert comparison.explanation.startswith(f"CPU-bound in real time: the {role} used 95 % of a core; only 1 compose")
    calm = compare_metric(busy(**{role: CPU_BOUND - 0.01}), completions("virtual", 15))
    assert calm.reason == "not_explained"
    assert compare_metric(busy(**{role: CPU_BOUND}), completions("virtual", 15)).reason == "cpu_bound"


def test_a_busy_simulator_alone_explains_nothing() -> None:
    """It makes packets late, and that is measured: such a run's link is not valid."""
    assert compare_metric(busy(sim=1.0), completions("virtual", 15)).reason == "not_explained"


def test_cores_shared_by_all() -> None:
    comparison = compare_metric(busy(client=0.4, server=0.5, sim=0.6), completions("virtual", 15))
    assert comparison.reason == "cpu_bound"
    assert "client, server, sim together used 75 % of the machine's cores (2)" in comparison.explanation
    assert compare_metric(busy(client=0.3, server=0.4, sim=0.6), completions("virtual", 15)).reason == "not_explained"
    both = compare_metric(busy(client=0.3, server=0.9, sim=0.6), completions("virtual", 15)).explanation
    assert both.startswith("CPU-bound in real time: the server used 90 % of a core and client, server, sim together")


def test_cpu_shortage_cannot_make_real_time_faster() -> None:
    assert compare_metric(busy(client=0.95), completions("virtual", 25)).reason == "not_explained"
    real = result("compose", run(completion=20, goodput=4, cpu_client=19))
    for goodput, reason in ((5, "cpu_bound"), (3, "not_explained")):
        virtual = result("virtual", run(completion=20, goodput=goodput))
        assert compare_metric(real, virtual, metric="goodput").reason == reason


def with_bucket(result: CellResult, burst: int | None) -> CellResult:
    """The same runs, whose link towards the client was proven to have such a bucket."""
    link = LinkProof(valid=True, to_client=DirectionProof(burst_bytes=burst))
    runs = tuple(
        (run, measured.model_copy(update={"link": link}) if measured else None) for run, measured in result.runs
    )
    return replace(result, runs=runs)


SMALL = scenario(path=path(forward=link("10 Mbit/s", "10 ms", queue="25 kB")))


def test_a_token_bucket_that_only_real_time_has_is_a_reason() -> None:
    """5 kB of a queue of 25 kB, with a difference either way."""
    for virtual in (15, 25):
        real, exact = completions("compose", 20, definition=SMALL), completions("virtual", virtual, definition=SMALL)
        comparison = compare_metric(with_bucket(real, 5000), exact)
        assert comparison.reason == "token_bucket"
        assert "5,000 B to client (20 % of the round trip or the queue)" in comparison.explanation
        # With a bucket in virtual time too, it is no difference; neither is one that is small beside the path.
        assert compare_metric(with_bucket(real, 5000), with_bucket(exact, 5000)).reason == "not_explained"
        assert compare_metric(with_bucket(real, 500), exact).reason == "not_explained"
        assert compare_metric(real, exact).reason == "not_explained"


def _sending(engine: EngineName, completion: float, datagrams: int, largest: float = 1350) -> CellResult:
    """A run whose server sent 10 MB in so many datagrams over IPv4."""
    wire = 10_000_000 + 42 * datagrams
    ended_run, measured = run(completion=completion, wire_to_client=wire, packets_to_client=datagrams)
    assert measured is not None
    seen = Observation(role="server", parameter="max_udp_payload", value=largest, unit="bytes", source="right capture")
    return result(engine, (ended_run, measured.model_copy(update={"observed": (seen,)})))


def test_datagrams_that_computing_would_have_saved_are_a_reason() -> None:
    """quiche's server over 20 Mbit/s: 21,000 datagrams in virtual time, 12,700 in real time."""
    comparison = compare_metric(_sending("compose", 20, 12_700), _sending("virtual", 21.4, 21_000))
    assert comparison.reason == "small_datagrams"
    assert comparison.explanation.startswith(
        "in virtual time the sender used 2.8 times the datagrams that its bytes need, and 1.7 times in real time"
    )
    # As many in real time explain nothing, nor do few, nor any within the tolerance.
    assert compare_metric(_sending("compose", 20, 21_000), _sending("virtual", 21.4, 21_000)).reason == "not_explained"
    assert compare_metric(_sending("compose", 20, 8_000), _sending("virtual", 21.4, 10_000)).reason == "not_explained"
    assert (
        compare_metric(_sending("compose", 20, 12_700), _sending("virtual", 20.1, 21_000)).reason == "within_tolerance"
    )


def test_cpu_within_tolerance_explains_nothing() -> None:
    comparison = compare_metric(busy(client=0.95), completions("virtual", 20))
    assert (comparison.reason, comparison.explanation) == ("within_tolerance", "")
    assert comparison.cpu["client"].share == pytest.approx(0.95)


def test_cpu_of_a_transfer_that_never_completed() -> None:
    """The share is of the client's life then."""
    real = result("compose", run("timed_out", received=10, seconds=50, cpu_client=45))
    comparison = compare_metric(real, completions("virtual", 20))
    assert comparison.cpu["client"].share == pytest.approx(0.9) and comparison.reason == "cpu_bound"


def test_the_repeat_has_cpu_of_its_own() -> None:
    times = {"completion": 20.0, "repeat_completion": 20.0, "cpu_client": 2.0, "repeat_cpu_client": 18.0}
    real = result("compose", run(figures=times), definition=repeating())
    virtual = result("virtual", run(completion=15, repeat_completion=15), definition=repeating())
    reasons = {item.metric: item.reason for item in comparisons([real, virtual])}
    assert (reasons["completion"], reasons["repeat_completion"]) == ("not_explained", "cpu_bound")


def test_full_socket_buffers() -> None:
    real = result("compose", run(completion=20, udp_receive_drops=560))
    comparison = compare_metric(real, completions("virtual", 15))
    assert comparison.reason == "receive_drops"
    assert comparison.explanation.startswith("full socket buffers dropped 560 datagrams in real time")
    same = result("virtual", run(completion=15, udp_receive_drops=560))
    assert compare_metric(real, same).reason == "not_explained"
    assert compare_metric(real, completions("virtual", 25)).reason == "not_explained"


def test_overlapping_intervals() -> None:
    comparison = compare_metric(completions("compose", 20, 21, 25), completions("virtual", 22, 22, 22))
    assert comparison.reason == "intervals_overlap"
    assert comparison.explanation == "the intervals overlap; only 3 compose and 3 virtual runs"
    assert compare_metric(completions("compose", 20, 21, 25), completions("virtual", 26, 26)).reason == "not_explained"
    assert (
        compare_metric(completions("compose", 20, 21, 25), completions("virtual", 25, 25)).reason == "intervals_overlap"
    )


def test_few_runs_are_a_hint_only() -> None:
    comparison = compare_metric(completions("compose", *[20] * 6), completions("virtual", 25))
    assert (comparison.reason, comparison.explanation) == ("not_explained", "not explained; only 1 virtual run")
    many = compare_metric(completions("compose", *[20] * 6), completions("virtual", *[25] * 6))
    assert many.explanation == "not explained"


def test_other_bits_are_said_even_within_tolerance() -> None:
    rebuilt = cell(engine="virtual").model_copy(update={"server_image": Image(reference="x", identity="other")})
    near = compare_metric(completions("compose", 20), completions("virtual", 20, of=rebuilt))
    assert (near.within, near.reason) == (True, "within_tolerance")
    assert near.explanation == "not the same experiment, other server image"
    far = compare_metric(completions("compose", 20), completions("virtual", 15, of=rebuilt))
    assert far.reason == "other_bits"
    slower = scenario(timeout="60 s")
    changed = compare_metric(completions("compose", 20), completions("virtual", 15, definition=slower))
    assert changed.explanation.startswith("not the same experiment, other scenario;")


def test_another_simulator_is_no_same_experiment() -> None:
    other = Image(reference="quic-lab/sim:x", identity="older")
    before = cell(engine="compose").model_copy(update={"sim_image": other})
    near = compare_metric(completions("compose", 20, of=before), completions("virtual", 20))
    assert (near.reason, near.explanation) == ("within_tolerance", "not the same experiment, other simulator")
    far = compare_metric(completions("compose", 20, of=before), completions("virtual", 15))
    assert far.reason == "other_bits"
    assert far.compose is not None and far.compose.simulator == "older"
    assert "other simulator" in render_markdown(comparison_document([near]))


def _measured_by(version: int, engine: EngineName, *seconds: float) -> CellResult:
    runs = [run(completion=value) for value in seconds]
    pairs = [
        (ended_run, measured.model_copy(update={"version": version}) if measured else None)
        for ended_run, measured in runs
    ]
    return result(engine, *pairs)


def test_figures_of_other_measuring_code_are_said() -> None:
    comparison = compare_metric(_measured_by(3, "compose", 20), _measured_by(4, "virtual", 15))
    assert comparison.reason == "other_measuring"
    assert comparison.explanation.startswith("not measured by the same code, versions 3 (compose) and 4 (virtual)")
    [entry] = comparison_document([comparison]).data["comparisons"]
    assert (entry["compose"]["measured_by"], entry["virtual"]["measured_by"]) == ([3], [4])
    # Within one engine, too; and where the medians agree it is said all the same.
    mixed = result("compose", *(pair for version in (3, 4) for pair in _measured_by(version, "compose", 20).runs))
    assert compare_metric(mixed, _measured_by(4, "virtual", 20)).explanation == (
        "not measured by the same code, versions 3, 4 (compose) and 4 (virtual)"
    )
    assert compare_metric(_measured_by(4, "compose", 20), _measured_by(4, "virtual", 20)).explanation == ""


# --- output


def _all() -> list[CellResult]:
    late = result("compose", run("timed_out", received=10), client=implementation("late"))
    return [
        busy(client=0.95, server=0.2, sim=0.5),
        completions("virtual", 15),
        late,
        completions("virtual", 20, client=implementation("late")),
        completions("compose", 20, client=implementation("lonely")),
    ]


def test_json_is_numbers_and_strict() -> None:
    content = json.loads(
        json.dumps(dict(comparison_document(comparisons(_all(), ["completion"])).data), allow_nan=False)
    )
    assert (content["schema"], content["within"], content["outside"], content["not_comparable"]) == (1, 0, 2, 1)
    first, late, lonely = content["comparisons"]
    assert first["difference"] == -0.25 and first["compose"]["median"] == 20 and first["virtual"]["n"] == 1
    assert first["cpu"]["client"] == {"seconds": 19.0, "share": 0.95} and first["cores"] == 2
    assert (first["within"], first["reason"], first["tolerance"]) == (False, "cpu_bound", 0.03)
    assert late["compose"]["median"] is None and late["compose"]["n"] == 1 and late["difference"] == -1
    assert lonely["virtual"] is None and lonely["within"] is None and lonely["explanation"] == "no virtual runs"


def test_nothing_is_dropped_from_the_texts() -> None:
    compared = comparisons(_all(), ["completion"])
    document = comparison_document(compared)
    for text in (printed(document, 180), render_markdown(document)):
        assert "not comparable: lonely → beta: no virtual runs: completion" in text
        assert "0 within ±3 %, 2 outside, 1 not comparable" in text
        assert "CPU-bound in real time: the client used 95 % of a core" in text
        assert "-25.0 %" in text and "never" in text and "0.95/0.20/0.50" in text


def test_nothing_stored() -> None:
    document = comparison_document([])
    assert printed(document) == render_markdown(document) == "No stored runs match.\n"
    assert document.data["comparisons"] == []


def test_unmeasured_runs_do_not_count() -> None:
    nobody: MeasuredRun | None = None
    comparison = compare_metric(result("compose", (run()[0], nobody)), completions("virtual", 20))
    assert comparison.reason == "no_run_counts" and comparison.explanation == "no compose run counts (infrastructure 1)"
