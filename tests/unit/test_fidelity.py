"""Predictions of the links, held against published figures and against plain simulations of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.netem import compile_path
from harness.scenario.schema import GilbertElliott, Link
from harness.units import Duration, Percentage
from tests.examples import link, path
from tools.bench.fidelity import (
    IdleDecay,
    Prediction,
    RedParameters,
    ceiling_ns,
    gap_change,
    gilbert_elliott,
    loss_runs,
    netem_losses,
    red,
    red_parameters,
    run_length_probabilities,
    tail_drop,
)
from tools.bench.gauge import Stream, Train, Trial, constant_rate, memory_mib, plan_document, read_passages

RATE, FRAME, LIMIT, BURST = 10_000_000, 1250, 50_000, 1600
SLOW = RedParameters(LIMIT, 15_000, 40_000, 9, 0.1)


def model(**chances: str) -> GilbertElliott:
    return GilbertElliott.model_validate({"good_to_bad": "1 %", "bad_to_good": "20 %", **chances})


# --- bottleneck


def test_overload_of_the_reference_link_gives_the_published_delays_and_rate() -> None:
    stream = constant_rate(1.25 * RATE, 3, FRAME)
    departures = tail_drop(stream.departures_ns, stream.frame_bytes, RATE, BURST, LIMIT)
    delays = (departures - stream.departures_ns + 40e6) / 1e6
    assert np.nanmedian(delays) == pytest.approx(79.52)
    assert np.nanmax(delays) == pytest.approx(79.92)
    left = departures[~np.isnan(departures)]
    assert 8e3 * FRAME * (left.size - 1) / (left[-1] - left[0]) == pytest.approx(10.0009, abs=5e-5)
    assert np.nanmax(delays) * 1e6 <= ceiling_ns(RATE, LIMIT, 40_000_000)


def test_an_idle_link_passes_what_the_bucket_holds_at_once_and_the_rest_at_its_rate() -> None:
    together = np.zeros(5)
    sizes = np.full(5, FRAME)
    assert tail_drop(together, sizes, RATE, 3 * FRAME, LIMIT).tolist() == [0, 0, 0, 1e6, 2e6]
    # The first to wait is in the queue until its tokens are there: two fit, and the next does not.
    dropped = np.isnan(tail_drop(together, sizes, RATE, 3 * FRAME, FRAME))
    assert dropped.tolist() == [False, False, False, False, True]


def test_the_bucket_holds_no_more_than_its_burst_after_a_rest() -> None:
    times = np.array([0, 10_000_000_000, 10_000_000_000, 10_000_000_000])
    left = tail_drop(times, np.full(4, FRAME), RATE, 2 * FRAME, LIMIT)
    assert (left - times).tolist() == [0, 0, 0, 1e6]


# --- RED


def test_red_never_drops_below_its_minimum_and_always_above_its_maximum() -> None:
    stream = constant_rate(0.99 * RATE, 2, FRAME)
    counts = red(stream.departures_ns, stream.frame_bytes, RATE, BURST, SLOW, 5)
    assert not counts.early.any()
    assert not counts.full.any()
    # A weight of one half follows the queue: from 40 kB on everything is refused, so that it never fills.
    sharp = RedParameters(LIMIT, 39_000, 40_000, 1, 0.999)
    stream = constant_rate(5 * RATE, 1, FRAME)
    counts = red(stream.departures_ns, stream.frame_bytes, RATE, BURST, sharp, 5)
    assert not counts.full.any()
    assert (counts.early > 3900).all()


def test_the_gaps_between_reds_drops_are_uniform_up_to_the_inverse_of_its_probability() -> None:
    """Floyd's method 2, with an average that is held half-way: gaps uniform over 1 … 20, so 10.5 in the mean."""
    held = RedParameters(limit_bytes=15_000, min_bytes=10_000, max_bytes=20_000, log_weight=1, probability=0.1)
    # What waits for two minutes fills the queue, so that nothing else gets in.
    sizes = np.concatenate([[15_000], np.full(4000, 100)])
    counts = red(np.arange(4001), sizes, 1000, 100, held, 100)
    assert (counts.early + counts.full == 4000).all()
    # Of renewals at gaps with mean 10.5 and variance (20² - 1)/12 (W. Feller, vol. 2, XI.4).
    sd = np.sqrt(4000 * 33.25 / 10.5**3)
    assert counts.early.mean() == pytest.approx(4000 / 10.5, abs=3 * sd / 10 + 1)
    assert counts.early.std(ddof=1) == pytest.approx(sd, rel=0.25)


