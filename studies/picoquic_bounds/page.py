"""The bounds of picoquic's own tests, beside what stored runs of scenarios/picoquic took: docs/picoquic.md."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import altair as alt

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_list
from harness.outcome import Interval
from harness.report.markdown import table_row
from harness.report.numbers import interval_text, number_text
from harness.report.resumption import add_mark, seed_of
from harness.report.studies import measured_cells
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Link, Objective, Path, fixed
from harness.stats.intervals import interval
from harness.units import Duration, Percentage, Rate
from studies import FIGURE, findings, per
from studies.charts import Axis, Mark, draw_rows
from studies.picoquic_bounds.claims import ABSENT, NOTES, Figures

#: Where the scenarios are; the rest of a name is upstream's, with hyphens.
FOLDER = "picoquic/"
#: In these tests upstream's client sends the data: they arrive from 1.5 round trips on, not from two.
UPLOADS = "satellite_"
#: UDP payload of a full datagram of picoquic's, and what Ethernet, IPv4 and UDP add to it, bytes.
_PAYLOAD, _HEADERS = 1440, 14 + 20 + 8
_WORDS = {"pass": "holds", "fail": "does not hold", "inconclusive": "holds in some runs"}


def simulated_rate(rate: Rate) -> float:
    """The layer-2 rate, bit/s, at which a full datagram takes as long as in upstream's simulator at `rate`.

    It counts the UDP payload alone, 8·10^6/(Mbit/s) whole ps per byte, and divides by 2^20 to whole µs
    (picoquic, picoquictest/satellite_test.c and picoquic/sim_link.c).
    """
    microseconds = (8 * 10**12 // rate.value * _PAYLOAD) >> 20
    return (_PAYLOAD + _HEADERS) * 8e6 / microseconds


@dataclass(frozen=True)
class Held:
    """One of upstream's tests beside the runs of its scenario."""

    test: str
    at_stated_rate: CellResult
    """At the rate that the test names."""
    at_simulator_rate: CellResult | None
    """At the rate of frames as fast as in upstream's simulator, where the scenario has it."""

    @property
    def objective(self) -> Objective:
        """Upstream's bound."""
        return self.at_stated_rate.cell.scenario.objectives[0]

    @property
    def completion(self) -> Interval | None:
        """What our transfers took at the rate named, s; infinite for one that did not end in time."""
        return _observed(self.at_stated_rate)

    @property
    def bounded_metric(self) -> MetricName:
        """What is bounded."""
        return MetricName.parse(self.objective.metric)

    @property
    def extra_start_delay(self) -> float:
        """How much later than upstream's the sender begins here, s."""
        return self.at_stated_rate.cell.scenario.path.rtt.seconds / 2 if self.test.startswith(UPLOADS) else 0.0

    @property
    def adjusted_completion(self) -> float | None:
        """The median, s, on frames as fast as upstream's, for a sender that begins when upstream's does."""
        if self.at_simulator_rate is None:
            return (
                None if self.completion is None else self.completion.median - self.frame_saving - self.extra_start_delay
            )
        span = _observed(self.at_simulator_rate)
        return None if span is None else span.median - self.extra_start_delay

    @property
    def frame_saving(self) -> float:
        """What frames as fast as upstream's save, s: measured, or reckoned for what was sent without a second cell."""
        took, rate = self.completion, _last_rate(self.at_stated_rate.cell.scenario.path)
        if self.at_simulator_rate is not None:
            span = _observed(self.at_simulator_rate)
            return 0.0 if took is None or span is None else took.median - span.median
        return 8 * self._median("wire_to_client") * (1 / rate.value - 1 / simulated_rate(rate))

    @property
    def figures(self) -> Figures | None:
        """What a note can be held against; None where nothing was measured."""
        took = self.completion
        if took is None:
            return None
        packets = self._median("packets_to_client")
        flow = self.at_stated_rate.cell.scenario.flows[0]
        bits = 8 * (flow.download.bytes if flow.download is not None else 0)
        busy = took.median - self._median("first_byte")
        rate = _last_rate(self.at_stated_rate.cell.scenario.path).value
        return Figures(
            bound=self.objective.bound,
            completion=took,
            adjusted_completion=self.adjusted_completion,
            dropped=self._median("queue_drops_to_client", None) / packets if packets else 0.0,
            lost=self._median("loss_drops_to_client", None) / packets if packets else 0.0,
            queue_wait=self._median("queue_delay_p95_to_client"),
            line_rate_share=bits / busy / rate if busy > 0 else 0.0,
        )

    @property
    def start(self) -> float | None:
        """Data of the second connection's first round trips, per the first's: the median over the runs."""
        ratios = [
            float(observation.value)
            for _, measured in self.at_stated_rate.runs
            for observation in (
                measured.observed if measured is not None and self.bounded_metric.transfer == "repeat" else ()
            )
            if observation.parameter == "bdp_seed"
        ]
        return statistics.median(ratios) if ratios else None

    def _median(self, metric: str, flow: int | None = 0) -> float:
        """Of a metric of the transfer that is bounded, or of the link meanwhile; 0 where it was not measured."""
        span = self.at_stated_rate.interval(metric, flow, self.bounded_metric.transfer)
        return 0.0 if span is None else span.median


