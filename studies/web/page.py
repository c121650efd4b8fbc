"""The page about page loads."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from harness.report.studies import measured_cells
from studies.web.claims import CONNECTIONS, PATHS
from studies.web.compared import PageLoad, page_loads_of

_HEAD = ("client → server", "protocol", "runs", "page load, s", "byte index, s", "styles, s", "priorities")


def web(results: Sequence[CellResult]) -> str:
    """The page."""
    loads = page_loads_of(results)
    lines = [
        "# A page of 100 objects",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        "One client loads a page of 2.1 MB over one connection. It loads a document first. The document names 5",
        "styles, 20 scripts and 70 images. 4 fonts follow the styles.",
        "",
        "* *Page load* is the time from the client's first datagram until all objects are whole.",
        "* *Byte index* is how long the page is missing, its bytes on average.",
        "* *Styles* is the time until nothing keeps a browser from drawing.",
        "* *Priorities* says whether the server sends urgent responses first (RFC 9218). `harness check` tries it.",
        "",
    ]
    for scenario, path in PATHS.items():
        rows = [load for load in loads if load.scenario == scenario]
        lines += [f"## {path[0].upper()}{path[1:]}", "", f"`{scenario}`", ""]
        if not rows:
            lines += ["No runs are stored.", ""]
            continue
        marks = ["---", "---", *["---:"] * 4, "---"]
        lines += [table_row(_HEAD), table_row(marks), *(table_row(_row(load)) for load in rows), ""]
        if sentence := _sentence(rows):
            lines += [sentence, ""]
    lines += ["## Several connections", ""]
    lines += [
        "One client loads six files of 5 MB over one, two or six connections. The link has 20 Mbit/s and 40 ms. A",
        "download of Linux's TCP CUBIC runs beside them. The table has the seconds until the last file is whole, and",
        "the Mbit/s of TCP meanwhile and after it.",
        "",
    ]
    return "\n".join([*lines, *(_connections(results) or ["No runs are stored."]), ""])


def _connections(results: Sequence[CellResult]) -> list[str]:
    cells = {
        (f"{result.cell.client.name} → {result.cell.server.name}", count): result
        for scenario, count in CONNECTIONS.items()
        for result in measured_cells(results, scenario)
        if result.cell.virtual_time
    }
    rows = []
    for pair in sorted({pair for pair, _ in cells}):
        row = [pair]
        for count in CONNECTIONS.values():
            result = cells.get((pair, count))
            row.append("–" if result is None else span_text(result.interval("completion", 0, "first")))
            row.append("–" if result is None else span_text(result.interval("mean_throughput", 1)))
        rows.append(row)
    names = ("one connection", "two", "six")
    head = ["client → server", *(text for name in names for text in (f"{name}, s", "TCP, Mbit/s"))]
    return [table_row(head), table_row(["---", *["---:"] * 6]), *map(table_row, rows)] if rows else []


def _row(load: PageLoad) -> list[str]:
    return [
        load.pair,
        load.protocol,
        str(load.runs),
        span_text(load.load),
        span_text(load.byte_index),
        span_text(load.styled),
        "yes" if load.priorities else "no",
    ]


def _sentence(rows: Sequence[PageLoad]) -> str:
    """How many pairs of QUIC load it sooner than TCP does, and the fastest of each."""
    quic = [load for load in rows if load.kind == "QUIC"]
    tcp = [load for load in rows if load.kind == "TCP"]
    if not quic or not tcp:
        return ""
    sooner = [load for load in quic if load.load.median < tcp[0].load.median]
    text = (
        f"HTTPS over TCP loads the page in {number_text(tcp[0].load.median)} s. {len(sooner)} of {len(quic)} pairs of "
        f"QUIC load it sooner. The fastest, {quic[0].pair}, takes {number_text(quic[0].load.median)} s."
    )
    split = [load for load in rows if load.kind == "TCP with proxies"]
    if split:
        text += f" With proxies TCP takes {number_text(split[0].load.median)} s at best."
    return text
