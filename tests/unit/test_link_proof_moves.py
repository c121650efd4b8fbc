"""The link proof of runs whose clients move: what a path loses by that is no loss, and nothing is counted twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from harness.analysis.metrics import measure
from harness.analysis.run_view import RunView
from harness.analysis.shared_flows import SharedFlow
from harness.analysis.timeseries import BOTTLENECK, NETWORK, RETURN_BOTTLENECK, bottleneck_number
from harness.capture.pcap import parse
from harness.outcome import LinkProof, Run
from harness.topology.spec import LabMove
from tests.measurements import by_name
from tests.unit.captures import CLIENT, CLIENT6, T0, Recipe, pcap, write_run

MS = 1_000_000
PAYLOAD = slice(42, 96)
#: (time, head, bytes on the wire).
Record = tuple[int, bytes, int]


def records(folder: Path, side: str, simulator: str = "sim") -> list[Record]:
    packets = parse((folder / simulator / f"trace_node_{side}.pcap").read_bytes())
    return [
        (int(t), head[:size].tobytes(), int(length))
        for t, head, size, length in zip(packets.t_ns, packets.heads, packets.captured, packets.length, strict=True)
    ]


def write(folder: Path, side: str, kept: Iterator[Record], simulator: str = "sim") -> None:
    (folder / simulator / f"trace_node_{side}.pcap").write_bytes(pcap(kept))


def to_client(head: bytes) -> bool:
    return head[34:36] == b"\x01\xbb"


def edit_lab(folder: Path, change: Callable[[dict[str, Any]], None], *events: dict[str, Any]) -> None:
    """Change lab.json, and have the simulator say more."""
    lab = json.loads((folder / "lab.json").read_text())
    lab["paths"] = [{"path": "", "simulator": "sim", "networks": ["193.167.0.0/24", "fd00:cafe:cafe::/64"],
                     "links": lab["links"]}]  # fmt: skip
    change(lab)
    (folder / "lab.json").write_text(json.dumps(lab))
    with (folder / "sim/events.jsonl").open("a") as diary:
        diary.writelines("\n" + json.dumps(event) for event in events)


def proof(folder: Path, run: Run) -> LinkProof:
    link_proof = measure(folder, run).link
    assert link_proof is not None
    return link_proof


# --- a path that is gone for a while

GONE, BACK = 1_000 * MS, 1_500 * MS


@pytest.fixture
def gone(tmp_path: Path) -> tuple[Path, Run]:
    """A run whose path was gone for half a second."""
    run = write_run(tmp_path, Recipe())
    refused = {
        head[PAYLOAD]
        for t, head, _ in records(tmp_path, "left")
        if not to_client(head) and GONE <= t - T0 < BACK
    }  # fmt: skip
    write(tmp_path, "right", (packet for packet in records(tmp_path, "right") if packet[1][PAYLOAD] not in refused))
    left = (
        packet for packet in records(tmp_path, "left") if not (to_client(packet[1]) and GONE <= packet[0] - T0 < BACK)
    )
    write(tmp_path, "left", left)
    return tmp_path, run


def test_what_is_under_way_when_a_path_goes_is_not_lost(gone: tuple[Path, Run]) -> None:
    folder, run = gone
    outage = {"from_ns": GONE, "until_ns": BACK}
    events = [
        {"event": "change", "index": i, "at": at / 1e9, "t": (T0 + at) / 1e9} for i, at in enumerate((GONE, BACK))
    ]

    def say(lab: dict[str, Any]) -> None:
        lab["paths"][0]["outages"] = [outage]

    edit_lab(folder, say, *events)
    link_proof = proof(folder, run)
    assert link_proof.valid, link_proof.problems
    assert (link_proof.to_client.unasked_drops, link_proof.to_server.unasked_drops) == (0, 0)
    assert link_proof.changes_late_ms == pytest.approx((0, 0), abs=0.001)


def test_a_path_that_goes_unasked_is_not_the_one_asked_for(gone: tuple[Path, Run]) -> None:
    link_proof = proof(*gone)
    assert not link_proof.valid
    assert link_proof.to_client.unasked_drops > 100


def test_a_path_that_never_went_is_said(gone: tuple[Path, Run]) -> None:
    folder, run = gone
    edit_lab(folder, lambda lab: lab["paths"][0].update(outages=[{"from_ns": GONE, "until_ns": None}]))
    link_proof = proof(folder, run)
    assert any(
        "the loss of the path was due at 1.000 s and never took effect" in problem for problem in link_proof.problems
    )


# --- a path that rewrites a port

REBOUND, KNOWN = 1_000 * MS, 1_100 * MS


def rewritten(folder: Path) -> None:
    """The path rewrites the client's port from a time on, and the server knows 100 ms later."""
    new, stale, right = (10_000).to_bytes(2, "big"), set(), []
    for t, head, length in records(folder, "right"):
        at = 36 if to_client(head) else 34
        if to_client(head) and REBOUND <= t - T0 < KNOWN:
            stale.add(head[PAYLOAD])
        changed = t - T0 >= (KNOWN if to_client(head) else REBOUND)
        right.append((t, head[:at] + new + head[at + 2 :] if changed else head, length))
    write(folder, "right", iter(right))
    write(folder, "left", (packet for packet in records(folder, "left") if packet[1][PAYLOAD] not in stale))


