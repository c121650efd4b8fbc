"""TCP and HTTPS with and without the document's proxies, and QUIC from end to end, beside its objectives."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.evaluation.objective_claim import count_text, judge_claim, objectives_answer
from harness.outcome import Interval
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from harness.scenario.parameters import Role
from studies import ONLY_PICOQUIC
from studies.in_sequence.claims import LARGE_LOSSY, MEDIUM, NOT_RUN, ONLY, PROXIES, SIZES, SOURCE, WIFI, Path
from studies.in_sequence.compared import Kind, Row, bounds, met, rows, seeds

#: What the rows of each kind are called together.
_KINDS: dict[Kind, str] = {
    "tcp": "TCP without a proxy",
    "tcp split": "TCP behind proxies",
    "https": "HTTPS without a proxy",
    "https split": "HTTPS behind proxies",
    "quic": "QUIC",
}
_SHOWN = ("2 MB", "10 MB", "100 MB")
#: Parameters of the document's last slides, as runs show them: (role, parameter).
_OBSERVED: tuple[tuple[Role, str], ...] = (
    ("server", "congestion_control"),
    ("server", "initial_cwnd"),
    ("client", "ack_ratio"),
    ("client", "max_ack_delay"),
    ("client", "ack_delay_exponent"),
    ("client", "connection_window"),
)


def in_sequence(results: Sequence[CellResult]) -> str:
    """The page."""
    lines = [
        "# Paths in sequence: proxies that split TCP, and QUIC from end to end",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        f"{SOURCE}: a satellite is one segment of a path, and TCP's answer to segments that differ are proxies on both",
        "sides of it, which split each connection into three. What TCP takes with them became the objectives for QUIC,",
        "which nobody can split. Here the path is three simulators in a row, the proxies are HAProxy behind TPROXY, on",
        "Linux's TCP, and each run is proven: every segment by itself, and every connection as split.",
        "",
        "The document's proxies, both alike:",
        "",
        table_row(["proxy", "send buffer", "receive buffer", "initial windows, packets"]),
        table_row(["---", "---:", "---:", "---:"]),
        *(table_row([name, *settings]) for name, settings in PROXIES.items()),
        "",
        "Each size is a time from the client's first packet on, for TCP that of the connection that has the data, and",
        "once more from the first byte of the data on. The document measured TCP with iperf3, whose clock starts about",
        "then, when its connections are up and the test is arranged: its objectives are times of the second kind, and",
        "the first byte takes TCP here two round trips of the satellite, with a proxy or without: a connection is",
        "passed on when the proxy has its third segment, so that what it saves the client it takes itself. HTTPS is",
        "HTTP/2 over TLS 1.3 and the same TCP (Debian's nginx and curl): one download, whose connection, TLS and",
        "request take a round trip each. A proxy splits its TCP alone; TLS and HTTP/2, with its window of 10 MiB for",
        "a stream, go from end to end. *Set as D* are the settings of proxies D at both ends of a whole connection.",
        "",
        "*n* is how many seeds there are, and a figure is their median, with its interval where they differ: of six",
        "and more it has the true median with 95 %, of fewer it is the least and the most. Six are asked for where a",
        "segment loses at random. Where nothing on the path is random, another seed changes the random numbers of the",
        "endpoints alone: two are asked for, a row that is the same with both is *deterministic*, and more would tell",
        "nothing new.",
        "",
    ]
    for path in (MEDIUM, LARGE_LOSSY, WIFI):
        lines += _path(rows(results, path), path)
    lines += _claims(results)
    lines += _parameters(rows(results, MEDIUM))
    return "\n".join(lines)


def _path(found: list[Row], path: Path) -> list[str]:
    lines = [f"## {path.title[0].upper()}{path.title[1:]}", "", f"The document: {path.statement}", ""]
    if not found:
        return [*lines, "No runs are stored.", ""]
    head = ["", *(f"{size}, s" for size in _SHOWN), *(f"{size} from the first byte, s" for size in _SHOWN), "n"]
    limits = bounds(found[0])
    lines += [table_row(head), table_row(["---", *["---:"] * 7])]
    lines.append(table_row(["*objective*", *(f"{limits[size]:g}" for size in SIZES), *["–"] * 3, ""]))
    lines += [_row(row) for row in found]
    lines += ["", *_verdicts(found), ""]
    return lines


def _row(row: Row) -> str:
    whole, since = _spans(row)
    return table_row([row.name, *map(span_text, whole.values()), *map(span_text, since.values()), seeds(row)])


def _spans(row: Row) -> tuple[dict[str, Interval | None], dict[str, Interval | None]]:
    """Size → seconds, on either clock."""
    return {size: row.seconds(size) for size in SIZES}, {size: row.since_data(size) for size in SIZES}


def _verdicts(found: list[Row]) -> list[str]:
    """Who meets all objectives, on either clock; QUIC's has one."""
    said = []
    for kind, word in _KINDS.items():
        mine = [row for row in found if row.kind == kind]
        if kind == "quic":
            said += _quic_verdicts(mine)
            continue
        clocks = [f"{_names(mine, 0)} from the first packet on", f"{_names(mine, 1)} from the first byte on"]
        if mine:
            said.append(f"{word} meets all three: {', '.join(clocks)}.")
    return [" ".join(said)] if said else []


