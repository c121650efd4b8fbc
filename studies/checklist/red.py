"""A notebook on RED and DropTail."""

from __future__ import annotations

from dataclasses import replace

from harness.report.numbers import number_text
from studies.checklist.verdicts import MISSING, Claim, Judge, Results, Verdict, not_applicable, setting
from studies.red_droptail.claims import NOTEBOOK, Notebook
from studies.red_droptail.page import Comparison, comparisons

SCENARIOS = ("queue",)
_TITLES = {"reno": "Tahoe", "cubic": "CUBIC"}


def _noise() -> str:
    """How far two runs of one queue differ in the notebook itself."""
    gains = [f"{item.red[0] / item.droptail[0] - 1:+.0%}" for item in NOTEBOOK if item.mislabelled]
    return f"its figures are of single runs, of which two with the same queue differ by {' and '.join(gains)}"


def _agreeing(compared: list[Comparison], more: bool) -> Verdict:
    """Of the claim that RED has more, or less, of a figure: by how many comparisons it is shown."""
    known = [item for item in compared if item.change is not None]
    if not known:
        return MISSING
    text = "; ".join(f"{item.sender} {item.change:+.1%}" for item in known)
    like, unlike = f"RED has {'more' if more else 'less'}", f"RED has {'less' if more else 'more'}"
    agree = sum(item.verdict == like for item in known)
    against = sum(item.verdict == unlike for item in known)
    if agree == len(known):
        return Verdict("reproduced", text)
    why = f"{agree} of {len(known)} show it, {against} the contrary"
    return Verdict("in part" if agree else "contradicted", text, why)


def _with_noise(verdict: Verdict) -> Verdict:
    """With the notebook's own spread beside what contradicts its throughputs."""
    return replace(verdict, why=f"{verdict.why}; {_noise()}") if verdict.status == "contradicted" else verdict


def _row(notebook: Notebook, what: str) -> Judge:
    """One row of the notebook: a throughput, or a round-trip time."""
    index = 0 if what.startswith("throughput") else 1
    more = notebook.red[index] > notebook.droptail[index]

    def judge(results: Results) -> Verdict:
        compared = [item for item in comparisons(results) if item.claim == notebook and item.what == what]
        verdict = _agreeing(compared, more)
        if not notebook.mislabelled or verdict.status == "missing":
            return verdict if index else _with_noise(verdict)
        return Verdict("not applicable", verdict.here, "both of its runs had DropTail; ours have RED, too")

    return judge


def _rows() -> list[Claim]:
    rows = []
    for notebook in NOTEBOOK:
        sender = f"{notebook.case} BDP, {_TITLES[notebook.sender]}"
        sender += f" beside {_TITLES[notebook.beside]}" if notebook.beside else ""
        rates, times = ([queue[index] for queue in (notebook.droptail, notebook.red)] for index in (0, 1))
        rows += [
            Claim(
                sender,
                f"throughput {rates[0] / 1e3:.2f} → {rates[1] / 1e3:.2f} kB/s ({rates[1] / rates[0] - 1:+.0%})",
                _row(notebook, "throughput, Mbit/s"),
            ),
            Claim(sender, f"round trip {times[0]:.1f} → {times[1]:.1f} ms", _row(notebook, "sRTT, ms")),
        ]
    return rows


def _window(results: Results) -> Verdict:
    """CUBIC's mean window alone on the high bandwidth-delay product."""
    theirs = next(notebook for notebook in NOTEBOOK if (notebook.case, notebook.sender) == ("high", "cubic"))
    found = [item for item in comparisons(results) if item.what == "window, packets" and item.claim == theirs]
    return _agreeing(found, more=True)


def _counted(what: str, more: bool) -> Judge:
    """The same over all senders, counted instead of listed."""

    def judge(results: Results) -> Verdict:
        compared = [item for item in comparisons(results) if item.what.startswith(what) and item.change is not None]
        verdict = _agreeing(compared, more)
        if verdict.status == "missing":
            return verdict
        changes = sorted(item.change for item in compared if item.change is not None)
        text = f"{changes[0]:+.1%} to {changes[-1]:+.1%} over {len(changes)} comparisons"
        counted = Verdict(verdict.status, text, verdict.why)
        return _with_noise(counted) if what == "throughput" else counted

    return judge


def _largest(results: Results) -> Verdict:
    """Where RED's gain is the largest."""
    rates = [item for item in comparisons(results) if item.what.startswith("throughput") and item.change is not None]
    if not rates:
        return MISSING
    best = max(rates, key=lambda item: item.change or 0.0)
    text = f"the largest change: {best.case} BDP, {best.sender}, {best.change:+.1%}"
    is_theirs = (
        best.case == "high" and best.claim is not None and best.claim.sender == "cubic" and not best.claim.beside
    )
    if is_theirs and best.verdict == "RED has more":
        return Verdict("reproduced", text)
    return Verdict("contradicted", text, f"{best.verdict}; {_noise()}")


def _absolute(results: Results) -> Verdict:
    """Throughputs themselves, where a link carries what it can."""
    rates = [
        item.droptail.median
        for item in comparisons(results)
        if item.what == "throughput, Mbit/s" and item.droptail is not None
    ]
    if not rates:
        return MISSING
    text = f"{number_text(min(rates))} to {number_text(max(rates))} Mbit/s with DropTail"
    return Verdict("not applicable", text, "its bytes/s count acknowledgements of small segments; gains are compared")


def claims(results: Results) -> list[Claim]:
    """In the order of the document."""
    return [
        Claim(
            "Introduction",
            "dropping packets before the queue is full can raise throughput",
            _counted("throughput", more=True),
        ),
        Claim(
            "Introducing RED",
            "full queues make round trips longer, and RED keeps them shorter",
            _counted("queue", more=False),
        ),
        Claim(
            "Introducing RED",
            "drops with a probability that grows with the queue; loss is all that CUBIC reacts to",
            not_applicable("definitions"),
        ),
        Claim(
            "Note on the experiments", "RED is a big improvement in every scenario", _counted("throughput", more=True)
        ),
        Claim("Note on the experiments", "most in CUBIC, high BDP: 15.66 → 36.92 kB/s", _largest),
        Claim(
            "Settings",
            "2.64 Mbit/s Poisson and 88 ms; 5.65 Mbit/s and 200 ms; 30 and 50 kB; RED from 0.3 to 0.8; 120 s",
            setting("queue/red-high-bdp", "the same rates, delays, queues and thresholds"),
        ),
        Claim("All results", "throughputs of 4.61 to 41.47 kB/s", _absolute),
        *_rows(),
        Claim(
            "High BDP CUBIC - RED",
            "without the first spike of the window it grows to higher values",
            _window,
        ),
    ]
