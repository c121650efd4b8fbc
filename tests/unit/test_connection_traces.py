"""Which qlog is of a connection: one rule, for retransmissions, sender's state and observed parameters alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.analysis.run_view import RunView
from harness.analysis.timeseries.sender import traces_of
from tests.unit.captures import Recipe, write_run


def view_of(folder: Path, transfers: int) -> RunView:
    """A run of so many transfers of one flow."""
    run = write_run(folder, Recipe(packets=300, size=300_000, repeat=transfers > 1))
    assert len(run.transfers) == transfers
    return RunView(folder, run)


def trace(view: RunView, name: str, start_ns: int | None = None, events: int = 1) -> Path:
    """A server's trace, with or without a clock of its own."""
    folder = view.folder / "flow0/server/qlog"
    folder.mkdir(parents=True, exist_ok=True)
    clock = "" if start_ns is None else f'"common_fields":{{"reference_time":{start_ns / 1e6}}}'
    lines = [f'\x1e{{"trace":{{{clock}}}}}', *['\x1e{"time":1,"name":"transport:packet_sent","data":{}}'] * events]
    path = folder / f"{name}.sqlog"
    path.write_text("\n".join(lines))
    return path


def connection_id(view: RunView, window: int) -> str:
    assert view.left is not None
    transfer_window = view.windows[window]
    return (
        view.left.between(transfer_window.start_ns, transfer_window.end_ns, 0, to_client=False)
        .first_destination()
        .hex()
    )


def test_the_only_transfer_s_traces_are_all_of_it_and_the_largest_leads(tmp_path: Path) -> None:
    view = view_of(tmp_path, 1)
    small, large = trace(view, "a"), trace(view, "b", events=9)
    assert traces_of(view, view.windows[0], "server") == [large, small]
    assert traces_of(view, view.windows[0], "client") == []


def test_what_names_the_connection_leads(tmp_path: Path) -> None:
    view = view_of(tmp_path, 1)
    name = connection_id(view, 0)
    if not name:
        pytest.skip("the made-up client has no connection ID")
    large, named = trace(view, "b", events=9), trace(view, f"{name}_server")
    assert traces_of(view, view.windows[0], "server") == [named, large]


def test_of_two_transfers_each_has_those_that_begin_in_its_time(tmp_path: Path) -> None:
    view = view_of(tmp_path, 2)
    first, second = (trace(view, str(number), view.windows[number].start_ns + 10**8) for number in range(2))
    trace(view, "without a clock", events=9)
    assert traces_of(view, view.windows[0], "server") == [first]
    assert traces_of(view, view.windows[1], "server") == [second]
