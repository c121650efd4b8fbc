"""What uploads take, from stored runs: by pair, by the end that sends, and beside a download."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult, attributions
from harness.netem.bounds import ideal_time
from harness.netem.mobility import flow_timeline
from harness.outcome import Interval
from harness.planning.endpoint_config import application_protocol
from harness.report.diagnosis import time_text
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from harness.report.studies import measured_cells
from studies.uploads.claims import BOTH_WAYS, DOWNLOAD, MEDIUM, SERVER_AT_TERMINAL, SHORT, SMALL


def uploads(results: Sequence[CellResult]) -> str:
    """The page."""
    cells = [result for result in results if result.cell.virtual_time]
    return "\n".join(
        [
            "# Uploads",
            "",
            "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
            "",
            "A client sends a file, and its server keeps it. Time zero is the client's first datagram. A milestone is",
            "reached when the server's file has that size. A flow of [a scenario](scenario.md) asks for it with",
            "`upload: 100 MB`. A cell is *unsupported* where its client sends no files, or its server keeps none.",
            "",
            *_by_pair(cells, MEDIUM, "100 MB up over a GEO access of 50/10 Mbit/s and 650 ms"),
            *_by_pair(cells, SHORT, "10 MB up over a home access of 50/10 Mbit/s and 20 ms"),
            *_by_end(cells),
            *_both_ways(cells),
        ]
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], text_columns: Sequence[str] = ()) -> list[str]:
    marks = ["---" if column == 0 or name in text_columns else "---:" for column, name in enumerate(head)]
    return [table_row(head), table_row(marks), *map(table_row, rows), ""]


def _pair(result: CellResult) -> str:
    """'quic-go → aioquic, h3'."""
    cell = result.cell
    return f"{cell.client.name} → {cell.server.name}, {application_protocol(cell, 0)}"


def _seconds(result: CellResult, flow: int = 0, metric: str = "completion") -> Interval | None:
    """A time of a flow's first transfer, s; None where no run has it."""
    return result.interval(metric, flow, "first")


def _by_pair(cells: Sequence[CellResult], scenario: str, title: str) -> list[str]:
    """Every pair's milestones, the fastest first, and where the time of its median run went."""
    lines = [f"## {title}", ""]
    rows = []
    for result in measured_cells(cells, scenario):
        whole = _seconds(result)
        if whole is not None:
            times = [_seconds(result, 0, f"milestone_{size.label()}") for size in result.cell.scenario.milestones]
            because = "; ".join(time_text(transfer) for transfer in attributions(result)[:1])
            rows.append((whole.median, [_pair(result), *map(span_text, times), because]))
    if not rows:
        return [*lines, "No runs are stored.", ""]
    spec = next(result.cell.scenario for result in cells if result.cell.scenario.name == scenario)
    course = flow_timeline(spec)
    ideal = [number_text(ideal_time(course, size)) for size in spec.milestones]
    rows.append((0.0, ["*line rate at once*", *ideal, ""]))
    head = ["client → server", *(f"{size}, s" for size in spec.milestones), "because"]
    return [*lines, f"`{scenario}`", "", *_table(head, [row for _, row in sorted(rows)], ["because"])]


def _by_end(cells: Sequence[CellResult]) -> list[str]:
    """The same bytes over the same link from a client, and from a server that is placed at the client's end."""
    by_server = {
        result.cell.server.name: result
        for result in measured_cells(cells, SERVER_AT_TERMINAL)
        if result.cell.client.name == result.cell.server.name and not result.cell.parameters
    }
    rows = []
    for result in measured_cells(cells, SMALL):
        name = result.cell.client.name
        if name != result.cell.server.name:
            continue
        other = by_server.get(name)
        rows.append([name, span_text(_seconds(result)), span_text(None if other is None else _seconds(other))])
    lines = ["## Sent by a client, or by a server at the same end", ""]
    if not rows:
        return [*lines, "No runs are stored.", ""]
    lines += [
        "100 MB go over the return link of a small GEO access, at 2 Mbit/s. Either the client sends them",
        f"(`{SMALL}`), or a server that stands at the terminal (`{SERVER_AT_TERMINAL}`). The second is a download. It",
        "stands in for an upload where a client sends no files. It takes half a round trip more, for its request.",
        "",
    ]
    return [*lines, *_table(["stack", "from the client, s", "from the server, s"], rows)]


def _both_ways(cells: Sequence[CellResult]) -> list[str]:
    """A download and an upload at the same time, and each alone."""
    alone = {
        (scenario, _pair(result)): result
        for scenario in (DOWNLOAD, MEDIUM)
        for result in measured_cells(cells, scenario)
        if not result.cell.parameters
    }
    rows = []
    for result in measured_cells(cells, BOTH_WAYS):
        pair = _pair(result)
        row = [pair]
        for flow, scenario in enumerate((DOWNLOAD, MEDIUM)):
            single = alone.get((scenario, pair))
            row += [span_text(None if single is None else _seconds(single)), span_text(_seconds(result, flow))]
        rows.append(row)
    lines = ["## An upload beside a download", ""]
    if not rows:
        return [*lines, "No runs are stored.", ""]
    lines += [
        f"100 MB go down and 100 MB go up over a GEO access. They go alone (`{DOWNLOAD}`, `{MEDIUM}`) and at the same",
        f"time (`{BOTH_WAYS}`). The acknowledgements of each flow wait in the queue of the other.",
        "",
    ]
    head = ["client → server", "download alone, s", "beside the upload", "upload alone, s", "beside the download"]
    return [*lines, *_table(head, rows)]