def plain_red(
    times: list[int], burst: int | None, parameters: RedParameters, generator: np.random.Generator
) -> tuple[int, int]:
    """RED of equal frames below tbf, or a serial server, written down once more, without arrays: (early, full)."""
    cost, buffer = 8e9 * FRAME / RATE, 8e9 * (burst or 0) / RATE
    waiting: list[float] = []
    tokens, last = buffer, float(times[0])
    average, count, threshold, early, full = 0.0, -1, 0.0, 0, 0
    for now in times:
        waiting = [departure for departure in waiting if departure > now]
        average += (FRAME * len(waiting) - average) / 2**parameters.log_weight
        width = parameters.max_bytes - parameters.min_bytes
        if average < parameters.min_bytes:
            count, drop = -1, False
        elif average >= parameters.max_bytes:
            count, drop = -1, True
        else:
            count += 1
            drop = count > 0 and (average - parameters.min_bytes) * count >= threshold
            if drop or count == 0:
                count, threshold = 0, generator.uniform(0, width / parameters.probability)
        if drop:
            early += 1
        elif FRAME * (len(waiting) + 1) > parameters.limit_bytes:
            full += 1
        elif burst is None:
            # The packet in service is no longer in the queue.
            waiting.append(max(now, last))
            last = waiting[-1] + cost
        else:
            leaves = max(now, last, last + cost - tokens)
            tokens = min(buffer, tokens + leaves - last) - cost
            last = leaves
            waiting.append(leaves)
    return early, full


@pytest.mark.parametrize("burst", [BURST, None])
def test_reds_counts_agree_with_a_plain_simulation_in_real_numbers(burst: int | None) -> None:
    stream = Stream((Train(600, 800_000, FRAME), Train(600, 800_000, FRAME, start_ns=3_000_000_000)))
    runs = 60
    counts = red(stream.departures_ns, stream.frame_bytes, RATE, burst, SLOW, 400)
    generator = np.random.default_rng(1)
    plain = np.array([plain_red(stream.departures_ns.tolist(), burst, SLOW, generator) for _ in range(runs)])
    for simulated, expected in ((plain[:, 0], counts.early), (plain[:, 1], counts.full)):
        error = expected.std() * np.sqrt(1 / runs + 1 / 400)
        assert abs(simulated.mean() - expected.mean()) < 3 * error


def test_reds_average_does_not_decay_while_the_link_is_idle() -> None:
    busy = Train(1000, 800_000, FRAME)

    def early(rest_ns: int) -> float:
        stream = Stream((busy, Train(300, 800_000, FRAME, start_ns=1_000_000_000 + rest_ns)))
        return float(red(stream.departures_ns, stream.frame_bytes, RATE, BURST, SLOW, 200).early.mean())

    once = float(red(*_arrivals(busy), RATE, BURST, SLOW, 200).early.mean())
    fresh = float(red(*_arrivals(Train(300, 800_000, FRAME)), RATE, BURST, SLOW, 200).early.mean())
    # As many after an hour as after a second, and far more than a new queue would drop.
    assert early(3_600_000_000_000) == pytest.approx(early(1_000_000_000), rel=0.02)
    assert early(1_000_000_000) - once > fresh + 20


def _arrivals(train: Train) -> tuple[np.ndarray, np.ndarray]:
    stream = Stream((train,))
    return stream.departures_ns, stream.frame_bytes


def test_another_probability_or_weight_would_be_seen() -> None:
    stream = Stream((Train(1000, 800_000, FRAME), Train(1000, 800_000, FRAME, start_ns=3_000_000_000)))

    def counts(parameters: RedParameters) -> np.ndarray:
        return red(stream.departures_ns, stream.frame_bytes, RATE, BURST, parameters, 100).early

    expected = counts(SLOW)
    for other_parameters in (
        RedParameters(LIMIT, 15_000, 40_000, 9, 0.05),
        RedParameters(LIMIT, 15_000, 40_000, 8, 0.1),
        RedParameters(LIMIT, 12_000, 40_000, 9, 0.1),
    ):
        assert abs(counts(other_parameters).mean() - expected.mean()) > 3 * expected.std() / np.sqrt(20)