def _observed(result: CellResult) -> Interval | None:
    """What the one objective of a scenario was held against."""
    judged = result.verdict.objectives
    return judged[0].observed if judged else None


def held(results: Sequence[CellResult]) -> list[Held]:
    """The tests that have stored runs, in order of their names."""
    names = sorted({result.cell.scenario.name for result in results if result.cell.scenario.name.startswith(FOLDER)})
    bound_tests = []
    for name in names:
        cell_results = sorted(
            measured_cells(results, name), key=lambda result: result.cell.scenario.path.to_client.rate.value
        )
        for _, group in groupby(cell_results, key=lambda result: result.cell.engine):
            cells = list(group)
            wanted = simulated_rate(cells[0].cell.scenario.path.to_client.rate)
            like = [
                cell_result
                for cell_result in cells[1:]
                if abs(cell_result.cell.scenario.path.to_client.rate.value / wanted - 1) < 1e-3
            ]
            bound_tests.append(Held(name.removeprefix(FOLDER).replace("-", "_"), cells[0], next(iter(like), None)))
    return bound_tests


def bounds(results: Sequence[CellResult]) -> str:
    """The whole page."""
    bound_tests = held(results)
    lines = [
        "# picoquic's own bounds, on real queues",
        "",
        "Generated (`make generate`) from the runs of [`scenarios/picoquic`](../scenarios/picoquic) in",
        "[`results/reference/`](../results/reference/README.md).",
        "",
        *findings(_sentences(bound_tests)),
        FIGURE,
        "",
        "picoquic's tests run client and server in one process over a simulated link. They state the longest time that",
        "a transfer may take. This lab sends the same transfers through Linux's queues, with picoquic at both ends.",
        "Two things differ in nearly all of them. The page tells these apart from the rest:",
        "",
        "* **The link.** Upstream's simulator counts the UDP payload alone. It divides by 2^20 where 10^6 is meant,",
        "  and rounds down to whole µs. At what it calls 250 Mbit/s, a datagram of 1,440 bytes passes in 43 µs.",
        f"  Frames need {simulated_rate(Rate(250_000_000)) / 1e6:.1f} Mbit/s for that. The scenarios have a second "
        "cell with frames as fast as that.",
        "* **The start.** The client sends the data in upstream's satellite tests. After one round trip it has its",
        "  first RTT sample, and more than an initial window to send. The server sends the data here. It has both",
        "  half a round trip later.",
        "",
        "The columns are:",
        "",
        "* *like for like*: the median of the second cell less that half round trip;",
        "* *line rate*: the share of the line rate that the file had from its first byte on;",
        "* *queue* and *loss*: the shares of packets to the client that the bottleneck and the emulated loss dropped;",
        "* *start*: how much a second connection sends in its first two round trips of data, per what the first sent",
        "  in those of its own.",
        "",
        "*Line rate*, *queue* and *loss* are at the rate that the test names. A † marks a bound on a second",
        "connection, which starts from what the first learnt.",
        "",
        *([*_table(bound_tests), ""] if bound_tests else []),
        "## Tests that have no scenario",
        "",
        *(f"* `{test}`: {why}." for test, why in ABSENT.items()),
    ]
    return "\n".join(lines) + "\n"


