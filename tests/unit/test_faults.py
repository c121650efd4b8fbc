"""Faults of a path: what its program says, what share chance takes, and what the link proof finds out."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from harness.analysis.link_estimates import fault_problems
from harness.analysis.link_replay import Fate, Replay
from harness.capture.matching import MatchedPackets
from harness.engine import exit_rules
from harness.engine.images.cache import Cache
from harness.engine.served_files import make_served_files
from harness.netem import PathProgram, compile_path, fault_share
from harness.netem.program import Fault
from harness.outcome import Transfer
from harness.store.identity import drop_empty, with_key
from harness.topology import build_lab, digest_content, lab_summary, sim_plan
from tests.examples import cell, link, path, scenario


def _program(**keys: Any) -> PathProgram:
    return compile_path(path(forward=link("10 Mbit/s", queue="25 packets", **keys)), "serial")


def _rules(program: PathProgram, chain: str) -> list[str]:
    start = f"nft add rule inet faults {chain} "
    return [line.removeprefix(start) for line in program.lines() if line.startswith(start)]


def _applies(words: list[str], numbers: set[int], lucky: bool) -> bool:
    """Whether a rule's matches hold, with what it writes into the counter before."""
    mark = int(words[words.index("set") + 1]) if "set" in words else 0
    if ("random" in words and not lucky) or ("!=" in words and mark in numbers):
        return False
    if "add" in words:
        numbers.add(mark)
    if "delete" in words:
        numbers.discard(mark)
    return True


def _walk(rules: dict[str, list[str]], chain: str, numbers: set[int], lucky: bool) -> str:
    """What becomes of one datagram, as the kernel would go through the rules; `numbers` is the only counter."""
    for words in map(str.split, rules[chain]):
        if not _applies(words, numbers, lucky):
            continue
        if words[-1] in ("drop", "accept"):
            return words[-1]
        if words[-2] == "jump" and (verdict := _walk(rules, words[-1], numbers, lucky)) != "return":
            return verdict
    return "return"


def test_numbers_are_counted_and_only_those_asked_for_are_dropped() -> None:
    rules = {"to_client": _rules(_program(drop={"packets": [2, 3, 5]}), "to_client")}
    seen: set[int] = set()
    fates = [_walk(rules, "to_client", seen, lucky=False) for _ in range(9)]
    assert [number for number, fate in enumerate(fates, 1) if fate == "drop"] == [2, 3, 5]


@pytest.mark.parametrize(("rate", "burst"), [(0.3, 3), (0.02, 3), (0.9, 2), (0.5, 1)])
def test_bursts_end_and_their_share_is_the_one_computed(rate: float, burst: int) -> None:
    program = _program(drop={"rate": f"{rate * 100:g} %", "burst": burst})
    rules = {chain: _rules(program, chain) for chain in ("to_client", "to_client_drop_hit")}
    drawn, row, numbers, fates = random.Random(1), 0, set[int](), []
    for _ in range(20_000):
        fates.append(_walk(rules, "to_client", numbers, drawn.random() < rate) == "drop")
        row = row + 1 if fates[-1] else 0
        assert row <= burst
    assert sum(fates) / len(fates) == pytest.approx(fault_share(rate, burst), abs=0.012)
    assert (sum(fates) > 0) is True


def test_without_a_longest_burst_every_datagram_has_its_chance() -> None:
    assert fault_share(0.3, None) == 0.3
    assert _rules(_program(drop={"rate": "30 %"}), "to_client_drop_hit") == ["drop"]
    assert f"meta random < {round(0.3 * 2**32)} jump to_client_drop_hit" in _rules(
        _program(drop={"rate": "30 %"}), "to_client"
    )


def test_each_place_is_damaged_by_a_value_of_its_own_that_changes_it() -> None:
    program = _program(corrupt={"rate": "30 %", "burst": 3})
    changes = [line.split(" ^ ")[1].split()[0] for line in program.lines() if " ^ " in line]
    assert len(changes) == 51
    assert all(1 <= int(change) <= 255 for change in changes)
    assert len(set(changes)) > 20
    places = next(line for line in program.lines() if "vmap" in line).split("{ ")[1].split(", ")
    assert places[0].startswith("0-")
    assert places[-1].split(" : ")[0].endswith(f"-{2**32 - 1}")
    # Every place is chosen as often as any other.
    widths = [int(end) - int(begin) for begin, end in (place.split(" : ")[0].split("-") for place in places)]
    assert max(widths) - min(widths) <= 1