def test_red_parameters_are_those_tc_would_set() -> None:
    queue = {
        "discipline": "red", "limit": "50 kB", "min": "15 kB", "max": "40 kB", "probability": "10 %", "burst": 85,
        "average_packet": "1280 B",
    }  # fmt: skip
    parameters = red_parameters(link("10 Mbit/s", "40 ms", queue=queue), Duration.parse("80 ms"))
    assert replace(parameters, decay=None) == RedParameters(50_000, 15_000, 40_000, 9, 0.1)
    # A packet takes 16,000 ticks: 31 halvings of a weight of 2^-9 are 31 · 16,000 · 511.5 ticks, in 484 cells of 2^19.
    assert parameters.decay is not None
    assert (parameters.decay.cell_log, parameters.decay.shifts[:2], parameters.decay.shifts[-1]) == (19, (0, 1), 31)


def test_an_average_decays_by_its_table_and_within_a_cell_in_a_line() -> None:
    decay = IdleDecay(10, (0, *range(1, 256)))
    average = np.array([1000, 1000, 1000, 1000])
    # Not at all, a quarter of a cell, two cells, and more than the table has.
    decayed = decay.decayed(average, np.array([0.0, 256_000.0, 2_500_000.0, 1e12]))
    assert decayed.tolist() == [1000, 750, 250, 0]
    with pytest.raises(ValueError, match="not RED"):
        red_parameters(Link.model_validate({"rate": "1 Mbit/s", "delay": "1 ms"}), Duration.parse("2 ms"))


# --- loss


def test_netems_generator_gives_its_first_number() -> None:
    """By hand for seed 0, whose registers are 2, 8, 16 and 128: each is shifted once."""
    first = (2 << 18) ^ (8 << 2) ^ (16 << 7) ^ (128 << 13)
    # 2 << 6, 8 << 2 and 16 << 13 fall off at the right, at bits 13, 27 and 21; 128 << 3 does not reach bit 12.
    assert _fate(first) == [True]
    assert _fate(first - 16) == [False]


def test_netems_generator_goes_on_as_its_registers_do() -> None:
    """The same four registers by their table: shift in, shift out, unused bits, step (L'Ecuyer 1999, table 1)."""
    state, expected = [1_234_567 ^ 1_234_567 << 10 & 0xFFFFFFFF] * 4, []
    for _ in range(200):
        for index, (into, out, unused, step) in enumerate(
            ((6, 13, 1, 18), (2, 27, 3, 2), (13, 21, 4, 7), (3, 12, 7, 13))
        ):
            feedback = (state[index] << into & 0xFFFFFFFF ^ state[index]) >> out
            state[index] = (state[index] >> unused << unused) << step & 0xFFFFFFFF ^ feedback
        expected.append(state[0] ^ state[1] ^ state[2] ^ state[3])
    half = Percentage.parse("50 %")
    assert netem_losses(half, 1_234_567, 200).tolist() == [number <= 0.5 * 0xFFFFFFFF for number in expected]


def _fate(number: int) -> list[bool]:
    """Whether the first packet is lost when the loss is as likely as a 32-bit number, to a part in 10^9."""
    fates: list[bool] = netem_losses(Percentage(round(number / ((1 << 32) - 1) * 1e9) + 1), 0, 1).tolist()
    return fates


def test_plain_loss_is_independent_with_its_share() -> None:
    lost = netem_losses(Percentage.parse("2 %"), 12_345_678, 50_000)
    assert abs(lost.mean() - 0.02) < 3 * np.sqrt(0.02 * 0.98 / lost.size)
    assert loss_runs(lost).mean() == pytest.approx(1 / 0.98, abs=0.02)
    assert not netem_losses(Percentage(0), 1, 100).any()


@pytest.mark.parametrize(
    "loss", [model(), model(loss_in_bad="60 %", loss_in_good="0.5 %"), model(good_to_bad="30 %", bad_to_good="40 %")]
)
def test_a_loss_models_share_and_runs_follow_from_its_chain(loss: GilbertElliott) -> None:
    packets = 100_000
    expected = gilbert_elliott(loss, packets)
    assert expected.share.mean == pytest.approx(loss.mean)
    lost = netem_losses(loss, 1_234_567, packets)
    assert expected.share.deviation(float(lost.mean())) < 3
    runs = loss_runs(lost)
    assert expected.run.deviation(float(runs.mean())) < 3
    chances = run_length_probabilities(loss, 500)
    assert chances.sum() == pytest.approx(1, abs=1e-6)
    lengths = np.arange(1, 501)
    assert (chances * lengths).sum() == pytest.approx(expected.run.mean, rel=1e-6)
    shares = np.bincount(runs, minlength=4)[1:4] / runs.size
    assert shares == pytest.approx(chances[:3], abs=4 / np.sqrt(4 * runs.size))


