"""How stacks respond to a client that moves: a table over all servers, with the evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.evaluation.cell_result import CellResult
from harness.outcome import Handover, proven_outcome
from harness.report.document import Block, BulletList, Column, Document, Paragraph, Row, Table
from harness.report.numbers import number_text, span_text
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Scenario
from harness.topology import flow_label

# --- What a published survey says that stacks do to their congestion window when a client moves.
#
# sivaahari, quic-congestion-control (GitHub, commit d398288): an audit of sources and five live runs, from 20 Mbit/s
# and 20 ms to 20 Mbit/s and 40 ms; by a student, not reviewed.


SURVEY = "sivaahari, quic-congestion-control, d398288"


@dataclass(frozen=True)
class SurveyClaim:
    """What the survey says of one stack's server."""

    resets: bool
    """Whether it begins anew at another IP address."""
    resets_for_port: bool | None
    """Whether it does where only the port changes; None where the survey does not say."""
    says: str


SURVEY_CLAIMS: dict[str, SurveyClaim] = {
    "picoquic": SurveyClaim(False, None, "no reset: 87–89 kB, then losses, down to 2.8–8.6 kB; RTT carried over"),
    "quic-go": SurveyClaim(True, True, "reset, for a port too: 274–280 kB → 40,960 B"),
    "quiche": SurveyClaim(True, None, "reset, a recovery per path: 654,900 B → 12,000 B"),
    "msquic": SurveyClaim(True, False, "reset, not for a port: 1.48 MB → 12,200 B; srtt 333 ms for some 20 s"),
    "ngtcp2": SurveyClaim(True, None, "reset: 532–573 kB → 12,000 B"),
}


# --- moves


SCHEMA = 1
#: Metrics of a move in the table and in JSON: name → heading.
_MOVE_METRICS = {
    "delivery_gap": "gap ms",
    "path_validation": "validated ms",
    "handover_throughput": "first 100 ms Mbit/s",
    "rtt_estimate_off": "RTT off ms",
    "old_path_samples": "old RTTs",
}
_TITLE = "What servers do when a client moves (RFC 9000 §9.4: begin anew unless only the port changed)"
Conduct = Literal["begins anew", "keeps", "may keep", "not known"]


@dataclass(frozen=True)
class MoveRow:
    """One move of a flow's client in the runs of a cell."""

    result: CellResult
    flow: int
    move: int
    seen: tuple[Handover, ...]
    """Of each run that shows it."""
    unseen: tuple[str, ...]
    """Why each of the others does not."""

    @property
    def scenario(self) -> Scenario:
        """The scenario of the cell."""
        return self.result.cell.scenario

    @property
    def server(self) -> str:
        """The implementation that was moved away from."""
        return self.result.cell.implementation("server", self.flow).name

    @property
    def label(self) -> str:
        """Client and server, each with its requested parameters."""
        pair = flow_label(self.result.cell, self.flow) if not self.scenario.open_roles else "→".join(self.result.pair)
        parameters = [f"{name.partition('.')[2]}={value}" for name, value in self.result.cell.parameters.items()]
        return " ".join([pair, *parameters]) if not self.scenario.open_roles else pair

    @property
    def first(self) -> Handover:
        """The handover in the first run that shows it."""
        return self.seen[0]

    def counted(self, part: Literal["window", "rtt"]) -> str:
        """'reset', or how often each: 'reset 2, kept 1'."""
        counts = Counter(getattr(handover, part) for handover in self.seen)
        if len(counts) == 1:
            return str(next(iter(counts)))
        return ", ".join(f"{word} {count}" for word, count in counts.most_common())

    @property
    def refusals(self) -> int:
        """Number of runs in which the server ended the connection with an error after the move."""
        return sum(handover.closed.startswith("the server") for handover in self.seen)

    @property
    def conduct(self) -> Conduct:
        """The server's conduct by RFC 9000 §9.4, where all runs agree."""
        windows, rtts = (
            {getattr(handover, part) for handover in self.seen} - {"unknown"} for part in ("window", "rtt")
        )
        if not windows and not rtts:
            return "not known"
        resets = windows <= {"reset"} and rtts <= {"reset"}
        if resets:
            return "begins anew"
        return "may keep" if all(handover.demands_reset is False for handover in self.seen) else "keeps"

    @property
    def contradiction(self) -> str:
        """What the published survey says, where it contradicts the window. Empty where it does not, or is unknown."""
        published = SURVEY_CLAIMS.get(self.server)
        windows = {handover.window for handover in self.seen} - {"unknown"}
        incomplete = set(self.result.outcomes) != {"completed"}
        if (
            incomplete
            or published is None
            or len(windows) != 1
            or self.result.cell.parameters.get("server.migration_cwnd")
        ):
            return ""
        port_only = all(handover.demands_reset is False for handover in self.seen)
        published_reset = published.resets_for_port if port_only else published.resets
        if published_reset is None or published_reset == (windows == {"reset"}):
            return ""
        return f"the survey: {published.says}"

    def interval(self, metric: str) -> str:
        """Median and interval of a metric of the move."""
        name = MetricName(metric, self.flow, self.first.transfer, move=self.move)
        return span_text(self.result.interval(*name))


def cells_with_moves(results: Sequence[CellResult]) -> list[CellResult]:
    """The cells in which a client moves."""
    return [result for result in results if any(flow.moves for flow in result.cell.scenario.flows)]