def test_a_path_without_faults_has_none_and_its_cell_keeps_its_key() -> None:
    assert not any("faults" in line for line in _program().lines())
    lab = build_lab(with_key(cell(scenario())), 0)
    text = json.dumps([drop_empty(digest_content(lab)), sim_plan(lab, lab.simulators[0]), lab_summary(lab)])
    assert not [name for name in ("faults", "files", "folder", "whole_frames") if f'"{name}"' in text]


def test_a_blackhole_is_a_path_that_is_gone_for_a_while() -> None:
    dark = path(blackhole={"after": "5 s", "lasts": "2 s", "repeat": 2})
    assert dark.blackhole is not None
    assert [(begin.seconds, end.seconds) for begin, end in dark.blackhole.times] == [(5, 7), (12, 14)]
    lab = build_lab(with_key(cell(scenario(path=dark.model_dump(by_alias=True)))), 0)
    changes = [change.at_ns / 1e9 for change in lab.simulators[0].program.changes]
    assert changes == [5, 7, 12, 14]
    assert [outage["from_ns"] for outage in lab_summary(lab)["paths"][0]["outages"]] == [5 * 10**9, 12 * 10**9]


def test_servers_may_be_asked_something_else() -> None:
    asked = scenario(testcase="zerortt", server_testcase="retry")
    assert (asked.testcase_of("client"), asked.testcase_of("server")) == ("zerortt", "retry")
    lab = build_lab(with_key(cell(asked)), 0)
    assert [host.environment["TESTCASE"] for host in lab.hosts] == ["zerortt", "retry"]
    rejected = scenario(testcase="zerortt", server_testcase="zerortt-rejected")
    assert (rejected.testcase_of("client"), rejected.testcase_of("server")) == ("zerortt", "zerortt-rejected")
    with pytest.raises(ValidationError, match="testcase"):
        scenario(testcase="zerortt-rejected")
    for unfit in ({"server_testcase": "retry"}, {"testcase": "http3", "server_testcase": "retry"}):
        with pytest.raises(ValidationError, match="needs one of the clients"):
            scenario(**unfit)


def test_a_test_case_is_told_to_whom_it_is_for() -> None:
    lab = build_lab(with_key(cell(scenario(testcase="keyupdate"))), 0)
    assert [host.environment["TESTCASE"] for host in lab.hosts] == ["keyupdate", "transfer"]
    assert sim_plan(lab, lab.simulators[0])["whole_frames"] is True


def test_several_files_are_asked_for_by_name_and_served_from_a_folder_of_their_own() -> None:
    flow = {"files": [{"count": 2, "size": "32 B", "name_length": 250}, {"count": 1, "size": "1 KiB"}]}
    tested_scenario = scenario(flows=[flow], testcase="transfer", ip_version=46, objectives=[])
    lab = build_lab(with_key(cell(tested_scenario)), 0)
    urls = lab.hosts[0].environment["REQUESTS"].split()
    assert [len(url.rsplit("/", 1)[1]) for url in urls[:2]] == [250, 250]
    assert len(set(urls)) == 3
    assert all(url.startswith("https://server46:443/") for url in urls)
    assert lab.flows[0].size == 2 * 32 + 1024
    assert lab.flows[0].folder
    assert not lab.flows[0].file


def _downloaded(tmp_path: Path, change: Callable[[Path], object]) -> exit_rules.FileComparison:
    """What is said of two files of which somebody changed something."""
    tested_scenario = scenario(flows=[{"files": [{"count": 2, "size": "1 KiB"}]}], testcase="transfer", objectives=[])
    lab = build_lab(with_key(cell(tested_scenario)), 0)
    (flow,) = lab.flows
    cache = Cache(tmp_path / "cache", 1 << 30)
    make_served_files(lab, cache)
    file = tmp_path / "flow0" / "downloads"
    shutil.copytree(cache.www / flow.folder, file)
    change(file)
    transfer = Transfer(flow=0, index=0, size=flow.size, started_ns=0, ended_ns=1, exit_code=0)
    return exit_rules.check_transfer(transfer, flow, tmp_path, cache.www)


