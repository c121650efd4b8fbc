"""Traces: the formats, what is refused, the file for the kernel, and the model that the link proof replays."""

from __future__ import annotations

import base64
import io
import itertools
import math
import random
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import InputError, UnfitError
from harness.netem import compile_path, series_content, timeline
from harness.netem.series import DeliveryCourse, RateCourse, SeriesContent, transit_at
from harness.planning.sampling import has_random_path
from harness.report.explanation import scenario_text
from harness.scenario.loader import load
from harness.scenario.schema import Link, Scenario, Trace
from harness.scenario.schema import trace as trace_module
from harness.scenario.schema.trace import parse_trace
from tests.examples import ROOT, catalogue, link, path
from tools.traces import TRACES

MS = 1_000_000
SERIES = "t_ms,rate_mbps,delay_ms,loss_percent\n0,10,20,0\n10,20,30,0\n20,0,30,50\n30,5,20,0\n"


def loaded(folder: Path, forward: str, **files: str) -> Scenario:
    """A scenario in a folder with trace files (`_` in a name stands for a dot), and a link towards the terminal."""
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    (folder / "s.yaml").write_text(
        "schema: 1\ntitle: s\npath:\n"
        f"  forward: {forward}\n"
        "  return: {rate: 10 Mbit/s, delay: 20 ms}\n"
        "flows: [{download: 1 MB}]\n"
    )
    return load(folder / "s.yaml", Scenario, {"name": "s"})


# --- formats


def test_a_packet_delivery_trace_is_as_long_as_its_last_line_says() -> None:
    content = parse_trace(b"0\n2\n2\n5\n", "a.trace")
    assert content.times_ns.tolist() == [0, 2 * MS, 2 * MS, 5 * MS]
    assert content.period_ns == 5 * MS
    # Four frames of 1514 B in 5 ms.
    assert content.mean("rate") == pytest.approx(4 * 1514 * 8 / 0.005)


@pytest.mark.parametrize(
    "text",
    [
        SERIES,
        "t,rate,delay,loss\n0,1e7,0.02,0\n0.01,2e7,0.03,0\n0.02,0,0.03,0.5\n0.03,5e6,0.02,0\n",
        "t_us,rate_kbps,delay_us,loss\n100,10000,20000,0\n10100,20000,30000,0\n20100,0,30000,0.5\n30100,5000,20000,0\n",
    ],
)
def test_a_time_series_says_its_units_in_its_header(text: str) -> None:
    content = parse_trace(text.encode(), "a.csv")
    assert content.times_ns.tolist() == [0, 10 * MS, 20 * MS, 30 * MS]
    assert content.period_ns == 40 * MS
    assert content.values["rate"].tolist() == [10e6, 20e6, 0, 5e6]
    assert content.values["delay"].tolist() == pytest.approx([20 * MS, 30 * MS, 30 * MS, 20 * MS])
    assert content.values["loss"].tolist() == [0, 0, 0.5, 0]
    assert content.mean("rate") == pytest.approx(8.75e6)


def test_a_parquet_file_is_read_as_a_csv_file_is() -> None:
    file = io.BytesIO()
    pl.read_csv(SERIES.encode()).write_parquet(file)
    content, other = parse_trace(file.getvalue(), "a.parquet"), parse_trace(SERIES.encode(), "a.csv")
    assert content.times_ns.tolist() == other.times_ns.tolist()
    assert {name: values.tolist() for name, values in content.values.items()} == {
        name: values.tolist() for name, values in other.values.items()
    }


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.trace", "", "is empty"),
        ("a.trace", "3\n2\n", "a.trace:2: time goes back, from 3 to 2"),
        ("a.trace", "1\n2.5\n", "a.trace:2: '2.5' is no whole number of milliseconds"),
        ("a.trace", "0\n0\n", "its last opportunity is at 0 ms"),
        ("a.trace", "5000000\n", "takes 5000 s"),
        ("a.csv", "t_ms,rate_mbps\n", "fewer than two rows"),
        ("a.csv", "t_ms,rate_mbps\n0,1\n5,1\n4,1\n", "a.csv:4: time goes back"),
        ("a.csv", "t,rate_mbps\n0,1\n0.0005,1\n", "a step of 0.5 ms"),
        ("a.csv", "t,rate_mbps\n0,1\n1000,1\n9000,1\n", "takes 17000 s"),
        ("a.csv", "t_ms,speed\n0,1\n5,1\n", "it has a column 'speed'"),
        ("a.csv", "t_ms\n0\n5\n", "needs a column of times, and one of"),
        ("a.csv", "t_ms,rate,rate_mbps\n0,1,1\n5,1,1\n", "two columns of rate"),
        ("a.csv", "t_ms,rate_mbps\n0,1\n5,-1\n", "a.csv:3: its rate is no number from 0 on"),
        ("a.csv", "t_ms,rate_mbps\n0,1\n5,fast\n", "could not convert"),
        ("a.parquet", "PAR1", "is no Parquet file"),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(name: str, text: str, complaint: str) -> None:
    with pytest.raises(UnfitError) as refusal:
        parse_trace(text.encode(), name)
    assert complaint in str(refusal.value)
    assert refusal.value.hint or "needs a column" in complaint


