"""What people are told of where the time went, and when it is looked for again."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from harness.analysis.metrics import VERSION as MEASURING
from harness.analysis.time_breakdown import VERSION, attribute
from harness.evaluation.cell_result import CellResult, attributions
from harness.execution.measured_store import StoredResults
from harness.outcome import Attributed, Attribution, MeasuredRun, Outcome, State, StateShare
from harness.report import diagnosis
from harness.report.document import Column, Row, Table
from harness.report.markdown import render_blocks
from harness.report.results import results_blocks, results_document
from harness.report.site.cell import bands, cell_page
from harness.report.site.cell import time_breakdowns as bars
from harness.report.site.pictures import LEFT, received_picture
from harness.report.terminal import FittedTable
from harness.store.parquet import ColumnStore, write_columns
from harness.store.parquet.tables import StoredRun
from harness.store.results import Store
from tests.engine_pairs import result, run
from tests.examples import scenario
from tests.rendering import printed
from tests.unit.captures import Link, Recipe, write_run

PARTS: dict[State, tuple[float, str]] = {
    "handshake": (0.65, ""),
    "request": (0.65, ""),
    "slow_start": (3.9, "from 10 packets"),
    "recovery": (2.1, "12 packets lost"),
    "sender_idle": (1.2, "with 64 kB in flight"),
    "unexplained": (0.01, ""),
    "line_rate": (16.09, ""),
}


def attribution(scale: float = 1.0) -> Attribution:
    parts = tuple(StateShare(state=state, seconds=value * scale, note=note) for state, (value, note) in PARTS.items())
    seconds = sum(part.seconds for part in parts)
    text = "h3q3s16r9i5l64"
    return Attribution(
        flow=0, transfer="first", size=10_000_000, seconds=seconds, parts=parts, bands=text
    )  # fmt: skip


def attributed_result(*scales: float, bound: str = "20 s", version: int = VERSION) -> CellResult:
    """A cell that was to have 10 MB within a time, with a run for each scale of the parts."""
    asked = scenario(objectives=[{"metric": "milestone_10MB", "at_most": bound}])
    pairs = []
    for scale in scales:
        transfer = attribution(scale)
        ended_run, measured = run(milestone_10MB=transfer.seconds, completion=transfer.seconds)
        assert measured is not None
        pairs.append(
            (ended_run, measured.model_copy(update={"attributed": Attributed(version=version, transfers=(transfer,))}))
        )
    return result("virtual", *pairs, definition=asked)


def test_the_sentence_has_what_was_beyond_what_every_transfer_needs() -> None:
    assert diagnosis.time_sentence(attribution(), attributed_result(1.0)) == (
        "10 MB in 24.6 s, 4.6 s over: 3.9 s in slow start from 10 packets, 2.1 s in recovery (12 packets lost), "
        "1.2 s with the sender idle with 64 kB in flight; line rate for 16.1 s, handshake and request 1.3 s."
    )
    assert ", 4.6 s over" not in diagnosis.time_sentence(attribution(), attributed_result(1.0, bound="25 s"))


def test_a_column_has_the_three_largest() -> None:
    assert diagnosis.time_text(attribution()) == (
        "slow start 3.9 s from 10 packets, recovery 2.1 s (12 packets lost), sender idle 1.2 s with 64 kB in flight; "
        "line rate 16.1 s"
    )


def test_the_run_in_the_middle_speaks_for_its_cell() -> None:
    (transfer,) = attributions(attributed_result(2.0, 1.0, 3.0))
    assert transfer == attribution(2.0)
    assert attributions(result("virtual", run(completion=1.0))) == []


def test_what_is_short_of_an_objective_says_why_and_what_meets_it_does_not() -> None:
    missed, met = attributed_result(1.0), attributed_result(1.0, bound="25 s")
    assert diagnosis.time_lines([missed, met]) == [f"{missed.name}: {diagnosis.time_sentence(attribution(), missed)}"]


def test_the_readme_has_a_line_for_each_that_misses_the_slowest_first() -> None:
    rendered = render_blocks(
        diagnosis.diagnosis_blocks(
            [attributed_result(1.0), attributed_result(1.0, bound="25 s"), attributed_result(2.0)]
        )
    )
    head, _, *lines = rendered.splitlines()
    assert head == "| client → server | s | over | because |"
    assert [line.split(" | ")[1:3] for line in lines] == [["49.20", "29.20"], ["24.60", "4.60"]]
    assert lines[1].endswith(f"| {diagnosis.time_text(attribution())} |")
    assert (
        render_blocks(
            diagnosis.diagnosis_blocks([attributed_result(1.0, bound="25 s"), result("virtual", run(completion=1.0))])
        )
        == ""
    )


def test_what_older_rules_told_is_marked() -> None:
    older, today = attributed_result(1.0, version=VERSION - 1), attributed_result(2.0)
    _, _, first, second, *rest = render_blocks(diagnosis.diagnosis_blocks([today, older])).splitlines()
    assert "‡" not in first and second.endswith(" ‡ |") and rest == ["", f"‡ {diagnosis.OLDER_RULES_NOTE}"]
    assert (
        bars(older)[0].sentence.endswith(diagnosis.OLDER_RULES_NOTE)
        and diagnosis.OLDER_RULES_NOTE not in bars(today)[0].sentence
    )


def test_the_readme_names_each_that_failed_with_the_last_word_of_its_log() -> None:
    ended_run, measured = run(completion=1.0)
    end = Outcome(status="crashed", role="client", exit_code=1, log_tail=("begun", "too many gaps | really\n"))
    silent = Outcome(status="timed_out", role="client", detail="not done after 120 s")
    crashed = result("virtual", (ended_run.model_copy(update={"outcome": end}), measured))
    late = result("virtual", (ended_run.model_copy(update={"outcome": silent}), measured))
    lines = render_blocks(diagnosis.diagnosis_blocks([crashed, late, crashed])).splitlines()[2:]
    assert lines == [
        f"| {crashed.name}, {crashed.name} | – | – | crashed client: “too many gaps \\| really” |",
        f"| {late.name} | – | – | timed out client: not done after 120 s |",
    ]
    # One that failed once and else shows where its time went is in the table by that.
    (whole,) = (attributed_result(1.0),)
    mixed = result(
        "virtual",
        *whole.runs,
        (ended_run.model_copy(update={"outcome": end}), measured),
        definition=whole.cell.scenario,
    )
    assert "crashed" not in render_blocks(diagnosis.diagnosis_blocks([mixed]))


def _printed(results: list[CellResult], width: int) -> str:
    return printed(results_blocks(results), width)


def test_the_table_has_the_column_where_it_fits() -> None:
    wide, narrow, none = (
        _printed([attributed_result(1.0)], 250),
        _printed([attributed_result(1.0)], 70),
        _printed([attributed_result()], 250),
    )
    assert " because " in wide and "slow start 3.9 s from 10 packets" in wide
    assert " because " not in narrow and "because:" not in narrow
    assert "in slow start from 10 packets" in " ".join(narrow.split())
    assert "because" not in none


def test_a_column_that_is_there_if_it_fits_does_not_make_parts() -> None:
    columns = [Column("who", identifies=True), Column("a"), Column("why", text=24, if_fits=True)]
    fitted = FittedTable(Table(columns, [Row(["x" * 10, "1", "because " * 20])], "title"))
    out = io.StringIO()
    Console(file=out, width=30).print(fitted)
    assert "parts" not in out.getvalue() and "why" not in out.getvalue()
    out = io.StringIO()
    Console(file=out, width=60).print(fitted)
    assert "why" in out.getvalue()


def test_json_has_parts_that_add_up_and_bounds() -> None:
    (cell,) = results_document([attributed_result(1.0)]).data["cells"]
    (breakdown,) = cell["because"]
    assert sum(part["seconds"] for part in breakdown["parts"]) == pytest.approx(breakdown["seconds"])
    slow = next(part for part in breakdown["parts"] if part["state"] == "slow_start")
    assert slow["bound_without"] == pytest.approx(24.6 - 3.9)
    assert breakdown["bands"] == attribution().bands


def test_the_site_has_a_bar_and_bands_below_the_curve() -> None:
    shown_result = attributed_result(1.0)
    (bar,) = bars(shown_result)
    assert sum(share.percent for share in bar.shares) == pytest.approx(100, abs=0.1)
    assert bar.shares[-1].word == "line rate" and bar.shares[0].word == ""
    assert bar.rows[2] == ["", "slow start", "3.90", "15.8", "20.70", "from 10 packets"]
    picture = received_picture(shown_result)
    assert picture is not None
    drawn_bands = bands(shown_result, picture)
    assert [band.state for band in drawn_bands] == [
        "handshake",
        "request",
        "slow_start",
        "recovery",
        "sender_idle",
        "line_rate",
    ]
    assert drawn_bands[0].x == LEFT
    assert sum(band.width for band in drawn_bands) == pytest.approx(picture.x(24.6) - LEFT, abs=0.7)
    page = cell_page(shown_result)
    assert page.because == (bar,) and page.bands == drawn_bands
    assert cell_page(result("virtual", run(completion=1.0))).because == ()


def test_columns_keep_it(tmp_path: Path) -> None:
    (ended_run, measured), *_ = attributed_result(1.0).runs
    assert measured is not None
    write_columns(tmp_path, [StoredRun(ended_run, measured)], [])
    kept = ColumnStore(tmp_path).measured(ended_run.cell.key, 0)
    assert kept is not None and kept.attributed == measured.attributed
    # Stores that are older than it are read.
    frame = pl.read_parquet(tmp_path / "runs.parquet").drop("measured_attributed")
    frame.write_parquet(tmp_path / "runs.parquet")
    older = ColumnStore(tmp_path).measured(ended_run.cell.key, 0)
    assert older == measured.model_copy(update={"attributed": None})


def test_a_run_s_artefacts_tell_where_its_time_went(tmp_path: Path) -> None:
    """Data at 1.3 times the link's rate, from the beginning: the bottleneck serves without a gap but for what its queue
    drops, and the way before takes two round trips of 100 ms."""
    recorded = write_run(tmp_path, Recipe(configured=Link(burst_bytes=None), configured_up=Link(burst_bytes=None)))
    (transfer,) = attribute(tmp_path, recorded).transfers
    assert sum(part.seconds for part in transfer.parts) == pytest.approx(transfer.seconds, abs=1e-9)
    assert transfer.seconds_in("handshake") == pytest.approx(0.102, abs=0.001)
    assert transfer.seconds_in("request") == pytest.approx(0.105, abs=0.005)
    assert transfer.seconds_in("line_rate") > 0.9 * (transfer.seconds - 0.207)


def test_without_captures_the_reason_is_said(tmp_path: Path) -> None:
    recorded = write_run(tmp_path, Recipe())
    for name in ("left", "right"):
        (tmp_path / f"sim/trace_node_{name}.pcap").unlink()
    attributed = attribute(tmp_path, recorded)
    assert attributed.transfers == ()
    (absent,) = attributed.absent
    assert "no datagram of the client was captured" in absent.why


def _kept(folder: Path) -> tuple[Store, Path]:
    store = Store(folder / "store")
    place = store.begin("0" * 16, 0)
    recorded = write_run(place, Recipe())
    measured = MeasuredRun(version=MEASURING, warnings=("as it was",))
    return store, store.finish(place, recorded, measured)


def test_it_is_looked_for_again_by_itself(tmp_path: Path) -> None:
    """Measurements stay as they are: only where the time went is of an older version, or was never looked for."""
    store, _ = _kept(tmp_path)
    (stored_run,) = store.runs("0" * 16)
    measured_run = StoredResults(store, store).measured(stored_run)
    assert measured_run is not None and measured_run.attributed is not None
    assert measured_run.attributed.version == VERSION and measured_run.attributed.transfers
    assert (measured_run.warnings, measured_run.measurements) == (("as it was",), ())
    assert store.measured("0" * 16, 0) == measured_run


def test_what_is_of_today_is_not_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = _kept(tmp_path)
    (stored_run,) = store.runs("0" * 16)
    first = StoredResults(store, store).measured(stored_run)

    def never(*_: object) -> Attributed:
        raise AssertionError("it is of today")

    monkeypatch.setattr("harness.analysis.time_breakdown.attribute", never)
    assert StoredResults(store, store).measured(stored_run) == first
    # A store that is not written to is shown as it is.
    assert StoredResults(store, None).measured(stored_run) == first
