"""What a second connection remembers, from stored runs: its time against the first, and what a jump costs others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_list
from harness.report.markdown import table_row
from harness.report.numbers import span_text
from studies import FIGURE, list_items
from studies.remembered.claims import ALIKE, CHANGED, OTHER, SOURCE, TAKEN, Change
from studies.remembered.compared import (
    Mechanism,
    against,
    against_first,
    by_mechanism,
    completed,
    course,
    gain,
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
        *list_items(_sentences(results)),
        FIGURE,
        "",
        f"A client comes back after a pause and downloads the same again. {SOURCE},",
        "lets a sender jump to half of the capacity that an earlier connection saw. It may do so once an initial",
        "window has arrived in a round trip like the saved one. It paces the jump, waits for it to be validated, and",
        "retreats at a loss. quinn's server does so here with CUBIC inside (`bdp_seed: careful-resume`). picoquic's",
        "has ways of its own. All others remember a TLS session.",
        *_session(results),
        "",
        "Client and server are of the same implementation. The *first* connection remembers nothing, and",
        "*repeat / first* compares the two of one run. *Start* compares what both send in their first two round trips",
        "of data. Figures are medians and intervals.",
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


def _sentences(results: Sequence[CellResult]) -> Iterator[str]:
    """What the page shows, first: the best with a seed and without, and the worst for the other flow."""
    gains = [
        (span, mechanism, title)
        for scenario, title in ALIKE.items()
        for mechanism, result in by_mechanism(results, scenario).items()
        if (span := against_first(result)) is not None
    ]
    for seeded, words in ((True, "With a saved capacity"), (False, "Without one")):
        ranked = sorted((gain for gain in gains if (gain[1].seed != "off") == seeded), key=lambda gain: gain[0].median)
        if ranked:
            span, mechanism, title = ranked[0]
            yield (
                f"{words}, the most is gained by {mechanism.server} ({mechanism.title}) over {title}: "
                f"{span_text(span)} of the first connection's time."
            )
    taken = by_mechanism(results, TAKEN)
    harms = [
        (span, mechanism)
        for mechanism, result in taken.items()
        if mechanism.seed != "off"
        and (plain := _plain(taken, mechanism)) is not None
        and (span := harmed(result, plain, OTHER)) is not None
    ]
    if harms:
        span, mechanism = max(harms, key=lambda pair: pair[0].median)
        yield (
            f"Another flow that took the capacity meanwhile loses {span_text(span)} of its throughput at most, "
            f"beside {mechanism.server} ({mechanism.title})."
        )


def _session(results: Sequence[CellResult]) -> Iterator[str]:
    """What a TLS session alone saves, with 0-RTT and without, beside a round trip; nothing without runs.

    Where packets are lost at random, the losses decide, and no gain is told from them.
    """
    gains = [
        (span, mechanism, title, result.cell.scenario.path.rtt.seconds)
        for scenario, title in ALIKE.items()
        for mechanism, result in by_mechanism(results, scenario).items()
        if mechanism.seed == "off"
        and not result.cell.scenario.path.to_client.mean_loss
        and (span := gain(result)) is not None
    ]
    texts = []
    for handshake, words in (("0-RTT", "with 0-RTT"), ("resumed", "without")):
        ranked = sorted((row for row in gains if row[1].handshake == handshake), key=lambda row: row[0].median)
        if ranked:
            span, mechanism, title, _ = ranked[-1]
            texts.append(f"{span_text(span)} s {words} ({mechanism.server} over {title})")
    if not texts:
        return
    yield f"On paths without random loss that alone saves at most {' and '.join(texts)}."
    trips = format_list(sorted({f"{trip:g} s" for *_, trip in gains}))
    within = sum(span.median <= trip for span, *_, trip in gains)
    yield f"0-RTT is there to save a round trip, which is {trips}: {within} of {len(gains)} rows save no more."


def _alike(cells: Mapping[Mechanism, CellResult], title: str) -> list[str]:
    head = [f"### {title}", ""]
    if not cells:
        return [*head, "No runs are stored.", ""]
    columns = ["server", "second connection", "runs", "first, s", "repeat, s", "repeat / first", "start", "phases"]
    rows = [table_row(columns), table_row(["---", "---", *["---:"] * 5, "---"])]
    for mechanism, result in cells.items():
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
        cells = by_mechanism(results, change.scenario)
        rows += [_change(change, cells, mechanism) for mechanism in cells if mechanism.seed != "off"]
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
        "The column *by the RFC* says how Careful Resume should behave. The reasons:",
        "",
        *reasons,
        "",
        table_row(columns),
        table_row([*["---"] * 5, *["---:"] * 4]),
        *map(table_row, rows),
        "",
    ]


def _change(change: Change, cells: Mapping[Mechanism, CellResult], mechanism: Mechanism) -> list[str]:
    result, plain = cells[mechanism], _plain(cells, mechanism)
    drops = spread([measured.value("queue_drops_to_client", None, "repeat") for measured in completed(result).values()])
    careful = mechanism.seed == _CAREFUL
    return [
        change.title,
        mechanism.server,
        mechanism.title,
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


def _plain(cells: Mapping[Mechanism, CellResult], mechanism: Mechanism) -> CellResult | None:
    """The same without a seed."""
    return cells.get(Mechanism(mechanism.server, "off", mechanism.early_data))


def _other(cells: Mapping[Mechanism, CellResult]) -> list[str]:
    rows = []
    for mechanism, result in cells.items():
        plain = _plain(cells, mechanism)
        runs = completed(result).values()
        rows.append(
            [
                mechanism.server,
                mechanism.title,
                span_text(times(result, "repeat")),
                span_text(spread([measured.value("mean_throughput", OTHER) for measured in runs])),
                span_text(spread([measured.value("retransmissions", OTHER) for measured in runs])),
                "–" if plain is None or mechanism.seed == "off" else span_text(harmed(result, plain, OTHER)),
            ]
        )
    if not rows:
        return []
    columns = ["server", "second connection", "repeat, s", "other flow, Mbit/s", "sent again", "harm"]
    return [
        "## What the jump costs another flow",
        "",
        f"In `{TAKEN}` a second client has the link to itself when the first one comes back. *Harm* is the share of",
        "its mean throughput that it loses. The same repetition without a seed is the base (R. Ware et al., HotNets",
        "2019). *Sent again* are its packets that were declared lost.",
        "",
        table_row(columns),
        table_row(["---", "---", *["---:"] * 4]),
        *map(table_row, rows),
        "",
    ]