# --- in a scenario


def test_a_link_that_follows_a_trace_has_its_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "{trace: a.csv}"
    scenario = loaded(tmp_path, f"{{rate: {name}, delay: {name}, loss: {name}}}", a_csv=SERIES)
    forward = scenario.path.forward
    assert forward.rate.value == 8_750_000
    assert forward.delay.value == 25 * MS
    assert forward.mean_loss == pytest.approx(0.125)
    assert forward.traced is not None
    assert len(forward.traced.all) == 3
    assert has_random_path(scenario)
    # What was read once, and stored, is the same without the file.
    (tmp_path / "a.csv").unlink()
    assert Scenario.model_validate(scenario.model_dump(by_alias=True)) == scenario
    again = Scenario.model_validate_json(scenario.model_dump_json(by_alias=True))
    assert again == scenario
    monkeypatch.setattr(trace_module, "_READ", {})
    assert again.path.forward.traced is not None
    for _, trace in again.path.forward.traced.all:
        assert trace.content.period_ns == 40 * MS


@pytest.mark.parametrize("packed", ["", "!", "QQ==", base64.b64encode(zlib.compress(b"another")).decode()])
def test_a_file_that_is_neither_here_nor_packed_is_named(packed: str) -> None:
    trace = Trace(trace="a.csv", digest="0" * 64, packed=packed)
    with pytest.raises(UnfitError, match=r"a\.csv .* is not here"):
        _ = trace.content


@pytest.mark.parametrize(
    ("forward", "complaint"),
    [
        ("{rate: {trace: b.csv}, delay: 20 ms}", "b.csv cannot be read: No such file"),
        ("{rate: {trace: ../a.csv}, delay: 20 ms}", "is not the name of a file in the scenario's folder"),
        ("{rate: {trace: /etc/passwd}, delay: 20 ms}", "is not the name of a file"),
        ("{rate: 10 Mbit/s, delay: {trace: a.trace}}", "says when packets are delivered, and nothing else"),
        ("{rate: {trace: low.csv}, delay: 20 ms}", "a link needs at least 1 kbit/s"),
        ("{rate: {trace: low.csv, offset: 1 min}, delay: 20 ms}", "beyond the end"),
        ("{rate: {trace: a.csv, digest: '" + "0" * 64 + "'}, delay: 20 ms}", "another file"),
        ("{rate: {trace: a.csv}, delay: 20 ms, burst: 15 kB}", "is served as that says"),
        ("{rate: 10 Mbit/s, delay: {trace: a.csv}, jitter: 1 ms}", "jitter cannot be added"),
        (
            "{rate: 10 Mbit/s, delay: {trace: a.csv}, loss: {trace: a.csv, loop: false}}",
            "delay and loss follow one file together",
        ),
        ("{rate: 10 Mbit/s, delay: 20 ms, loss: {good: 1 s, bad: 1 s}, duplicate: 1 %}", "duplicate cannot be added"),
        ("{rate: 10 Mbit/s, delay: 20 ms, loss: {good: 1 s, bad: 10 us}}", "too short"),
    ],
)
def test_what_cannot_follow_a_trace_is_refused(tmp_path: Path, forward: str, complaint: str) -> None:
    with pytest.raises(InputError) as refusal:
        loaded(tmp_path, forward, a_csv=SERIES, a_trace="1\n2\n", low_csv="t_ms,rate\n0,10\n10,10\n")
    assert complaint in str(refusal.value)
    assert "s.yaml:4:" in str(refusal.value)


