"""What a second connection remembers, from stored runs: its time against the first, and what a jump costs others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from harness.evaluation.cell_result import CellResult
from harness.report.markdown import table_row
from harness.report.numbers import span_text
from studies.remembered.claims import ALIKE, CHANGED, OTHER, SOURCE, TAKEN, Change
from studies.remembered.compared import (
    Mechanism,
    against,
    against_first,
    by_mechanism,
    completed,
    course,
    harmed,
    seen,
    spread,
    times,
)

_CAREFUL = "careful-resume"


def remembered(results: Sequence[CellResult]) -> str:
    """The page."""
    lines = [
        "# What a second connection remembers",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        f"A client comes back after a pause and downloads the same again. {SOURCE},",
        "lets a sender jump to half of the capacity that an earlier connection to the same client saw, once an initial",
        "window has arrived in a round trip like the saved one; it paces the jump, waits for it to be validated, and",
        "retreats at a loss. quinn's server does so here with CUBIC inside (`bdp_seed: careful-resume`); picoquic's",
        "has ways of its own; all others remember a TLS session, and the round trip that 0-RTT saves is all they win.",
        "Of each, client and server are the same. The *first* connection remembers nothing, and what stands under",
        "*repeat / first* is over pairs of the same run. *Start* is how much the second connection sends in its first",
        "two round trips of data, per what the first sent in its own. Figures are medians and intervals.",
        "",
        "## The same path again",
        "",
    ]
    for scenario, title in ALIKE.items():
        lines += _alike(by_mechanism(results, scenario), f"{title} (`{scenario}`)")
    lines += ["## Another path, or less of it", ""]
    lines += _changed(results)
    lines += _other(by_mechanism(results, TAKEN))
    return "\n".join(lines)


def _alike(found: Mapping[Mechanism, CellResult], title: str) -> list[str]:
    head = [f"### {title}", ""]
    if not found:
        return [*head, "No runs are stored.", ""]
    columns = ["server", "second connection", "runs", "first, s", "repeat, s", "repeat / first", "start", "phases"]
    rows = [table_row(columns), table_row(["---", "---", *["---:"] * 5, "---"])]
    for mechanism, result in found.items():
        rows.append(
            table_row(
                [
                    mechanism.server,
                    mechanism.title,
                    str(len(completed(result))),
                    span_text(times(result, "first")),
                    span_text(times(result, "repeat")),
                    span_text(against_first(result)),
                    _start(result),
                    _courses(result) if mechanism.seed == _CAREFUL else "",
                ]
            )
        )
    return [*head, *rows, ""]


def _courses(result: CellResult) -> str:
    """What Careful Resume did, and in how many runs, the most frequent first."""
    counts = Counter(course(str(phases)) for phases in seen(result, "careful_resume"))
    return ", ".join(f"{what} ({count})" if len(counts) > 1 else what for what, count in counts.most_common())


def _changed(results: Sequence[CellResult]) -> list[str]:
    rows = []
    for change in CHANGED:
        found = by_mechanism(results, change.scenario)
        rows += [_change(change, found, mechanism) for mechanism in found if mechanism.seed != "off"]
    if not rows:
        return ["No runs are stored.", ""]
    columns = [
        "between them",
        "server",
        "second connection",
        "by the RFC",
        "here",
        "start",
        "repeat, s",
        "repeat / that without a seed",
        "queue drops",
    ]
    reasons = [f"* {change.title} (`{change.scenario}`): {change.why}." for change in CHANGED]
    return [
        "Under *by the RFC* is what Careful Resume is to do, and why:",
        "",
        *reasons,
        "",
        table_row(columns),
        table_row([*["---"] * 5, *["---:"] * 4]),
        *map(table_row, rows),
        "",
    ]


def _change(change: Change, found: Mapping[Mechanism, CellResult], one: Mechanism) -> list[str]:
    result, plain = found[one], _plain(found, one)
    drops = spread([measured.value("queue_drops_to_client", None, "repeat") for measured in completed(result).values()])
    careful = one.seed == _CAREFUL
    return [
        change.title,
        one.server,
        one.title,
        change.expected if careful else "",
        (_courses(result) or "not observed") if careful else "",
        _start(result),
        span_text(times(result, "repeat")),
        "–" if plain is None else span_text(against(result, plain, "completion", 0, "repeat")),
        span_text(drops),
    ]


def _start(result: CellResult) -> str:
    """Data of the second connection's first round trips, per the first's."""
    span = spread([float(value) for value in seen(result, "bdp_seed")])
    return "–" if span is None else f"× {span_text(span)}"


def _plain(found: Mapping[Mechanism, CellResult], one: Mechanism) -> CellResult | None:
    """The same without a seed."""
    return found.get(Mechanism(one.server, "off", one.early_data))


def _other(found: Mapping[Mechanism, CellResult]) -> list[str]:
    rows = []
    for one, result in found.items():
        plain = _plain(found, one)
        runs = completed(result).values()
        rows.append(
            [
                one.server,
                one.title,
                span_text(times(result, "repeat")),
                span_text(spread([measured.value("mean_throughput", OTHER) for measured in runs])),
                span_text(spread([measured.value("retransmissions", OTHER) for measured in runs])),
                "–" if plain is None or one.seed == "off" else span_text(harmed(result, plain, OTHER)),
            ]
        )
    if not rows:
        return []
    columns = ["server", "second connection", "repeat, s", "other flow, Mbit/s", "sent again", "harm"]
    return [
        "## What the jump costs another flow",
        "",
        f"In `{TAKEN}` a second client has the link to itself when the first one comes back. *Harm* is the share of",
        "its mean throughput, from its start to its end, that it loses against the same repetition in which the repeat",
        "has no seed (R. Ware et al., HotNets 2019); *sent again* are its packets that were declared lost.",
        "",
        table_row(columns),
        table_row(["---", "---", *["---:"] * 4]),
        *map(table_row, rows),
        "",
    ]