def test_the_spread_of_the_share_is_that_of_many_patterns() -> None:
    expected = gilbert_elliott(model(), 1000).share
    shares = [netem_losses(model(), seed * 7_777_777, 1000).mean() for seed in range(1, 201)]
    assert np.std(shares, ddof=1) == pytest.approx(expected.sd, rel=0.15)


def test_gilberts_own_model_has_geometric_runs() -> None:
    assert gilbert_elliott(model(), 1000).run.mean == pytest.approx(5)
    assert run_length_probabilities(model(), 3) == pytest.approx([0.2, 0.16, 0.128])
    with pytest.raises(ValueError, match="never leaves"):
        gilbert_elliott(model(good_to_bad="0 %"), 10)


def test_runs_of_losses() -> None:
    assert loss_runs(np.array([1, 0, 1, 1, 0, 0, 1, 1, 1], dtype=bool)).tolist() == [1, 2, 3]
    assert loss_runs(np.zeros(3, dtype=bool)).tolist() == []


# --- statistics


def test_deviation_is_in_standard_deviations() -> None:
    assert Prediction(10, 2).deviation(7) == 1.5
    assert Prediction(10, 0).deviation(10) == 0
    assert Prediction(10, 0).deviation(10.1) == np.inf


def test_a_change_is_bracketed_by_the_gap_that_is_another() -> None:
    times = np.array([0, 1, 2, 3, 5, 7], dtype=float)
    assert gap_change(times, 1) == (3, 5)
    with pytest.raises(ValueError, match="all gaps"):
        gap_change(times[:4], 1)


# --- the gauge's own files


def test_the_gauges_plan_has_the_streams_and_its_results_are_read_back(tmp_path) -> None:  # type: ignore[no-untyped-def]
    program = compile_path(path(changes=[{"at": "5 s", "forward": {"rate": "20 Mbit/s"}}]), "bucket")
    trial = Trial(program, Stream((Train(2, 1000, 100), Train(1, 0, 200, start_ns=5000)), "to_server"))
    plan = plan_document([trial])["trials"][0]
    assert plan["sender"] == "client0"
    assert [train["count"] for train in plan["trains"]] == [2, 1]
    assert plan["changes"][0]["at_ns"] == 5_000_000_000
    assert trial.stream.departures_ns.tolist() == [0, 1000, 5000]
    assert trial.stream.frame_bytes.tolist() == [100, 100, 200]
    assert memory_mib([trial]) < 200
    (tmp_path / "passages.json").write_text(
        '{"trials": [{"qdiscs": [{"dev": "left", "kind": "netem"}], "changed_ns": [5000100000], "repeated": 0, '
        '"zero_ns": 7}]}'
    )
    (tmp_path / "passage-0.csv").write_text("sequence,sent_ns,received_ns\n0,0,100\n1,1000,-1\n2,5000,5200\n")
    (passage,) = read_passages(tmp_path, [trial])
    assert passage.lost.tolist() == [False, True, False]
    assert passage.delay_ns[[0, 2]].tolist() == [100, 200]
    assert passage.rate_bps == pytest.approx(8e9 * 200 / 5100)
    assert passage.qdisc("left", "netem") == {"dev": "left", "kind": "netem"}
    with pytest.raises(LookupError, match="no red"):
        passage.qdisc("left", "red")
    (tmp_path / "passage-0.csv").write_text("sequence,sent_ns,received_ns\n0,0,100\n1,-1,-1\n2,5000,5200\n")
    with pytest.raises(ValueError, match="did not leave"):
        read_passages(tmp_path, [trial])


def test_streams_must_be_in_order() -> None:
    with pytest.raises(ValueError, match="starts before"):
        Stream((Train(10, 1000), Train(1, 0, start_ns=500)))
    with pytest.raises(ValueError, match="at least"):
        Train(1, 0, 10)