def times_per_bound(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of each test's time at the rate it names, and like for like, per its bound; None without runs."""
    marks = []
    shown = [(bound_test.test, figures) for bound_test in held(results) if (figures := bound_test.figures) is not None]
    for test, figures in sorted(shown, key=lambda item: item[1].completion.median / item[1].bound):
        spans = {"at the rate named": figures.completion}
        if figures.adjusted_completion is not None:
            spans["like for like"] = interval([figures.adjusted_completion])
        marks += [Mark(test, case, per(span, figures.bound)) for case, span in spans.items()]
    axis = Axis("time per bound", alt.Scale(zero=False), reference=1)
    return draw_rows(marks, axis, "picoquic's own bounds", ["dashed: the bound"])


def _sentences(made: Sequence[Held]) -> Iterator[str]:
    """How many bounds hold, which do not, and by how much."""
    if not made:
        return
    shown = {bound_test.test: (bound_test, figures) for bound_test in made if (figures := bound_test.figures)}
    named = sum(bound_test.at_stated_rate.verdict.status == "pass" for bound_test in made)
    missed = {test: pair for test, pair in shown.items() if not pair[1].holds_like_for_like}
    yield f"{named} of {len(made)} bounds hold as they stand, and {len(shown) - len(missed)} hold like for like."
    reached = {test: pair[1].completion.median / pair[1].bound for test, pair in shown.items()}
    finite = {test: ratio for test, ratio in reached.items() if math.isfinite(ratio)}
    if finite:
        least, most = (choose(finite, key=lambda test: finite[test]) for choose in (min, max))
        yield (
            f"The transfers take {number_text(finite[least])} (`{least}`) to {number_text(finite[most])} (`{most}`) "
            "times as long as their bounds."
        )
    if never := [f"`{test}`" for test in reached if test not in finite]:
        yield f"{format_list(never)} {'does' if len(never) == 1 else 'do'} not end in time."
    if missed:
        names = format_list([f"`{test}`" for test in missed])
        verb = "misses its bound" if len(missed) == 1 else "miss their bounds"
        yield f"{names} {verb} even like for like. The last column says why, as far as it is known."


def _table(made: Sequence[Held]) -> list[str]:
    """A row for each bound."""
    return [
        table_row(
            [
                "test",
                "path",
                "control",
                "bound, s",
                "here, s",
                "",
                "like for like, s",
                "",
                "start",
                "line rate",
                "queue",
                "loss",
                "why",
            ]
        ),
        table_row(["---", "---", "---", "---:", "---:", "---", "---:", "---", "---:", "---:", "---:", "---:", "---"]),
        *(table_row(row(bound_test)) for bound_test in made),
    ]


def row(one: Held) -> list[str]:
    """A test's row."""
    cell, figures = one.at_stated_rate.cell, one.figures
    start = [f"`{one.test}`", path_text(cell.scenario.path), str(cell.parameters.get("server.congestion_control", ""))]
    if figures is None:
        return [*start, f"{one.objective.bound:g}", "–", one.at_stated_rate.verdict.sentence, *["–"] * 6, ""]
    return [
        *start,
        f"{figures.bound:g}",
        _text(one, figures),
        _WORDS.get(one.at_stated_rate.verdict.status, one.at_stated_rate.verdict.reason),
        "–"
        if figures.adjusted_completion is None or math.isinf(figures.adjusted_completion)
        else f"{figures.adjusted_completion:.2f}",
        "–" if figures.adjusted_completion is None else _WORDS["pass" if figures.holds_like_for_like else "fail"],
        "" if one.start is None else f"× {one.start:.1f}",
        f"{figures.line_rate_share:.0%}",
        f"{figures.dropped:.1%}",
        f"{figures.lost:.1%}",
        why(one, figures),
    ]


def _text(one: Held, figures: Figures) -> str:
    scenario = one.at_stated_rate.cell.scenario
    if math.isinf(figures.completion.median):
        return f"not in {scenario.timeout}"
    return add_mark(interval_text(figures.completion), one.bounded_metric, seed_of(one.at_stated_rate.cell))


def why(one: Held, figures: Figures) -> str:
    """What makes runs miss the bound; empty where both comparisons hold."""
    like_for_like = figures.holds_like_for_like
    if one.at_stated_rate.verdict.status == "pass" and (figures.adjusted_completion is None or like_for_like):
        return ""
    note = NOTES.get(one.test)
    if note is not None and note.fits(figures):
        return note.text
    if not like_for_like:
        return "not explained"
    reckoned = "" if one.at_simulator_rate is not None else " (reckoned)"
    link = f"frames as fast as upstream's save {one.frame_saving:.2f} s{reckoned}" if one.frame_saving > 0 else ""
    start = f"upstream's sender begins {one.extra_start_delay:.2f} s earlier" if one.extra_start_delay else ""
    return ", and ".join(filter(None, (link, start)))


def path_text(path: Path) -> str:
    """A path in a few words: rates to and from the client, round trip, loss, jitter."""
    down, up = path.to_client, path.to_server
    changes = [
        f"then {Duration(2 * fixed(change.delay).value) if change.delay is not None else change.rate}"
        for step in path.changes
        if (change := step.forward) is not None and (change.rate or change.delay)
    ]
    holes = [
        f"nothing passes from {step.at}"
        for step in path.changes
        if step.forward is not None and step.forward.loss == Percentage.parse("100 %")
    ]
    words = [f"{_number(down)}/{_number(up)} Mbit/s", str(path.rtt), *changes, *holes]
    if down.mean_loss:
        words.append(f"{down.mean_loss:.2%} lost")
    if down.variation.deviation.value:
        words.append(f"jitter ± {down.jitter}")
    return ", ".join(words)


def _number(link: Link) -> str:
    return f"{link.rate.value / 1e6:g}"


def _last_rate(path: Path) -> Rate:
    """The rate towards the client after all changes, which the last connection has."""
    return path.rates("to_client")[-1][1]
