"""The page about page loads."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count, format_list
from harness.report.markdown import table_row
from harness.report.numbers import span_text
from harness.report.studies import measured_cells
from harness.stats.two_sample import compare
from studies import FIGURE, list_items
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
        *list_items(_sentences(loads)),
        FIGURE,
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


def _sentences(loads: Sequence[PageLoad]) -> Iterator[str]:
    """By path: the fastest pair, and how many are faster than TCP; then what proxies and priorities are worth."""
    for scenario, path in PATHS.items():
        quic, tcp, split = (_of_kind(loads, scenario, kind) for kind in ("QUIC", "TCP", "TCP with proxies"))
        if not quic:
            continue
        parts = [f"the fastest pair, {quic[0].pair}, takes {span_text(quic[0].load)} s"]
        if tcp:
            sooner = sum(load.load.median < tcp[0].load.median for load in quic)
            proxied = f" ({span_text(split[0].load)} s with proxies)" if split else ""
            parts += [f"HTTPS over TCP takes {span_text(tcp[0].load)} s{proxied}"]
            parts += [f"{sooner} of {len(quic)} pairs of QUIC are faster"]
        yield f"{path[0].upper()}{path[1:]}: {format_list(parts)}."
    yield from _priorities(loads)


def _priorities(loads: Sequence[PageLoad]) -> list[str]:
    """What priorities change, on the first path that can tell: a server is one value, the median over its clients."""
    for scenario, path in PATHS.items():
        styled: dict[bool, dict[str, list[float]]] = {True: {}, False: {}}
        for load in _of_kind(loads, scenario, "QUIC"):
            if load.styled is not None:
                server = load.pair.rpartition(" → ")[2]
                styled[load.priorities].setdefault(server, []).append(load.styled.median)
        sent, unsent = ([statistics.median(times) for times in styled[kind].values()] for kind in (True, False))
        if not sent or not unsent:
            continue
        difference = compare(sent, unsent)
        if difference.factor is None or difference.p is None:
            continue
        chance = "which chance alone can do" if difference.low <= 1 <= difference.high else "more than chance does"
        return [
            f"Priorities: over {path.partition(',')[0]}, {format_count(len(sent), 'server')} with them and "
            f"{len(unsent)} without differ by a factor of {difference.factor:.2f} [{difference.low:.2f}, "
            f"{difference.high:.2f}] in the time until the styles are there, {chance}."
        ]
    return []


def _of_kind(loads: Sequence[PageLoad], scenario: str, kind: str) -> list[PageLoad]:
    return [load for load in loads if (load.scenario, load.kind) == (scenario, kind)]
