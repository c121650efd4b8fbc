"""What older schemas of measured.json wrote is read as what it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.absences import sentences
from harness.metric_names import MetricName
from harness.outcome import Absence, MeasuredRun
from harness.records import read_measured


def read(*names: str, warnings: tuple[str, ...] = ()) -> MeasuredRun:
    content: dict[str, Any] = {"schema": 1, "version": 3, "warnings": warnings}
    content["measurements"] = [{"name": name, "value": 1.5, "unit": "s", "direction": "lower"} for name in names]
    return read_measured(json.dumps(content).encode())


@pytest.mark.parametrize(
    ("text", "flows", "name"),
    [
        ("completion", 1, MetricName("completion", 0, "first")),
        ("repeat_milestone_10MB", 1, MetricName("milestone_10MB", 0, "repeat")),
        ("flow1_repeat_cpu_client", 2, MetricName("cpu_client", 1, "repeat")),
        ("mean_throughput", 1, MetricName("mean_throughput", 0)),
        ("flow12_mean_srtt", 16, MetricName("mean_srtt", 12)),
        ("jain_samples_responsive", 3, MetricName("jain_samples_responsive")),
        ("agg_utility_pf", 3, MetricName("agg_utility_pf")),
        ("mean_queue_delay", 1, MetricName("mean_queue_delay")),
        ("queue_delay_p95_to_client", 1, MetricName("queue_delay_p95_to_client", 0, "first")),
        ("queue_drops_to_client", 1, MetricName("queue_drops_to_client", None, "first")),
        ("repeat_loss_drops_to_server", 1, MetricName("loss_drops_to_server", None, "repeat")),
        ("early_drops_to_client", 2, MetricName("early_drops_to_client")),
        ("phase2_flow1_throughput", 3, MetricName("throughput", 1, None, 2)),
        ("phase10_jain", 3, MetricName("jain", None, None, 10)),
    ],
)
def test_a_name_of_schema_1_becomes_fields_and_is_written_as_before(text: str, flows: int, name: MetricName) -> None:
    measured = read(text)
    (one,) = measured.measurements
    assert one.named == name
    assert one.named.text(flows) == text
    assert measured.value(*name) == 1.5
    assert measured.written(text, flows) == one


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        (
            "mean_srtt of flow 3: left out, neither a qlog nor tcp_info of the sender shows it",
            [Absence(metric="mean_srtt", flows=(3,), why="neither a qlog nor tcp_info of the sender shows it")],
        ),
        (
            "timeouts of flows 0, 2: left out, neither a qlog nor tcp_info of the sender shows it",
            [Absence(metric="timeouts", flows=(0, 2), why="neither a qlog nor tcp_info of the sender shows it")],
        ),
        (
            "flow0_utility_pf and flow0_utility_mpdf leave out 4 of 10 samples in which nothing arrived",
            [
                Absence(metric=name, flows=(0,), samples=(4, 10), why="in which nothing arrived")
                for name in ("utility_pf", "utility_mpdf")
            ],
        ),
        (
            "flow1_repeat_milestone_2MB is left out: less than 2000000 B came without a gap",
            [
                Absence(
                    metric="milestone_2MB",
                    flows=(1,),
                    transfer="repeat",
                    why="less than 2000000 B came without a gap",
                )
            ],
        ),
    ],
)
def test_why_a_metric_was_absent_becomes_data_and_reads_as_before(text: str, absent: list[Absence]) -> None:
    measured = read(warnings=(text,))
    assert list(measured.absent) == absent
    assert measured.warnings == ()
    assert sentences(measured.absent, 2) == [text]


def test_sums_that_lack_a_flow() -> None:
    text = "agg_in_flight and agg_utilisation_bdp, for want of in_flight of flows 1, 2: left out, its sender tells none"
    measured = read(warnings=(text,))
    assert [one.metric for one in measured.absent] == ["agg_in_flight", "agg_utilisation_bdp"]
    assert sentences(measured.absent, 3) == [
        "agg_in_flight and agg_utilisation_bdp: left out, the sender of flows 1, 2 does not tell in_flight"
    ]


def test_other_warnings_stay() -> None:
    text = "to_client: packets left 5.1 ms late at the 99th percentile"
    measured = read(warnings=(text,))
    assert measured.warnings == (text,) and measured.absent == ()


def test_what_is_written_is_read_as_it_is() -> None:
    measured = read("repeat_completion", warnings=("mean_srtt of flow 0: left out, nothing shows it", "else"))
    assert measured.schema_ == 2
    text = measured.model_dump_json(by_alias=True)
    assert json.loads(text)["schema"] == 2
    assert read_measured(text.encode()) == measured


@pytest.mark.parametrize(
    "name",
    [
        MetricName("goodput"),
        MetricName("goodput", 3, "repeat"),
        MetricName("throughput", 0, None, 2),
        MetricName("milestone_2MB", None, "repeat"),
    ],
)
def test_what_people_write_is_what_they_read(name: MetricName) -> None:
    assert MetricName.parse(name.text(5)) == name
