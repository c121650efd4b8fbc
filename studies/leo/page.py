"""What a low orbit costs each stack, from stored runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.report.markdown import table_row
from harness.report.numbers import number_text, percentage, span_text
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
    found = stacks(results)
    lines = [
        "# Downloads over a low orbit",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        "Each stack downloads from itself for 60 s over the profile `leo`, which is synthetic: 100 Mbit/s and 40 ms at",
        f"first, and every 15 s {RECONFIGURATION}",
        f"(`{HANDOVERS}`). Beside it is the same link as it is at first (`{STEADY}`). A repetition has the same draws",
        "for every stack, and what the link could carry is another amount in each: *of the link* is the share of it",
        "that was used. *Filled again* is the time from a reconfiguration until 80 % of the link's rate has come",
        "within 100 ms; a link that is never empty has 100 ms.",
        "A *spurious loss* is a packet that its sender took for lost, and that came.",
        "tquic has no row: after 4 s its endpoints need more memory than a lab in virtual time has.",
        "",
    ]
    if not found:
        return "\n".join([*lines, "No runs are stored.", ""])
    lines += [table_row(_COLUMNS), table_row(["---", *["---:"] * (len(_COLUMNS) - 1)])]
    lines += [table_row(_row(stack)) for stack in found]
    return "\n".join([*lines, "", *_sentences(found)])


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


def _sentences(found: Sequence[Stack]) -> list[str]:
    """What the table says, in three sentences: of goodput, of recovery, of spurious losses."""
    sentences = []
    used = sorted(((stack.use.median, stack) for stack in found if stack.use is not None), key=lambda item: -item[0])
    if used:
        (most_used, first), (least_used, last) = used[0], used[-1]
        steady = [stack.steady_use.median for _, stack in used if stack.steady_use is not None]
        beside = f"; without reconfigurations that is {statistics.median(steady):.1%}" if steady else ""
        sentences.append(
            f"{first.name} uses {most_used:.1%} of what the link could carry, {last.name} {least_used:.1%}, and the "
            f"middle of {len(used)} stacks {statistics.median(share for share, _ in used):.1%}{beside}."
        )
    timed = sorted(
        ((stack.recovery.median, stack) for stack in found if stack.recovery is not None), key=lambda item: item[0]
    )
    if timed:
        (soonest, first), (latest, last) = timed[0], timed[-1]
        never = [stack.name for stack in found if stack.unrecovered > 0]
        rest = f" {', '.join(never)} do not fill it before the next one in some cases." if never else ""
        sentences.append(
            f"After an outage of up to {LONGEST_OUTAGE:g} ms {first.name} fills the link again within "
            f"{number_text(soonest)} ms, {last.name} within {number_text(latest)} ms.{rest}"
        )
    counted = [stack for stack in found if stack.spurious is not None]
    if counted:
        wrong = [stack for stack in counted if stack.spurious is not None and stack.spurious.median > 0]
        most = max(wrong, key=lambda stack: stack.spurious.median if stack.spurious else 0.0, default=None)
        if most is None or most.spurious is None:
            sentences.append(f"None of {len(counted)} stacks takes packets for lost that come.")
        else:
            sentences.append(
                f"{len(wrong)} of {len(counted)} stacks take packets for lost that come; {most.name} most of all, "
                f"{number_text(most.spurious.median)} a run."
            )
    return [*sentences, ""]