def rebinding(lab: dict[str, Any]) -> None:
    mapping = {"at_ns": REBOUND, "inner": [CLIENT, CLIENT6], "outer": [CLIENT, CLIENT6], "port": 10_000}
    move = {"at": REBOUND / 1e9, "how": "nat-port", "path": "", "addresses": [CLIENT, CLIENT6], "port": 10_000}
    lab["paths"][0]["mappings"] = [mapping]
    lab["flows"][0]["moves"] = [move]


def test_packets_whose_port_is_rewritten_are_the_same(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe())
    before = proof(tmp_path, run)
    rewritten(tmp_path)
    event = {"event": "change", "index": 0, "at": REBOUND / 1e9, "t": (T0 + REBOUND) / 1e9}
    edit_lab(tmp_path, rebinding, event)
    link_proof = proof(tmp_path, run)
    assert link_proof.valid, link_proof.problems
    assert (link_proof.to_client.unasked_drops, link_proof.to_server.unasked_drops) == (0, 0)
    assert link_proof.to_server.packets == before.to_server.packets
    assert link_proof.to_client.queue_drops == before.to_client.queue_drops


def test_a_port_that_is_rewritten_unasked_is_found(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe())
    rewritten(tmp_path)
    assert not proof(tmp_path, run).valid


# --- several paths


def twofold(tmp_path: Path) -> Run:
    """The run of one path, taken for one of two: the other one's client has addresses of its own."""
    run = write_run(tmp_path, Recipe())
    shutil.copytree(tmp_path / "sim", tmp_path / "sim-campus")
    for side in ("left", "right"):
        moved = [(t, _on_campus(head), length) for t, head, length in records(tmp_path, side)]
        write(tmp_path, side, iter(moved), "sim-campus")

    def both(lab: dict[str, Any]) -> None:
        lab["flows"][0]["client"]["addresses"] += ["193.167.25.100", "fd00:cafe:cafe:25::100"]
        campus = {**lab["paths"][0], "path": "campus", "simulator": "sim-campus",
                  "networks": ["193.167.25.0/24", "fd00:cafe:cafe:25::/64"]}  # fmt: skip
        lab["paths"] = [{**lab["paths"][0], "path": "cellular"}, campus]

    edit_lab(tmp_path, both)
    path = run.cell.scenario.path
    scenario = run.cell.scenario.model_copy(update={"path_": None, "paths": {"cellular": path, "campus": path}})
    return run.model_copy(update={"cell": run.cell.model_copy(update={"scenario": scenario})})


