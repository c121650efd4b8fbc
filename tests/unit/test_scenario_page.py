"""The page of the scenario format, and that explain puts the parts of a path into words."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import InputError
from harness.netem import compile_path
from harness.outcome import ENGINES
from harness.planning.sampling import with_plain_changes
from harness.planning.sweep import expand_points
from harness.report.explanation import loss_words, scenario_text
from harness.scenario.schema import GilbertElliott, Link, Scenario
from harness.topology import server_of
from harness.units import Percentage
from tests.examples import ROOT, catalogue, scenario
from tools.reference.scenario_page import scenario_page

EXAMPLES = sorted((ROOT / "docs/scenarios").glob("*.yaml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_valid_and_compiles_in_both_times(file: Path) -> None:
    example = catalogue().scenario(file)
    points = expand_points(example, {}, {})
    counts = [len(values) for values in example.vary.values()] or [1]
    assert len(points) == (math.prod(counts) if example.combine == "product" else counts[0])
    for point in points:
        for engine in ENGINES:
            plain = with_plain_changes(point.scenario, 1)
            assert all(compile_path(path, server_of(engine)).lines() for path in plain.every_path.values())
    for engine in ENGINES:
        assert scenario_text(example, engine)


@cache
def _page() -> str:
    return scenario_page(*_read())


def _read() -> tuple[dict[str, str], dict[str, Scenario]]:
    return {file.name: file.read_text() for file in EXAMPLES}, {
        file.name: catalogue().scenario(file) for file in EXAMPLES
    }


def test_every_key_of_the_model_is_on_the_page_with_an_example() -> None:
    page = _page()
    schema = Scenario.model_json_schema(by_alias=True)
    for name, part in {"Scenario": schema, **schema["$defs"]}.items():
        if "properties" not in part:
            continue
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        rows = {line.split(" | ")[0].removeprefix("| "): line.split(" | ") for line in section.splitlines()}
        # Of a path with a profile nothing is required.
        required = [*part.get("required", ()), *part.get("else", {}).get("required", ())]
        for key, about in part["properties"].items():
            row = rows[f"`{key}`"]
            # Key, what it takes, default, example, meaning.
            assert len(row) == 5 and row[1], key
            assert row[3] or key == "name" or about.get("readOnly"), key
            assert (row[2] == "**required**") == (key in required), key
            assert " ".join(about.get("description", "").split())[:30] in row[4] or row[4] != " |", key


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("ip_version", ("`4` or `6` or `46`", "`4`", "`6`")),
        ("jitter", ("duration or [Jitter](#jitter)", "`0 ns`", "`2 ms`")),
        ("wq", ("number above 0 to 0.5", "none", "`0.002`")),
        ("mtu", ("whole number from 1280 to 9000", "`1500`", "`1500`")),
        ("loss_in_bad", ("fraction", "`100 %`", "`50 %`")),
        ("packet", ("two of size", "**required**", "`[500 B, 1000 B]`")),
        ("at_most", ("duration or rate or number", "none", "`8 s`")),
        ("vary", ("NAME: list of value", "none", "`{path.wifi.forward.loss: [0 %, 1 %, 2 %]}`")),
    ],
)
def test_keys_have_their_unit_default_and_example(key: str, words: tuple[str, str, str]) -> None:
    rows = [line for line in _page().splitlines() if line.startswith(f"| `{key}` |")]
    assert tuple(words) in [tuple(row.split(" | ")[1:4]) for row in rows]


def test_a_key_without_an_example_is_an_error() -> None:
    files, read = _read()
    texts, examples = ({name: file for name, file in part.items() if name != "red-ecn.yaml"} for part in (files, read))
    with pytest.raises(InputError, match="no example has the key limit of Red"):
        scenario_page(texts, examples)  # type: ignore[arg-type]


def test_the_page_shows_the_files_as_they_are() -> None:
    files, page = _read()[0], _page()
    assert page.count("```yaml") == len(files)
    assert all(text.rstrip() in page for text in files.values())
    shown = yaml.safe_load(page.partition("### satellite.yaml\n\n```yaml\n")[2].partition("```")[0])
    assert shown["flows"] == [{"download": "20 MB", "repeat_after": "2 s"}]


# --- explain


def _explained(**forward: Any) -> str:
    content = scenario().path.model_dump(mode="json", by_alias=True)
    path = type(scenario().path).model_validate(
        {**content, "forward": {"rate": "10 Mbit/s", "delay": "50 ms", **forward}}
    )
    return scenario_text(scenario(path=path), "virtual")


def test_jitter_in_words() -> None:
    text = "jitter: each packet's delay is drawn evenly from 50 ms ± 5 ms; packets overtake each other"
    assert text in _explained(jitter="5 ms")
    assert "jitter:" not in _explained()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"jitter": {"deviation": "5 ms", "distribution": "normal"}},
            "jitter: each packet's delay is 50 ms on average, by a normal distribution with a deviation of 5 ms; a packet "
            "waits for the one before it",
        ),
        ({"reorder": "25 %"}, "reordering: 25 % of the packets leave at once"),
        (
            {"reorder": {"share": "10 %", "gap": 11, "ahead": "3 ms"}},
            "reordering: 5 % of the packets leave 3 ms early, and no two within 11",
        ),
        ({"duplicate": "3 %"}, "duplication: 3 % of the packets arrive twice"),
        ({"ecn": "bleach"}, "ECN: cleared on the way: packets arrive as Not-ECT"),
        ({"ecn": "mark"}, "ECN: every packet that allows it is marked Congestion Experienced on the way"),
        ({"ecn": "ect1-to-ect0"}, "ECN: ECT(1) is rewritten as ECT(0) on the way"),
        ({"ecn": "drop"}, "ECN: packets with ECT or Congestion Experienced are dropped on the way"),
    ],
)
def test_what_becomes_of_packets_behind_the_queue_in_words(keys: dict[str, Any], words: str) -> None:
    assert f"{words}\n" in _explained(**keys)


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("codel", ["every packet has waited longer than 5 ms for 100 ms", "ECN: off"]),
        ({"discipline": "codel", "ecn": True}, ["ECN: marks what its sender allows to be marked, instead of a drop"]),
        (
            {"discipline": "codel", "ce_threshold": "1 ms"},
            ["ECN: packets that waited longer than 1 ms are marked as well"],
        ),
        ("fq_codel", ["CoDel: drops from the head", "flows: 1,024 queues, chosen by a hash; each may send 1514 B"]),
        ("pie", ["PIE: drops by chance what arrives; every 15 ms", "for a wait of 15 ms"]),
        ("fq_pie", ["PIE: drops by chance", "flows: 1,024 queues"]),
        ("cake", ["CAKE: besteffort, flows; drops from the head", "a round trip of 100 ms"]),
        ("sfq", ["SFQ: flows, chosen by a hash, send 1514 B each in turn; a full queue cuts the longest"]),
        (
            "dualpi2",
            ["DualPI2: ECT(1) and CE have a queue of low latency", "above a wait of 1 ms", "for a wait of 15 ms"],
        ),
        (
            {"discipline": "step", "threshold": "1 ms"},
            ["step: packets that waited longer than 1 ms are marked; a full queue drops what arrives"],
        ),
    ],
)
def test_disciplines_in_words(queue: object, words: list[str]) -> None:
    text = _explained(queue=queue)
    assert all(part in text for part in words), text


def test_losses_in_words() -> None:
    assert "loss: each packet is lost with a probability of 1 %" in _explained(loss="1 %")
    text = _explained(loss={"good_to_bad": "1 %", "bad_to_good": "30 %"})
    assert "in the good state 0 % of the packets are lost; the bad one comes after 100 packets on average" in text
    # 1/0.3 packets; 0.01 / 0.31 of all.
    assert "lasts 3.33 packets on average and loses 100 %; in the long run 3.2258 % are lost, in bursts" in text


def test_a_state_that_is_never_left_is_said() -> None:
    nothing, some = Percentage.parse("0 %"), Percentage.parse("2 %")
    assert "lasts for good" in loss_words(GilbertElliott(good_to_bad=some, bad_to_good=nothing))
    assert "comes never" in loss_words(GilbertElliott(good_to_bad=nothing, bad_to_good=some))


RED = {"discipline": "red", "limit": "100 kB", "min": "25 kB", "max": "75 kB", "probability": "10 %", "wq": 0.002}


def test_red_and_ecn_in_words() -> None:
    text = _explained(queue=RED)
    assert "RED: drops nothing while the average queue is below 25,000 B (20.0 ms)" in text
    assert "up to 10 % of the packets at 75,000 B (60.0 ms), and all of them above" in text
    assert "ECN: off, RED drops" in text
    text = _explained(queue={**RED, "ecn": True})
    assert "ECN: packets are marked Congestion Experienced instead of dropped, if their sender set ECT" in text
    assert "ECN" not in _explained()


def test_changes_of_loss_in_words() -> None:
    definition = scenario()
    content = definition.path.model_dump(mode="json", by_alias=True)
    change = {"at": "5 s", "forward": {"loss": {"good_to_bad": "1 %", "bad_to_good": "50 %"}, "rate": "5 Mbit/s"}}
    text = scenario_text(
        scenario(path=type(definition.path).model_validate({**content, "changes": [change]})), "virtual"
    )
    assert "after 5 s: forward rate 5 Mbit/s, loss: Gilbert–Elliott:" in text


def test_a_link_has_a_default_queue() -> None:
    assert str(Link.model_fields["queue"].default.size) == "1 BDP"