def test_a_trace_starts_somewhere_by_the_seed_and_everywhere_at_the_same_time(tmp_path: Path) -> None:
    name = "{trace: a.csv, offset: drawn}"
    scenario = loaded(tmp_path, f"{{rate: {name}, delay: {name}}}", a_csv=SERIES)

    def offsets(seed: int) -> set[int]:
        return {series.offset_ns for series in compile_path(scenario.path, "serial", seed).series}

    drawn = [offsets(seed) for seed in range(40)]
    assert all(len(items) == 1 for items in drawn)
    assert {next(iter(items)) for items in drawn} <= {step * MS for step in range(40)}
    assert len({next(iter(items)) for items in drawn}) > 10
    assert offsets(3) == offsets(3)


def test_both_engines_run_a_trace_on_the_lab_kernel_s_own_disciplines(tmp_path: Path) -> None:
    name = "{trace: a.csv}"
    scenario = loaded(tmp_path, f"{{rate: {name}, delay: {name}, queue: fq_codel}}", a_csv=SERIES)
    for server in ("serial", "bucket"):
        program = compile_path(scenario.path, server)
        words = [" ".join(command) for command in program.setup]
        rate, way = program.series
        assert any(f"dev to_client root handle 1: serial trace {rate.file} offset 0ns" in line for line in words)
        assert any(f"dev left root handle 1: transit trace {way.file} offset 0ns" in line for line in words)
        assert [" ".join(command) for command in program.changes[0].commands] == [
            "tc qdisc change dev to_client root handle 1: serial start",
            "tc qdisc change dev left root handle 1: transit start",
        ]
        assert program.changes[0].at_ns == 0


def test_a_cell_s_digest_depends_on_the_file_and_not_on_its_name(tmp_path: Path) -> None:
    def commands(forward: str, **files: str) -> list[str]:
        program = compile_path(loaded(tmp_path, forward, **files).path, "serial")
        return [" ".join(command) for command in program.setup]

    first = commands("{rate: {trace: a.csv}, delay: 20 ms}", a_csv=SERIES)
    assert commands("{rate: {trace: b.csv}, delay: 20 ms}", b_csv=SERIES) == first
    assert commands("{rate: {trace: a.csv}, delay: 20 ms}", a_csv=SERIES.replace("30,5", "30,6")) != first
    assert commands("{rate: {trace: b.csv, loop: false}, delay: 20 ms}", b_csv=SERIES) != first


# --- the file for the kernel


def test_a_series_is_what_its_trace_says(tmp_path: Path) -> None:
    name = "{trace: a.csv}"
    scenario = loaded(tmp_path, f"{{rate: {name}, delay: {name}, loss: {name}}}", a_csv=SERIES)
    rate, way = (series_content(series) for series in compile_path(scenario.path, "serial").series)
    assert (rate.times_ns.tolist(), rate.columns[0].tolist()) == (
        [0, 10 * MS, 20 * MS, 30 * MS],
        [10**7, 2 * 10**7, 0, 5 * 10**6],
    )
    assert way.columns[0].tolist() == [20 * MS, 30 * MS, 30 * MS, 20 * MS]
    assert way.columns[1].tolist() == [0, 0, 1 << 31, 0]
    for content in (rate, way):
        decoded = SeriesContent.decode(content.encode())
        assert decoded.encode() == content.encode()
        assert (decoded.period_ns, len(decoded.columns)) == (40 * MS, len(content.columns))
    with pytest.raises(ValueError, match="no series"):
        SeriesContent.decode(rate.encode()[:-8])


def test_opportunities_count_packets_as_mahimahi_does(tmp_path: Path) -> None:
    scenario = loaded(tmp_path, "{rate: {trace: a.trace}, delay: 20 ms}", a_trace="1\n2\n2\n")
    (series,) = compile_path(scenario.path, "serial").series
    content = SeriesContent.decode(series_content(series).encode())
    assert (content.opportunity, content.overhead, content.period_ns) == (1504, -10, 2 * MS)
    # A packet of 1500 B takes one opportunity: with its Ethernet header it has 1514.
    course = DeliveryCourse(content, 0, 0)
    assert [course.sent(1514, 0)[1] for _ in range(3)] == [MS, 2 * MS, 2 * MS]


