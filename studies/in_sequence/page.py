"""TCP and HTTPS with and without the document's proxies, and QUIC from end to end, beside its objectives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.evaluation.cell_result import CellResult
from harness.evaluation.objective_claim import count_text, judge_claim, objectives_answer
from harness.outcome import Interval
from harness.report.markdown import table_row
from harness.report.numbers import number_text, span_text
from harness.scenario.parameters import Role
from studies import FIGURE, ONLY_PICOQUIC, list_items
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
#: What the two clocks of the tables are.
_CLOCKS = (
    "Each size has two times. One runs from the client's first packet on; for TCP it is the first packet of the",
    "connection that has the data. The other runs from the first byte of the data on.",
    "",
    "The document measured TCP with iperf3. Its clock starts at about the first byte, when the connections are up and",
    "the test is arranged. The document's objectives are therefore times of the second kind.",
    "Here TCP needs two round trips of the satellite for the first byte, with a proxy or without.",
    "A proxy passes a connection on when it has the connection's third segment.",
    "The proxy itself then takes the time that it saves the client.",
    "",
    "HTTPS is HTTP/2 over TLS 1.3 and the same TCP (Debian's nginx and curl).",
    "It is one download, whose connection, TLS and request take a round trip each.",
    "A proxy splits its TCP alone. TLS and HTTP/2 go from end to end, with HTTP/2's window of 10 MiB for a stream.",
    "*Set as D* are the settings of proxies D at both ends of a whole connection.",
)
#: What `n` says, and the intervals.
_SEEDS = (
    "*n* is the number of seeds. A figure is their median, with an interval if they differ.",
    "With six seeds or more the interval has the true median with 95 %. With fewer it is the least and the most.",
    "",
    "Six seeds are asked for if a segment loses at random. If nothing on the path is random, two are asked for.",
    "Another seed then changes the random numbers of the endpoints alone.",
    "A row that is the same with both is *deterministic*: more seeds would tell nothing new.",
)


def in_sequence(results: Sequence[CellResult]) -> str:
    """The page."""
    paths = (MEDIUM, LARGE_LOSSY, WIFI)
    rows_by_path = {path.name: rows(results, path) for path in paths}
    lines = [
        "# Paths in sequence: proxies that split TCP, and QUIC from end to end",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        *list_items(text for path in paths for text in _summary(path, rows_by_path[path.name])),
        FIGURE,
        "",
        f"The document is {SOURCE}.",
        "A satellite is one segment of a path. TCP answers to segments that differ with proxies on both sides of it.",
        "These split each connection into three. The document takes the times of TCP with them as objectives for QUIC,",
        "which nobody can split.",
        "",
        "Here the path is three simulators in a row. The proxies are HAProxy behind TPROXY, on Linux's TCP.",
        "Each run is proven: every segment by itself, and every connection as split.",
        "",
        "The document's proxies, both alike:",
        "",
        table_row(["proxy", "send buffer", "receive buffer", "initial windows, packets"]),
        table_row(["---", "---:", "---:", "---:"]),
        *(table_row([name, *settings]) for name, settings in PROXIES.items()),
        "",
        *_CLOCKS,
        "",
        *_SEEDS,
        "",
    ]
    for path in paths:
        lines += _path(rows_by_path[path.name], path)
    lines += _claims(results)
    lines += _parameters(rows_by_path[MEDIUM.name])
    return "\n".join(lines)


def _summary(path: Path, path_rows: Sequence[Row]) -> Iterator[str]:
    """Which pairs of QUIC, and which proxies, meet all objectives of a path; nothing without runs of them."""
    pairs, proxies = ([row for row in path_rows if row.kind == kind] for kind in ("quic", "tcp split"))
    texts = []
    if pairs:
        names = _names_meeting(pairs, "")
        texts.append(
            f"QUIC meets all three objectives with {names}" if names else "no pair of QUIC meets all objectives"
        )
    if proxies:
        names = _names(proxies, 1, "")
        meeting = f"TCP meets them from the first byte on with {names}" if names else "no proxies make TCP meet them"
        texts.append(meeting)
    if texts:
        yield " ".join(f"{text}." for text in [f"{_title(path)}: {'; '.join(texts)}", *_undecided(pairs)])


def _title(path: Path) -> str:
    return path.title[0].upper() + path.title[1:]


def _path(path_rows: list[Row], path: Path) -> list[str]:
    lines = [f"## {_title(path)}", "", f"The document: {path.statement}", ""]
    if not path_rows:
        return [*lines, "No runs are stored.", ""]
    head = ["", *(f"{size}, s" for size in _SHOWN), *(f"{size} from the first byte, s" for size in _SHOWN), "n"]
    limits = bounds(path_rows[0])
    lines += [table_row(head), table_row(["---", *["---:"] * 7])]
    lines.append(table_row(["*objective*", *(f"{limits[size]:g}" for size in SIZES), *["–"] * 3, ""]))
    lines += [_row(row) for row in path_rows]
    lines += ["", *_verdicts(path_rows), ""]
    return lines


def _row(row: Row) -> str:
    whole, since = _spans(row)
    return table_row([row.name, *map(span_text, whole.values()), *map(span_text, since.values()), seeds(row)])


def _spans(row: Row) -> tuple[dict[str, Interval | None], dict[str, Interval | None]]:
    """Size → seconds, on either clock."""
    return {size: row.seconds(size) for size in SIZES}, {size: row.since_data(size) for size in SIZES}


def _verdicts(path_rows: list[Row]) -> list[str]:
    """Who meets all objectives, on either clock, an item a kind; QUIC's has one. Then who is not decided."""
    texts = []
    for kind, word in _KINDS.items():
        mine = [row for row in path_rows if row.kind == kind]
        if mine and kind == "quic":
            texts.append(f"{word}: {_names_meeting(mine)} from the first packet on.")
        elif mine:
            texts.append(
                f"{word}: {_names(mine, 0)} from the first packet on, {_names(mine, 1)} from the first byte on."
            )
    lines = ["These rows meet all three objectives:", "", *(f"* {text}" for text in texts)] if texts else []
    return [*lines, *(f"\n{text}." for text in _undecided([row for row in path_rows if row.kind == "quic"]))]