def test_each_of_several_paths_is_proven_and_counted_once(tmp_path: Path) -> None:
    run = twofold(tmp_path)
    view = RunView(tmp_path, run)
    assert view.left is not None
    alone = [view.of_path(name).left for name in ("cellular", "campus")]
    assert [len(capture) for capture in alone if capture is not None] == [len(view.left) // 2] * 2
    assert (np.diff(view.left.t_ns) >= 0).all()
    assert set(view.left.client_address.tolist()) == {0, 2}
    link_proof = proof(tmp_path, run)
    assert link_proof.valid, link_proof.problems
    assert link_proof.further["campus to_client"] == link_proof.to_client
    assert link_proof.to_client.packets == 3002
    # What one path has is there twice where both are looked at, and nothing is missing that one has.
    measured = measure(tmp_path, run)
    assert measured.warnings == ()
    drops = measured.value("queue_drops_to_client", transfer="first")
    assert drops == 2 * link_proof.to_client.queue_drops
    assert measured.value("queue_delay_p50_to_client", 0, "first") is not None
    # One of them spoilt is named.
    lines = (tmp_path / "sim-campus/counters.jsonl").read_text().splitlines()
    silent = [line.replace('"drops": ', '"drops": 0, "was": ') for line in lines]
    (tmp_path / "sim-campus/counters.jsonl").write_text("\n".join(silent))
    assert all(problem.startswith("campus: to_client:") for problem in proof(tmp_path, run).problems)


def test_series_of_several_paths(tmp_path: Path) -> None:
    alone_folder = tmp_path / "alone"
    alone_folder.mkdir()
    alone = RunView(alone_folder, write_run(alone_folder, Recipe())).series
    both = RunView(tmp_path, twofold(tmp_path)).series
    assert alone is not None and both is not None
    numbers = [bottleneck_number(path, 2, "to_client") for path in range(2)]
    assert len({*numbers, BOTTLENECK, NETWORK, RETURN_BOTTLENECK}) == 5
    for number in numbers:
        for name in ("queue_packets", "capacity", "drops", "sending_rate"):
            both_series, alone_series = both.points(number, name), alone.points(BOTTLENECK, name)
            assert (both_series.t == alone_series.t).all() and (both_series.value == alone_series.value).all()
    assert not len(both.points(BOTTLENECK, "capacity").t), "there is none that is the bottleneck"
    # What a flow met on either path is put together.
    assert (both.points(0, "drops").value == 2 * alone.points(0, "drops").value).all()
    assert alone.points(0, "drops").value.any()
    assert both.points(0, "one_way_delay").value == pytest.approx(alone.points(0, "one_way_delay").value)


def test_a_flow_s_rate_is_that_of_the_path_its_client_is_on(tmp_path: Path) -> None:
    view = RunView(tmp_path, twofold(tmp_path))
    assert view.lab is not None and view.series is not None
    facts = view.lab.flows[0].model_copy(
        update={
            "path": "campus",
            "moves": (LabMove(at=1.0, how="migrate", path="cellular", addresses=("193.167.1.2", "fd00::2")),),
        }
    )
    number = bottleneck_number(1, 2, "to_client")
    capacity = (pl.col("flow") == number) & (pl.col("name") == "capacity")
    frame = view.series.frame.with_columns(value=pl.when(capacity).then(77.0).otherwise("value"))
    flow = SharedFlow(view, replace(view.series, frame=frame), facts, view.series.lifetimes[0])
    asked = view.lab.links.to_client.rate_bps / 1e6
    assert flow.capacity(np.array([0.5, 1.0, 1.5])).tolist() == [77.0, asked, asked]


def test_every_simulator_counts(tmp_path: Path) -> None:
    run = twofold(tmp_path)
    cpu = tmp_path / "cpu.csv"
    alone = by_name(measure(tmp_path, run)).get("cpu_sim")
    assert alone is None, "nothing is known of one of them"
    rows = cpu.read_text().splitlines()
    cpu.write_text("\n".join([*rows, *(row.replace(",sim,", ",sim-campus,") for row in rows if ",sim," in row)]) + "\n")
    transfer = run.transfers[0]
    waits = ["t_ns,container,kind,ns"]
    for t_ns in range(transfer.started_ns, transfer.ended_ns, 100 * MS):
        waited = t_ns - transfer.started_ns
        waits += [f"{t_ns},sim,longest,{waited // 100}", f"{t_ns},sim-campus,longest,{waited // 4}"]
    (tmp_path / "waits.csv").write_text("\n".join(waits) + "\n")
    measured = measure(tmp_path, run)
    value = by_name(measured)
    assert value["cpu_sim"] == pytest.approx(2 * 0.7, abs=0.4)
    assert value["waiting_sim"] == pytest.approx(0.25, abs=0.001)
    (starved,) = measured.starved
    assert starved.startswith("sim-campus waited for a processor for 25% of the transfer")


def _on_campus(head: bytes) -> bytes:
    old, new = (bytes(map(int, text.split("."))) for text in (CLIENT, "193.167.25.100"))
    return head.replace(old, new, 1)