def test_a_model_of_loss_in_time_has_its_states_means(tmp_path: Path) -> None:
    forward = "{rate: 10 Mbit/s, delay: 20 ms, loss: {good: 300 ms, bad: 20 ms, loss_in_bad: 50 %}}"
    scenario = loaded(tmp_path, forward)
    (series,) = compile_path(scenario.path, "serial", 5).series
    content = series_content(series)
    lengths = np.diff(content.times_ns, append=content.period_ns)
    good, bad = lengths[::2], lengths[1::2]
    # The mean of n exponential lengths deviates by 1/sqrt(n): three of these.
    assert good.mean() == pytest.approx(300 * MS, rel=3 / math.sqrt(len(good)))
    assert bad.mean() == pytest.approx(20 * MS, rel=3 / math.sqrt(len(bad)))
    assert content.columns[1].tolist()[:2] == [0, 1 << 31]
    assert series_content(series).encode() == content.encode()
    (other,) = compile_path(scenario.path, "serial", 6).series
    assert other.file != series.file
    assert series_content(other).encode() != content.encode()
    assert scenario.path.forward.mean_loss == pytest.approx(20 / 320 / 2)


# --- the model


def stepwise(times: list[int], rates: list[int], period: int, lengths: list[int], arrivals: list[int]) -> list[float]:
    """When packets leave a serial server whose rate changes, by going from step to step."""
    left_at, departures = 0.0, []
    for length, arrival in zip(lengths, arrivals, strict=True):
        now, work = max(left_at, float(arrival)), length * 8e9
        while work > 1e-3:
            within = now % period
            index = max(number for number, time in enumerate(times) if time <= within)
            end = now - within + (times[index + 1] if index + 1 < len(times) else period)
            rate = rates[index]
            if rate and now + work / rate <= end:
                now, work = now + work / rate, 0.0
            else:
                work -= rate * (end - now)
                now = end
        left_at = now
        departures.append(now)
    return departures


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_a_course_of_rates_is_the_sum_of_its_steps(seed: int) -> None:
    rng = random.Random(seed)
    times = [0, *sorted(rng.sample(range(1, 1000), rng.randint(1, 8)))]
    rates = [rng.choice([0, 1, 3, 10, 50]) * 10**6 for _ in times]
    rates[rng.randrange(len(rates))] = 20 * 10**6
    period = 1000
    content = SeriesContent(np.array(times) * MS, (np.array(rates),), period * MS)
    lengths = [rng.randint(60, 1514) for _ in range(200)]
    arrivals = sorted(rng.randint(0, 3000 * MS) for _ in lengths)
    course, free, modelled = RateCourse(content, 0, 0), 0.0, []
    for length, arrival in zip(lengths, arrivals, strict=True):
        free = course.sent(length, max(free, float(arrival)))
        modelled.append(free)
    expected = stepwise([time * MS for time in times], rates, period * MS, lengths, arrivals)
    assert np.allclose(modelled, expected, rtol=0, atol=2)


def test_a_course_that_is_played_once_keeps_its_last_rate() -> None:
    content = SeriesContent(np.array([0, 10 * MS]), (np.array([10**7, 10**6]),), 0)
    # 1250 B take 1 ms at 10 Mbit/s and 10 ms at 1 Mbit/s.
    assert RateCourse(content, 0, 0).sent(1250, 3.0 * MS) == pytest.approx(4 * MS)
    assert RateCourse(content, 0, 0).sent(1250, 9.5 * MS) == pytest.approx(15 * MS)
    assert RateCourse(content, 0, 0).sent(1250, 1000.0 * MS) == pytest.approx(1010 * MS)
    stopped = SeriesContent(np.array([0, 10 * MS]), (np.array([10**7, 0]),), 0)
    assert RateCourse(stopped, 0, 0).sent(1250, 9.5 * MS) == math.inf