def _quic_verdicts(pairs: list[Row]) -> list[str]:
    """Which pairs meet all objectives, and which are not decided, by the rule of the document's claim."""
    if not pairs:
        return []
    meeting = [row.name for row in pairs if objectives_answer(row.result) == "meets"]
    undecided = [
        f"{row.name} ({count_text(row.result)})" for row in pairs if objectives_answer(row.result) == "undecided"
    ]
    lines = [f"QUIC meets all three: {', '.join(meeting) or 'none'} from the first packet on."]
    return [*lines, *([f"Not decided: {', '.join(undecided)}."] if undecided else [])]


def _names(found: list[Row], clock: int) -> str:
    meet = [row for row in found if len(met(row, _spans(row)[clock])) == len(SIZES)]
    return ", ".join(row.name.removeprefix("TCP, ").removeprefix("HTTPS, ") for row in meet) or "none"


def claim_rows(results: Sequence[CellResult]) -> list[list[str]]:
    """The document's claims: path, claim, what the runs show, and the verdict."""
    told = []
    for path in (MEDIUM, LARGE_LOSSY):
        found = rows(results, path)
        by_name = {row.name: row for row in found}
        for name in ("C", "D"):
            row = by_name.get(f"TCP, proxies {name}")
            if row is None:
                continue
            inside = met(row, _spans(row)[1])
            verdict = "borne out" if len(inside) == len(SIZES) else f"within for {_listed(inside)}"
            times = ", ".join(span_text(span) for span in _spans(row)[1].values())
            told.append([path.title, f"proxies {name} are where the objectives come from", f"{times} s", verdict])
        for protocol in ("TCP", "HTTPS"):
            base, best = by_name.get(f"{protocol}, no proxy (cubic)"), by_name.get(f"{protocol}, proxies D")
            if base is not None and best is not None:
                claim = f"transmission is faster with proxies ({protocol}, D)"
                told.append([path.title, claim, _gains(base, best), "see the figures"])
        answer = judge_claim(ONLY_PICOQUIC[path.name], results)
        if answer.status != "not run":
            counts = answer.text.removeprefix(f"{answer.status}: ")
            told.append([path.title, ONLY, counts, answer.status])
    return told


def _claims(results: Sequence[CellResult]) -> list[str]:
    """The document's claims, and what the runs say to them."""
    claims = claim_rows(results)
    if not claims:
        return []
    absent = "; ".join(f"{name} is not run: {why}" for name, why in NOT_RUN.items())
    return [
        "## The document's claims",
        "",
        table_row(["path", "claim", "here", "verdict"]),
        table_row(["---"] * 4),
        *map(table_row, claims),
        "",
        f"Of the document's servers {absent}.",
        "Of each pair the cell with the most runs counts, on this path or on one link of the same rate, delay and loss",
        "(`satellite/medium`, `satellite/large-lossy`).",
        "",
    ]


def _listed(sizes: Sequence[str]) -> str:
    return " and ".join(size.replace("MB", " MB") for size in sizes) or "no size"


def _gains(base: Row, best: Row) -> str:
    """How many times faster each size came."""
    said = []
    for size in SIZES:
        slow, fast = base.seconds(size), best.seconds(size)
        if slow is not None and fast is not None:
            said.append(f"{size.replace('MB', ' MB')}: {number_text(slow.median)} → {number_text(fast.median)} s")
    return ", ".join(said)


def _parameters(found: list[Row]) -> list[str]:
    """What the pairs' endpoints were seen to do, of their first runs."""
    pairs = [row for row in found if row.kind == "quic"]
    if not pairs:
        return []
    lines = [
        "## Parameters",
        "",
        "What the captures and the endpoints' own logs show of each pair on 50/10 Mbit/s (first run; – where nothing",
        "tells).",
        "",
        table_row(["pair", *(f"{name} ({role})" for role, name in _OBSERVED)]),
        table_row(["---", *["---:"] * len(_OBSERVED)]),
    ]
    for row in pairs:
        measured = next((measured_run for _, measured_run in row.result.runs if measured_run is not None), None)
        seen = (
            {}
            if measured is None
            else {(observation.role, observation.parameter): observation for observation in measured.observed}
        )
        cells = [
            "–"
            if (observation := seen.get(key)) is None
            else f"{_value(observation.value)} {observation.unit if observation.unit != '1' else ''}".strip()
            for key in _OBSERVED
        ]
        lines.append(table_row([row.name, *cells]))
    return [*lines, ""]


def _value(value: object) -> str:
    return number_text(float(value)) if isinstance(value, int | float) else str(value)
