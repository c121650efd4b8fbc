"""What uploads take, from stored runs: by pair, by the end that sends, and beside a download."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.evaluation.cell_result import CellResult, attributions
from harness.report.diagnosis import time_text
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from harness.report.studies import measured_cells
from harness.stats.intervals import interval
from studies import FIGURE, extremes_text, list_items
from studies.uploads.claims import BOTH_WAYS, DOWNLOAD, MEDIUM, PATHS, SERVER_AT_TERMINAL, SHORT, SMALL
from studies.uploads.compared import (
    alone_and_beside,
    completed_cells,
    ideal_times,
    milestone,
    pair_text,
    ratio,
    seconds,
)


def uploads(results: Sequence[CellResult]) -> str:
    """The page."""
    cells = [result for result in results if result.cell.virtual_time]
    return "\n".join(
        [
            "# Uploads",
            "",
            "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
            "",
            *list_items(_sentences(cells)),
            FIGURE,
            "",
            "A client sends a file, and its server keeps it. Time zero is the client's first datagram. A milestone is",
            "reached when the server's file has that size. A flow of [a scenario](scenario.md) asks for it with",
            "`upload: 100 MB`. A cell is *unsupported* where its client sends no files, or its server keeps none.",
            "",
            *_by_pair(cells, MEDIUM),
            *_by_pair(cells, SHORT),
            *_by_end(cells),
            *_both_ways(cells),
        ]
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], text_columns: Sequence[str] = ()) -> list[str]:
    marks = ["---" if column == 0 or name in text_columns else "---:" for column, name in enumerate(head)]
    return [table_row(head), table_row(marks), *map(table_row, rows), ""]


def _sentences(cells: Sequence[CellResult]) -> Iterator[str]:
    """By path: the times of the first milestone and of the whole; then what a transfer the other way costs."""
    for scenario, (_, path) in PATHS.items():
        completed = completed_cells(cells, scenario)
        if not completed:
            continue
        parts = list(ideal_times(completed[0]).items())
        for part, ideal in [parts[-1], parts[0]] if scenario == MEDIUM else parts[-1:]:
            spans = {pair_text(cell): span for cell in completed if (span := milestone(cell, part)) is not None}
            if spans:
                times = extremes_text(spans, "{} s ({})")
                yield f"{part} up over {path}: {times}; the line rate allows {number_text(ideal)} s."
    both = alone_and_beside(cells).items()
    for what, other, place in (("A download", "an upload", 0), ("An upload", "a download", 2)):
        ratios = {pair: cost for pair, row in both if (cost := ratio(row[place + 1], row[place])) is not None}
        if ratios:
            text = extremes_text({pair: interval([cost]) for pair, cost in ratios.items()}, "{} ({})")
            yield f"{what} beside {other} takes {text} times as long as alone, by medians."


def _by_pair(cells: Sequence[CellResult], scenario: str) -> list[str]:
    """Every pair's milestones, the fastest first, and where the time of its median run went."""
    size, path = PATHS[scenario]
    lines = [f"## {size} up over {path}", ""]
    completed = completed_cells(cells, scenario)
    if not completed:
        return [*lines, "No runs are stored.", ""]
    ideals = ideal_times(completed[0])
    rows = [["*line rate at once*", *map(number_text, ideals.values()), ""]]
    for result in completed:
        because = "; ".join(time_text(transfer) for transfer in attributions(result)[:1])
        rows.append([pair_text(result), *(span_text(milestone(result, size)) for size in ideals), because])
    head = ["client → server", *(f"{size}, s" for size in ideals), "because"]
    return [*lines, f"`{scenario}`", "", *_table(head, rows, ["because"])]


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
        rows.append([name, span_text(seconds(result)), span_text(None if other is None else seconds(other))])
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
    rows = [[pair, *map(span_text, spans)] for pair, spans in alone_and_beside(cells).items()]
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