def mahimahi(opportunities: list[int], packets: list[tuple[int, int]], loops: bool) -> list[int]:
    """When packets (ms of arrival, bytes with the tunnel's header) leave mahimahi's link, ms; its rules, in a loop.

    Netravali et al., 2015, and the tool's manual: an opportunity of 1504 B serves the queue in order, in part if it must;
    what is left over is lost.
    """
    departures, queue, waiting, base, index = [0] * len(packets), list[int](), iter(enumerate(packets)), 0, 0
    left: dict[int, int] = {}
    ahead = next(waiting, None)
    while 0 in departures:
        if index == len(opportunities):
            if not loops:
                break
            base, index = base + opportunities[-1], 0
        now = base + opportunities[index]
        index += 1
        # Whoever arrives in the millisecond of an opportunity is too late for it.
        while ahead is not None and ahead[1][0] < now:
            queue.append(ahead[0])
            left[ahead[0]] = ahead[1][1]
            ahead = next(waiting, None)
        budget = 1504
        while budget and queue:
            first = queue[0]
            used = min(budget, left[first])
            budget, left[first] = budget - used, left[first] - used
            if not left[first]:
                departures[queue.pop(0)] = now
    return departures


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_opportunities_serve_packets_as_mahimahi_does(seed: int, loops: bool) -> None:
    rng = random.Random(seed)
    times = sorted(rng.randint(1, 60) for _ in range(rng.randint(1, 60)))
    packets = sorted((rng.randint(0, 200), rng.choice([64, 300, 1204, 1504])) for _ in range(60))
    content = SeriesContent(np.array(times) * MS, (), times[-1] * MS if loops else 0, 1504, -10)
    course = DeliveryCourse(content, 0, 0)
    modelled = [course.sent(size + 10, float(arrival) * MS)[1] for arrival, size in packets]
    expected = mahimahi(times, packets, loops)
    assert [0 if math.isinf(time) else time / MS for time in modelled] == expected


def test_delay_and_loss_are_those_of_the_moment() -> None:
    content = SeriesContent(np.array([0, 10]), (np.array([5, 7]), np.array([0, 1 << 31])), 20)
    delays, losses = transit_at(content, 100, 103, np.array([0, 104, 110, 119, 120, 131]))
    assert delays.tolist() == [5, 5, 7, 7, 5, 7]
    assert losses.tolist() == [0, 0, 0.5, 0.5, 0, 0.5]


# --- reference times


@pytest.mark.parametrize(
    ("trace", "content"),
    [("a.csv", "t,rate_mbps\n0,30\n3,10\n6,10\n"), ("a.trace", "".join(f"{ms}\n" for ms in range(1, 9001)))],
)
def test_reference_times_follow_the_trace(tmp_path: Path, trace: str, content: str) -> None:
    (tmp_path / trace).write_text(content)
    scenario = loaded(tmp_path, f"{{rate: {{trace: {trace}}}, delay: 20 ms}}")
    course = timeline(scenario.path)
    if trace == "a.csv":
        assert [round(course.at(moment).rate_bps / 1e6) for moment in (0, 2.5, 3.5, 8.5, 10, 13)] == [
            30,
            30,
            10,
            10,
            30,
            10,
        ]
    else:
        assert course.at(5).rate_bps == pytest.approx(1514 * 8 * 1000)
    assert course.carried(30e6 * 3, 0) == pytest.approx(3.0 if trace == "a.csv" else 90 / 12.112, rel=0.01)


def test_other_links_have_no_trace() -> None:
    program = compile_path(path(forward=link("10 Mbit/s", "20 ms")), "serial")
    assert program.series == ()
    assert not any("trace" in command for command in itertools.chain(program.setup))
    assert Link.model_validate({"rate": "1 Mbit/s", "delay": "1 ms"}).traced is None


@pytest.mark.parametrize("name", TRACES)
def test_the_scenarios_traces_are_what_their_laws_draw(name: str) -> None:
    assert (ROOT / "scenarios" / name).read_text() == TRACES[name]


def test_the_page_on_links_shows_what_explain_prints() -> None:
    page = (ROOT / "docs" / "links.md").read_text()
    block = page.split("```console\n", 1)[1].split("```", 1)[0]
    printed = scenario_text(catalogue().scenario(ROOT / "scenarios" / "links" / "cellular-trace.yaml"), "compose")
    for line in block.splitlines():
        if line not in ("$ harness explain links/cellular-trace", "…"):
            assert line in printed