def rows(results: Sequence[CellResult]) -> list[MoveRow]:
    """A row per move, sorted by server. Moves that no run shows are included."""
    move_rows = [row for result in results for row in _result_rows(result)]
    return sorted(move_rows, key=lambda row: (row.server, row.scenario.name, row.label, row.flow, row.move))


def _result_rows(result: CellResult) -> Iterator[MoveRow]:
    handovers: dict[tuple[int, int], list[Handover]] = {}
    for run, measured in result.runs:
        if measured is not None and proven_outcome(run, measured).status != "infrastructure":
            for handover in measured.moves:
                handovers.setdefault((handover.flow, handover.move), []).append(handover)
    for (flow, move), run_handovers in sorted(handovers.items()):
        observed = tuple(handover for handover in run_handovers if not handover.why_not)
        yield MoveRow(
            result, flow, move, observed, tuple(handover.why_not for handover in run_handovers if handover.why_not)
        )


def _move_label(row: MoveRow) -> str:
    handover = (*row.seen, *_matching_moves(row))[0]
    if handover.how.startswith("nat-"):
        return handover.how
    return f"{handover.how} to {handover.path}"


def _matching_moves(row: MoveRow) -> Iterator[Handover]:
    for _, measured in row.result.runs:
        for handover in measured.moves if measured is not None else ():
            if (handover.flow, handover.move) == (row.flow, row.move):
                yield handover


def _changed_parts(handover: Handover) -> str:
    words = {
        "address": handover.address_changed,
        "port": handover.port_changed,
        "ID": handover.destination_id_changed,
        "probed": handover.probed,
    }
    return ", ".join(word for word, value in words.items() if value) or "–"


def _cells(row: MoveRow) -> list[str]:
    outcomes = ", ".join(f"{status.replace('_', ' ')} {count}" for status, count in row.result.outcomes.items())
    if row.refusals:
        outcomes += f" (refused {row.refusals})"
    named = [row.server, row.label, row.scenario.name, f"{row.move} {_move_label(row)}", outcomes]
    if not row.seen:
        return [*named, f"not observed: {row.unseen[0]}", *[""] * (4 + len(_MOVE_METRICS)), ""]
    return [
        *named,
        _changed_parts(row.first),
        row.counted("window"),
        _window(row),
        row.counted("rtt"),
        *(row.interval(name) for name in _MOVE_METRICS),
        row.conduct,
        row.contradiction,
    ]


def _window(row: MoveRow) -> str:
    values = [
        row.result.interval(*MetricName(name, row.flow, row.first.transfer, move=row.move))
        for name in ("cwnd_before", "cwnd_after")
    ]
    return " → ".join("–" if span is None else number_text(span.median / 1000) for span in values)


_HEADINGS = (
    "server",
    "client and server",
    "scenario",
    "move",
    "runs",
    "changed",
    "window",
    "kB",
    "RTT estimate",
    *_MOVE_METRICS.values(),
    "§9.4",
    "contradicts",
)


#: How narrow a column of texts may become.
_TEXT_WIDTHS = dict.fromkeys(("client and server", "changed", "window", "contradicts", "scenario", "runs", "move"), 10)


def migration_document(results: Sequence[CellResult]) -> Document:
    """The table of moves, and on a terminal the evidence of each row."""
    move_rows = rows(results)
    data = {"schema": SCHEMA, "survey": SURVEY, "moves": [_data(row) for row in move_rows]}
    return Document(data, migration_blocks(results))


def migration_blocks(results: Sequence[CellResult]) -> list[Block]:
    """The table of moves as part of a page."""
    move_rows = rows(results)
    if not move_rows:
        return [Paragraph("no stored run has a client that moves")]
    columns = [
        Column(heading, identifies=heading in ("server", "move"), text=_TEXT_WIDTHS.get(heading, 0))
        for heading in _HEADINGS
    ]
    evidence = [text for row in move_rows for text in _evidence(row)]
    return [
        Table(columns, [Row(_cells(row)) for row in move_rows], _TITLE),
        BulletList(evidence, "bright_black", medium="terminal"),
        Paragraph(f"Contradicts: where a published survey says otherwise ({SURVEY})."),
    ]


def _evidence(row: MoveRow) -> Iterator[str]:
    prefix = f"{row.scenario.name} {row.label}, move {row.move}"
    for handover in row.seen[:1]:
        count = handover.old_samples
        samples = "" if count is None else f"; {count} RTT samples of the old path's packets after it"
        for closed in dict.fromkeys(run_handover.closed for run_handover in row.seen if run_handover.closed):
            yield f"{prefix}: refused: {closed}"
        yield (
            f"{prefix}: window {handover.window}: {handover.window_evidence}; "
            f"RTT {handover.rtt}: {handover.rtt_evidence}{samples}"
        )
    for why in dict.fromkeys(row.unseen):
        yield f"{prefix}: not observed in {row.unseen.count(why)} of {len(row.seen) + len(row.unseen)} runs: {why}"


def _data(row: MoveRow) -> dict[str, Any]:
    return {
        "key": row.result.cell.key,
        "scenario": row.scenario.name,
        "client": row.result.cell.implementation("client", row.flow).name,
        "server": row.server,
        "parameters": dict(row.result.cell.parameters),
        "engine": row.result.cell.engine,
        "flow": row.flow,
        "move": row.move,
        "outcomes": row.result.outcomes,
        "conduct": row.conduct if row.seen else "not known",
        "contradiction": row.contradiction if row.seen else "",
        "runs": [handover.model_dump(mode="json") for handover in row.seen],
        "not_observed": list(row.unseen),
    }