def test_several_files_that_are_whole_are_intact_and_removed(tmp_path: Path) -> None:
    file_comparison = _downloaded(tmp_path, lambda file: None)
    assert (file_comparison.outcome, file_comparison.transfer.received, file_comparison.transfer.intact) == (
        None,
        2048,
        True,
    )
    assert not list((tmp_path / "flow0" / "downloads").iterdir())


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (lambda came: (came / "0001-1KiB.bin").unlink(), "0001-1KiB.bin is missing"),
        (lambda came: os.truncate(came / "0001-1KiB.bin", 1023), "differs from the served one at byte 1023"),
        (lambda came: (came / "0000-1KiB.bin").replace(came / "0001-1KiB.bin"), "0000-1KiB.bin is missing"),
        (lambda came: shutil.copy(came / "0000-1KiB.bin", came / "0001-1KiB.bin"), "0001-1KiB.bin differs"),
        (lambda came: (came / "more").touch(), "more was not asked for"),
    ],
)
def test_one_of_several_files_that_is_not_as_it_was_served(
    tmp_path: Path, change: Callable[[Path], object], detail: str
) -> None:
    file_comparison = _downloaded(tmp_path, change)
    assert file_comparison.outcome is not None
    assert file_comparison.outcome.status == "wrong_file"
    assert detail in file_comparison.outcome.detail


def _passage(fates: Sequence[Fate], appeared: int = 0) -> tuple[MatchedPackets, Replay]:
    """Datagrams of which these things became."""
    n = len(fates)
    fate = np.array(fates, np.uint8)
    out = np.where(fate == Fate.DELIVERED, np.arange(n), -1)
    nothing = np.zeros(n, np.int64)
    # Of a capture only the length is asked.
    passage = MatchedPackets(SimpleNamespace(t_ns=nothing), out, appeared, n)  # type: ignore[arg-type]
    return passage, Replay(nothing, nothing, nothing, nothing > 0, fate, nothing, nothing > 0, nothing > 0)


def _problems(faults: Sequence[Fault], fates: Sequence[Fate], appeared: int = 0) -> list[str]:
    return list(fault_problems("to_server", *_passage(fates, appeared), faults, 1e-6))


def test_numbers_that_were_dropped_are_held_against_those_asked_for() -> None:
    fault = Fault(direction="to_server", kind="drop", packets=(2, 3))
    ok, lost = Fate.DELIVERED, Fate.LOST
    assert not _problems([fault], [ok, lost, lost, ok, ok])
    assert not _problems([fault], [ok, lost, Fate.IN_FLIGHT, ok]), "what the last one overtook is lost"
    assert not _problems([fault], [ok, Fate.QUEUE_DROP, lost, lost, ok]), "the queue comes first"
    assert "2, 3 were to be dropped, and 3 were" in _problems([fault], [ok, ok, lost, ok])[0]
    assert "and 2 were" in _problems([fault], [ok, lost, ok, ok])[0]


def test_shares_of_chance_are_held_against_those_asked_for() -> None:
    drawn = random.Random(1)
    fates = [Fate.LOST if drawn.random() < 0.29 else Fate.DELIVERED for _ in range(5000)]
    fault = Fault(direction="to_server", kind="drop", rate=0.3, burst=3)
    assert not _problems([fault], fates)
    assert "(29." in _problems([fault.model_copy(update={"rate": 0.02})], fates)[0]
    assert "were dropped, asked 29.4" in _problems([fault], [Fate.DELIVERED] * 5000)[0]
    damaged = Fault(direction="to_server", kind="corrupt", rate=0.3, burst=3)
    assert not _problems([damaged], fates, appeared=sum(fate is Fate.LOST for fate in fates))
    assert "were damaged, asked 29.4" in _problems([damaged], fates, appeared=0)[0]
