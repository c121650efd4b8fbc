"""The page: goodput and delay behind each queue, and the share beside TCP CUBIC."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count
from harness.report.markdown import table_row
from harness.report.numbers import number_text
from harness.stats.intervals import interval
from studies import FIGURE, extremes_text, list_items, share_text
from studies.queues.claims import ALONE, BESIDE, COST, EARLY, EQUAL, FAIR, PATH, QUEUES, SOURCE, STATED, USUAL
from studies.queues.compared import Behind, Found, contestants, queues_of


def queues(results: Sequence[CellResult]) -> str:
    """The page."""
    found = contestants(results)
    lines = [
        "# Behind queues old and new",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        *list_items(sentences(found)),
        FIGURE,
        "",
        f"The sources are {SOURCE}.",
        STATED,
        "",
        f"Each server sends for 30 s over {PATH}. It does so with each congestion",
        "control that it offers. haproxy has its default alone. All servers have the same client. There are two",
        "scenarios:",
        "",
        f"* the flow is alone (`{ALONE}`);",
        f"* the flow is beside a flow of Linux's TCP CUBIC (`{BESIDE}`).",
        "",
        "*Queue delay* is the wait of the flow's packets at the bottleneck. It counts from the first packet on, so",
        "slow start is in it. *Share* is the flow's part of the goodput of both flows. Another path may give other",
        "shares: [beside TCP CUBIC](coexistence.md) has two more. [The cost of RED](documents.md) is on another page.",
        "",
        "A cell is one run. Defaults are in bold. They ran three times beside TCP behind DropTail of 1 BDP, each time",
        "with another delay. The range of these runs is what chance does. FQ-CoDel and CAKE give each flow a queue of",
        "its own. Behind these, only the defaults ran beside TCP.",
        "",
        "```",
        f"harness run {ALONE} {BESIDE} --servers quiche --engine virtual        # one server with its default",
        f"python -m tools.reference run --only {ALONE} --only {BESIDE}          # all of this page",
        "```",
        "",
    ]
    if not found:
        return "\n".join([*lines, "No runs are stored.", ""])
    lines += _table("Alone: goodput, Mbit/s / queue delay, ms: mean / 95th percentile", found, _alone)
    lines += _table("Beside TCP CUBIC: share of the goodput", found, _beside)
    return "\n".join(lines)


def _table(title: str, found: Found, text: Callable[[Behind], str]) -> list[str]:
    names = queues_of(found)
    lines = [f"## {title}", "", table_row(["server and congestion control", *(QUEUES[name] for name in names)])]
    lines.append(table_row(["---", *["---:"] * len(names)]))
    for contestant, behind in found.items():
        title = f"**{contestant.title}**" if contestant.is_default else contestant.title
        lines.append(table_row([title, *(text(behind[name]) if name in behind else "–" for name in names)]))
    return [*lines, ""]


def _alone(behind: Behind) -> str:
    if behind.goodput is None:
        return "–"
    delays = ("–" if span is None else number_text(span.median) for span in (behind.delay, behind.tail))
    return " / ".join([f"{behind.goodput.median:.1f}", *delays])


def _beside(behind: Behind) -> str:
    return "–" if behind.share is None else share_text(behind.share)


def sentences(found: Found) -> list[str]:
    """Four texts: goodput behind each queue, what early queues cost of it, how long delays are, and who shares."""
    return [text for text in (_goodputs(found), _costs(found), _delays(found), _shares(found)) if text]


def _medians(found: Found, queue: str, value: Callable[[Behind], float | None]) -> dict[str, float]:
    """Contestant → its value behind a queue."""
    behind = {contestant.title: queues[queue] for contestant, queues in found.items() if queue in queues}
    return {name: known for name, one in behind.items() if (known := value(one)) is not None}


def _goodput(behind: Behind) -> float | None:
    return None if behind.goodput is None else behind.goodput.median


def _delay(behind: Behind) -> float | None:
    return None if behind.delay is None else behind.delay.median


def _share(behind: Behind) -> float | None:
    return None if behind.share is None else behind.share.median


def _middles(found: Found, value: Callable[[Behind], float | None]) -> dict[str, float]:
    """Queue → the middle of what contestants have behind it."""
    values = {queue: _medians(found, queue, value) for queue in queues_of(found)}
    return {queue: statistics.median(each.values()) for queue, each in values.items() if each}


def _goodputs(found: Found) -> str:
    """The queue that costs the middle contestant most goodput, and the one that loses most."""
    middles = _middles(found, _goodput)
    if not middles:
        return ""
    least = [(goodput, name, queue) for queue in middles for name, goodput in _medians(found, queue, _goodput).items()]
    goodput, name, queue = min(least)
    return (
        f"Alone, the median goodput is {_ends(middles, '{} Mbit/s behind {}')}. {name} has the least of all: "
        f"{number_text(goodput)} Mbit/s behind {_title(queue)}."
    )


def _costs(found: Found) -> str:
    """What a sender has behind a queue that drops before it is full, per what it has behind the usual one."""
    usual = _medians(found, USUAL, _goodput)
    ratios = {
        f"{name} behind {_title(queue)}": goodput / usual[name]
        for queue in EARLY
        for name, goodput in _medians(found, queue, _goodput).items()
        if usual.get(name)
    }
    if not ratios:
        return ""
    middle = number_text(statistics.median(ratios.values()))
    costly = sum(ratio < 1 - COST for ratio in ratios.values())
    return (
        f"Queues that drop or mark before they are full leave the median sender {middle} times its goodput behind "
        f"{_title(USUAL)}: {extremes_text({name: interval([ratio]) for name, ratio in ratios.items()})}. "
        f"In {costly} of {format_count(len(ratios), 'pair')} of sender and queue it loses more than {COST:.0%}."
    )


def _ends(middles: Mapping[str, float], pattern: str) -> str:
    """The least and the largest, each with its queue."""
    return extremes_text({_title(queue): interval([value]) for queue, value in middles.items()}, pattern)


def _delays(found: Found) -> str:
    """The middle delay behind the usual queue and behind those that have the longest and the shortest."""
    middles = _middles(found, _delay)
    if not middles:
        return ""
    shortest, longest = (choose(middles, key=lambda queue: middles[queue]) for choose in (min, max))
    usual = ""
    if USUAL in middles and USUAL not in (shortest, longest):
        usual = f", and {number_text(middles[USUAL])} ms behind {_title(USUAL)}"
    delays = _medians(found, longest, _delay)
    patient = min(delays, key=lambda name: delays[name])
    return (
        f"The median of the senders' mean queue delays is {_ends(middles, '{} ms behind {}')}{usual}. Behind "
        f"{_title(longest)}, {patient} waits least: "
        f"{number_text(delays[patient])} ms."
    )


def _shares(found: Found) -> str:
    """Who takes most and least beside TCP CUBIC behind the usual queue, and how far queues of their own mend that."""
    usual = _medians(found, USUAL, _share)
    if not usual:
        return ""
    most, least = (choose(usual, key=lambda name: usual[name]) for choose in (max, min))
    behind = {contestant.title: queues[USUAL] for contestant, queues in found.items() if USUAL in queues}
    fair = [share for queue in FAIR for share in _medians(found, queue, _share).values()]
    mended = (
        f" Where each flow has a queue of its own, the share furthest from half is {max(fair, key=_distance):.0%}."
        if fair
        else ""
    )
    return (
        f"Beside TCP CUBIC over {PATH}, behind {_title(USUAL)}, {most} has {_beside(behind[most])} of the goodput, "
        f"and {least} has {_beside(behind[least])}.{mended}"
    )


def _title(queue: str) -> str:
    """In a sentence: 'DropTail of 1 BDP'."""
    return QUEUES[queue].replace(", ", " of ")


def _distance(share: float) -> float:
    return abs(share - EQUAL)
