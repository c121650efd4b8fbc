"""The page: who validates ECN, who falls back, and who reacts to marks, from stored runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count, format_list
from harness.report.markdown import table_row
from harness.report.numbers import span_text
from harness.scenario.parameters import Role
from studies import FIGURE, extremes_text, list_items
from studies.ecn.claims import ALL_MARKED, BLEACHED, CASES, DROPPED, FOLDER, MARKED, MARKINGS, SOURCE, STATED, UNMARKED
from studies.ecn.compared import TARGET_MS, TOLERANCE, Stack, stacks

_MARKING_COLUMNS = ("stack", "its marks are counted back", *(case.title for case in MARKINGS))
_REACTION_COLUMNS = (
    "stack", "download, s", "ECN off", "median wait, ms", "ECN off", "marked, packets", "dropped, ECN off",
    "3 MB if all are marked, s", "10 MB if ECN is dropped, s",
)  # fmt: skip
_TITLES: tuple[tuple[Role, str], ...] = (
    ("server", "Servers, which send the data"),
    ("client", "Clients, which send acknowledgements"),
)


def ecn(results: Sequence[CellResult]) -> str:
    """The page."""
    measured = stacks(results)
    lines = [
        "# ECN: who validates it, who falls back, who reacts",
        "",
        "Generated (`make generate`) from the runs in [`results/reference/`](../results/reference/README.md).",
        "",
        *list_items(sentences(measured) if measured else ()),
        FIGURE,
        "",
        f"The sources are {SOURCE}.",
        *STATED,
        "",
        "Each stack downloads 10 MB from itself over 20 Mbit/s, behind CoDel.",
        "The delay is drawn anew for each repetition. The paths differ in what they do to ECN, in both directions:",
        "",
        *(f"* **{case.title}** (`{case.scenario}`): {case.words}." for case in CASES),
        "",
        "The marks of a sender are read at its own side, before any node on the way.",
        "It *stops* if ten datagrams or more follow its last ECN-capable one, or several for 1 s.",
        "The number counts its ECN-capable datagrams. The time runs from its first datagram to the last of these.",
        "",
        "By default msquic has ECN off, and you see it with ECN on, too.",
        "You see picoquic a second time with `prague` at its server, which sends ECT(1).",
        "",
        "```",
        f"harness run {FOLDER} --engine virtual --clients NAME --servers NAME  # one stack",
        f"python -m tools.reference run --only {FOLDER}                          # all of this page",
        "```",
        "",
    ]
    if not measured:
        return "\n".join([*lines, "No runs are stored.", ""])
    for role, title in _TITLES:
        lines += [f"## {title}", "", table_row(_MARKING_COLUMNS), table_row(["---"] * len(_MARKING_COLUMNS))]
        lines += [*(table_row(_marking_cells(stack, role)) for stack in measured), ""]
    lines += [
        "## What marks do",
        "",
        f"A sender *reacts* if marks keep the median wait of its packets within {TOLERANCE} times CoDel's target of "
        f"{TARGET_MS:g} ms.",
        "The controller `prague` is made for queues that mark much more (RFC 9331).",
        "A mark now and then is nearly nothing to it.",
        "",
        table_row(_REACTION_COLUMNS),
        table_row(["---", *["---:"] * (len(_REACTION_COLUMNS) - 1)]),
    ]
    return "\n".join([*lines, *(table_row(_reaction_cells(stack)) for stack in measured), ""])


def _marking_cells(stack: Stack, role: Role) -> list[str]:
    undisturbed = stack.marking(MARKED.scenario, role)
    counted = "–"
    if undisturbed is not None and undisturbed.behaviour != "never" and undisturbed.reports is not None:
        counted = "yes" if undisturbed.reports else "no"
    return [stack.name, counted, *(_marking_text(stack, case.scenario, role) for case in MARKINGS)]


def _marking_text(stack: Stack, scenario: str, role: Role) -> str:
    """What a sender did with its marks on a path, and how many downloads did not end."""
    download = stack.downloads.get(scenario)
    if download is None:
        return "–"
    marking, words = download.markings[role], []
    if marking is None:
        words.append("sends nothing")
    elif marking.behaviour == "never":
        words.append("never marks")
    elif marking.behaviour == "always":
        words.append(f"marks with ECT({int(marking.ect_1)})")
    else:
        first = "stops" if marking.behaviour == "stops" else "stops in some runs"
        times = "" if marking.seconds is None else f" ({1e3 * marking.seconds.median:.0f} ms)"
        words.append(f"{first} after {span_text(marking.datagrams)}{times}")
    if not download.completes:
        words.append(f"{download.completed} of {download.runs} downloads end")
    return "; ".join(words)


def _reaction_cells(stack: Stack) -> list[str]:
    marked, unmarked = (stack.downloads.get(case.scenario) for case in (MARKED, UNMARKED))
    return [
        stack.name,
        span_text(marked.seconds if marked else None),
        span_text(unmarked.seconds if unmarked else None),
        span_text(marked.wait if marked else None),
        span_text(unmarked.wait if unmarked else None),
        span_text(marked.marks if marked else None),
        span_text(unmarked.drops if unmarked else None),
        *(_seconds(stack, case.scenario) for case in (ALL_MARKED, DROPPED)),
    ]


def _seconds(stack: Stack, scenario: str) -> str:
    download = stack.downloads.get(scenario)
    if download is None:
        return "–"
    return span_text(download.seconds) if download.completes else f"{download.completed} of {download.runs} end"


def sentences(measured: Sequence[Stack]) -> list[str]:
    """At most six sentences: who uses ECN and validates it, who falls back, who reacts to marks."""
    using = [stack for stack in measured if stack.uses_ecn]
    if not using:
        return [f"None of {len(measured)} stacks marks its data to the end where nothing is in the way."]
    return [*_validation(measured, using), *_fallback(using), *_reaction(using)]


def _validation(measured: Sequence[Stack], using: Sequence[Stack]) -> Iterator[str]:
    tested = [stack for stack in using if stack.marking(BLEACHED.scenario, "server") is not None]
    stopping = [stack for stack in tested if stack.behaves(BLEACHED.scenario, "server", "stops")]
    blind = [stack for stack in tested if stack not in stopping]
    never = [stack for stack in measured if stack.behaves(MARKED.scenario, "server", "never")]
    yield (
        f"{len(using)} of {len(measured)} servers mark their data to the end on a path that carries ECN"
        f"{_aside(never, 'marks nothing', 'mark nothing')}."
    )
    if tested:
        yield (
            f"{len(stopping)} of {len(tested)} {_verb(stopping, 'stops', 'stop')} on the path that clears the field"
            f"{_aside(blind, 'goes on without validation', 'go on without validation')}."
        )


def _fallback(using: Sequence[Stack]) -> Iterator[str]:
    tested = [stack for stack in using if DROPPED.scenario in stack.downloads]
    surviving = [stack for stack in tested if stack.downloads[DROPPED.scenario].completes]
    where = "on the path that drops ECN-capable packets"
    if not surviving:
        yield f"No stack that marks ends every download {where}."
        return
    verbs, times = _verb(surviving, "falls back and ends", "fall back and end"), _times(surviving, DROPPED.scenario)
    yield f"{len(surviving)} of {len(tested)} {verbs} every download {where}{f', in {times}' if times else ''}."


def _reaction(using: Sequence[Stack]) -> Iterator[str]:
    known = [stack for stack in using if stack.reacts is not None]
    reacting = [stack for stack in known if stack.reacts]
    ignoring = [stack for stack in known if not stack.reacts]
    trusting = [stack for stack in using if stack.behaves(ALL_MARKED.scenario, "server", "always")]
    distrusting = [stack for stack in using if stack.behaves(ALL_MARKED.scenario, "server", "stops")]
    yield (
        f"{len(reacting)} of {len(known)} servers that were marked {_verb(reacting, 'reacts', 'react')}: "
        f"the median wait of their packets is {TOLERANCE * TARGET_MS:g} ms at most"
        f"{_aside(ignoring, 'does not', 'do not')}."
    )
    if trusting:
        servers = f"{format_count(len(trusting), 'server')} {_verb(trusting, 'believes', 'believe')}"
        aside = _aside(distrusting, "stops marking", "stop marking")
        yield f"{servers} the marks on the path that marks every packet{aside}."
        if times := _times(trusting, ALL_MARKED.scenario):
            yield f"3 MB take {times} there."


def _times(of: Sequence[Stack], scenario: str) -> str:
    """How long the downloads of a path take, from the soonest to the latest; empty without one that ended."""
    downloads = {stack.name: stack.downloads[scenario] for stack in of}
    spans = {name: download.seconds for name, download in downloads.items() if download.completes and download.seconds}
    return extremes_text(spans, "{} s ({})") if spans else ""


def _aside(of: Sequence[Stack], singular: str, plural: str) -> str:
    """The end of a sentence: the names of stacks, and what they do; empty without any."""
    return f"; {_names(of)} {_verb(of, singular, plural)}" if of else ""


def _verb(of: Sequence[Stack], singular: str, plural: str) -> str:
    return singular if len(of) == 1 else plural


def _names(of: Sequence[Stack]) -> str:
    return format_list([stack.name for stack in of]) or "none"
