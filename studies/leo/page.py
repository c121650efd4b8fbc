"""What a low orbit costs each stack, from stored runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_list
from harness.report.markdown import table_row
from harness.report.numbers import number_text, percentage, span_text
from studies import FIGURE, list_items
from studies.leo.claims import HANDOVERS, LONGEST_OUTAGE, RECONFIGURATION, STEADY
from studies.leo.compared import Stack, stacks

_COLUMNS = (
    "stack",
    "runs",
    "goodput, Mbit/s",
    "without",
    "of the link",
    "without",
    "spurious losses",
    "without",
    "filled again after, ms",
    "the longest, ms",
    "never, a run",
)


def low_orbit(results: Sequence[CellResult]) -> str:
    """The page."""
    measured = stacks(results)
    return "\n".join(
        [
            "# Downloads over a low orbit",
            "",
            "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
            "",
            *list_items(_sentences(measured)),
            FIGURE,
            "",
            "Each stack downloads from itself for 60 s over the profile `leo`, which is synthetic.",
            f"The link has 100 Mbit/s and 40 ms at first. Every 15 s {RECONFIGURATION} (`{HANDOVERS}`).",
            f"The columns *without* have the same link as it is at first (`{STEADY}`).",
            "A repetition has the same draws for every stack.",
            "",
            "The link can carry another amount in each repetition; *of the link* is the share that was used.",
            "*Filled again* is the time from a reconfiguration until 80 % of the link's rate has come within 100 ms.",
            "A link that is never empty has 100 ms there.",
            "A *spurious loss* is a packet that its sender took for lost, and that came.",
            "You see no row of tquic: after 4 s its endpoints need more memory than a lab in virtual time has.",
            "",
            *(_table(measured) if measured else ["No runs are stored.", ""]),
        ]
    )


def _table(measured: Sequence[Stack]) -> list[str]:
    head = [table_row(_COLUMNS), table_row(["---", *["---:"] * (len(_COLUMNS) - 1)])]
    return [*head, *(table_row(_row(stack)) for stack in measured), ""]


def _row(stack: Stack) -> list[str]:
    return [
        stack.name,
        str(stack.runs),
        span_text(stack.goodput),
        span_text(stack.steady),
        percentage(stack.use),
        percentage(stack.steady_use),
        span_text(stack.spurious),
        span_text(stack.spurious_steady),
        span_text(stack.recovery),
        span_text(stack.longest),
        "–" if math.isnan(stack.unrecovered) else number_text(stack.unrecovered),
    ]


def _sentences(measured: Sequence[Stack]) -> list[str]:
    """What the table says: of goodput, of recovery, of spurious losses; at most six sentences."""
    sentences = []
    used = sorted(((stack.use.median, stack) for stack in measured if stack.use is not None), key=lambda item: -item[0])
    if used:
        (most_used, first), (least_used, last) = used[0], used[-1]
        steady = [stack.steady_use.median for _, stack in used if stack.steady_use is not None]
        beside = f", and {statistics.median(steady):.1%} without reconfigurations" if steady else ""
        sentences += [
            f"The stacks use {least_used:.1%} ({last.name}) to {most_used:.1%} ({first.name}) "
            "of what the link could carry.",
            f"The middle of {len(used)} stacks uses {statistics.median(share for share, _ in used):.1%}{beside}.",
        ]
    timed = sorted(
        ((stack.recovery.median, stack) for stack in measured if stack.recovery is not None), key=lambda item: item[0]
    )
    if timed:
        (soonest, first), (latest, last) = timed[0], timed[-1]
        never = [stack.name for stack in measured if stack.unrecovered > 0]
        rest = f" The next outage sometimes comes before the link is full: {format_list(never)}." if never else ""
        sentences.append(
            f"{first.name} fills the link again within {number_text(soonest)} ms after an outage of up to "
            f"{LONGEST_OUTAGE:g} ms, and {last.name} within {number_text(latest)} ms.{rest}"
        )
    counted = [stack for stack in measured if stack.spurious is not None]
    if counted:
        wrong = [stack for stack in counted if stack.spurious is not None and stack.spurious.median > 0]
        most = max(wrong, key=lambda stack: stack.spurious.median if stack.spurious else 0.0, default=None)
        if most is None or most.spurious is None:
            sentences.append(f"None of {len(counted)} stacks takes packets for lost that come.")
        else:
            verb = "takes" if len(wrong) == 1 else "take"
            sentences += [
                f"{len(wrong)} of {len(counted)} stacks {verb} packets for lost that come.",
                f"The largest number of these is {number_text(most.spurious.median)} a run ({most.name}).",
            ]
    return sentences