def _names_meeting(pairs: Sequence[Row], none: str = "none") -> str:
    """The pairs that meet all objectives, by the rule of the document's claim."""
    return ", ".join(row.name for row in pairs if objectives_answer(row.result) == "meets") or none


def _undecided(pairs: Sequence[Row]) -> list[str]:
    """The pairs that are not decided by that rule, in a sentence without its stop; empty without any."""
    names = [f"{row.name} ({count_text(row.result)})" for row in pairs if objectives_answer(row.result) == "undecided"]
    return [f"Not decided: {', '.join(names)}"] if names else []


def _names(path_rows: list[Row], clock: int, none: str = "none") -> str:
    meet = [row for row in path_rows if len(met(row, _spans(row)[clock])) == len(SIZES)]
    return ", ".join(row.name.removeprefix("TCP, ").removeprefix("HTTPS, ") for row in meet) or none


def claim_rows(results: Sequence[CellResult]) -> list[list[str]]:
    """The document's claims: path, claim, what the runs show, and the verdict."""
    claims = []
    for path in (MEDIUM, LARGE_LOSSY):
        path_rows = rows(results, path)
        by_name = {row.name: row for row in path_rows}
        for name in ("C", "D"):
            row = by_name.get(f"TCP, proxies {name}")
            if row is None:
                continue
            inside = met(row, _spans(row)[1])
            verdict = "borne out" if len(inside) == len(SIZES) else f"within for {_listed(inside)}"
            times = ", ".join(span_text(span) for span in _spans(row)[1].values())
            claims.append([path.title, f"proxies {name} are where the objectives come from", f"{times} s", verdict])
        for protocol in ("TCP", "HTTPS"):
            base, best = by_name.get(f"{protocol}, no proxy (cubic)"), by_name.get(f"{protocol}, proxies D")
            if base is not None and best is not None:
                claim = f"transmission is faster with proxies ({protocol}, D)"
                claims.append([path.title, claim, _gains(base, best), "see the figures"])
        answer = judge_claim(ONLY_PICOQUIC[path.name], results)
        if answer.status != "not run":
            counts = answer.text.removeprefix(f"{answer.status}: ")
            claims.append([path.title, ONLY, counts, answer.status])
    return claims


def _claims(results: Sequence[CellResult]) -> list[str]:
    """The document's claims, and what the runs say to them."""
    claims = claim_rows(results)
    if not claims:
        return []
    absent = "; ".join(f"{name} ({why})" for name, why in NOT_RUN.items())
    return [
        "## The document's claims",
        "",
        table_row(["path", "claim", "here", "verdict"]),
        table_row(["---"] * 4),
        *map(table_row, claims),
        "",
        f"The document has these servers that are not run here: {absent}.",
        "For each pair the cell with the most runs counts.",
        "It is on this path, or on one link of the same rate, delay and loss",
        "(`satellite/medium`, `satellite/large-lossy`).",
        "",
    ]


def _listed(sizes: Sequence[str]) -> str:
    return " and ".join(size.replace("MB", " MB") for size in sizes) or "no size"


def _gains(base: Row, best: Row) -> str:
    """How many times faster each size came."""
    gains = []
    for size in SIZES:
        slow, fast = base.seconds(size), best.seconds(size)
        if slow is not None and fast is not None:
            gains.append(f"{size.replace('MB', ' MB')}: {number_text(slow.median)} → {number_text(fast.median)} s")
    return ", ".join(gains)


def _parameters(path_rows: list[Row]) -> list[str]:
    """What the pairs' endpoints were seen to do, of their first runs."""
    pairs = [row for row in path_rows if row.kind == "quic"]
    if not pairs:
        return []
    lines = [
        "## Parameters",
        "",
        "The table has what the captures and the endpoints' own logs show of each pair on 50/10 Mbit/s.",
        "It is of the first run. A – means that nothing tells.",
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
