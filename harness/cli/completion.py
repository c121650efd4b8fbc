"""What a shell completes: scenarios, implementations, parameters and their values, figures, outcomes.

A shell waits for it at every key: names come from the names of files where these have them, what else is needed is
imported when it is asked for, and nothing that draws or computes is.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator

from harness.cli.environment import ROOT

#: At these Bash ends a word (COMP_WORDBREAKS), of what stands in ours.
_BREAKS = ("=", ":")


def scenarios(incomplete: str) -> list[str]:
    """Scenarios and families of them."""
    folder = ROOT / "scenarios"
    names = sorted(str(file.relative_to(folder).with_suffix("")) for file in folder.rglob("*.yaml"))
    families = sorted({name.rpartition("/")[0] for name in names} - {""})
    return _begun(incomplete, [*families, *names])


def one_implementation(incomplete: str) -> list[str]:
    """The name of an implementation."""
    return _begun(incomplete, _implementations())


def implementations(incomplete: str) -> list[str]:
    """Implementations, separated by commas."""
    return _listed(incomplete, [*_implementations(), "all"])


def settings(incomplete: str) -> list[str]:
    """NAME= of what can be set, then the values that somebody takes."""
    name, equals, typed = incomplete.partition("=")
    return [f"{name}={value}" for value in _begun(typed, _values(name))] if equals else _names(name)


def sweeps(incomplete: str) -> list[str]:
    """The same with several values, separated by commas."""
    name, equals, typed = incomplete.partition("=")
    return [f"{name}={value}" for value in _listed(typed, _values(name))] if equals else _names(name)


def outcomes(incomplete: str) -> list[str]:
    """Outcomes of runs, separated by commas."""
    from typing import get_args

    from harness.outcome.run import Status

    return _listed(incomplete, get_args(Status))


def figures(incomplete: str) -> list[str]:
    """Figures, separated by commas: the functions that are marked so, for to import them would take seconds."""
    files = sorted((ROOT / "harness" / "report" / "plots").glob("*.py"))
    marked = re.compile(r"^@plot\w*\((?:.|\n)*?^def (\w+)\(", re.MULTILINE)
    return _listed(incomplete, sorted(name for file in files for name in marked.findall(file.read_text())))


def formats(incomplete: str) -> list[str]:
    """What figures are written as, separated by commas."""
    return _listed(incomplete, ("png", "svg", "html"))


def kinds(incomplete: str) -> list[str]:
    """Kinds of files that have a schema."""
    return _begun(incomplete, ("scenario", "image"))


def _implementations() -> list[str]:
    return sorted(file.parent.name for file in (ROOT / "images").glob("*/image.yaml"))


def _names(incomplete: str) -> list[str]:
    """What can be set or varied; of flows only once it is clear of which."""
    from harness.planning.sweep import dimensions
    from harness.scenario.parameters import PARAMETERS, ROLES

    known = dimensions()
    if match := re.match(r"flow\d+\.", incomplete):
        own = [*ROLES, "access_delay", *(f"{role}.{name}" for role in ROLES for name in PARAMETERS)]
        known = [f"{match[0]}{name}" for name in own]
    return [f"{name}=" for name in _begun(incomplete, known)]


def _values(name: str) -> list[str]:
    """Values of a parameter that some implementation takes; nothing of numbers, durations and sizes."""
    from harness.scenario.parameters import PARAMETERS, ROLES

    last = name.rpartition(".")[2]
    if name.startswith("flow") and last in ROLES:
        return _implementations()
    parameter = PARAMETERS.get(last)
    if parameter is None or name.startswith(("path.", "paths.")):
        return []
    if parameter.kind == "switch":
        return ["on", "off"]
    from harness.catalogue import Catalogue

    asked = [role for role in ROLES if f"{role}." in name] or ROLES
    found = (
        setting.values or ()
        for one, _ in Catalogue(ROOT).implementations().values()
        for role in asked
        if (setting := one.setting(role, last)) is not None
    )
    return sorted({str(value) for values in found for value in values})


def _begun(incomplete: str, known: Iterable[str]) -> list[str]:
    return [word for word in known if word.startswith(incomplete)]


def _listed(incomplete: str, known: Iterable[str]) -> list[str]:
    """What the last of several words, with commas between them, can become; none twice."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{word}" for word in _begun(last, known) if word not in before.split(",")]


@contextlib.contextmanager
def whole_words() -> Iterator[None]:
    """Give what is typed as the words it was meant as, where Bash asks for completions.

    Bash takes `--set pacing=o` apart at its = and replaces only what stands behind: so much is answered.
    """
    if os.environ.get("_HARNESS_COMPLETE") != "complete_bash":
        yield
        return
    words, before = _rejoined(os.environ.get("COMP_WORDS", ""), os.environ.get("COMP_CWORD", ""))
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = shlex.join(words), str(max(len(words) - 1, 0))
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            yield
    finally:
        sys.stdout.write("".join(line.removeprefix(before) for line in said.getvalue().splitlines(keepends=True)))


def _rejoined(typed: str, current: str) -> tuple[list[str], str]:
    """(the words up to the one that is completed, and how that begins as far as Bash keeps it)."""
    try:
        parts = shlex.split(typed)
    except ValueError:  # a quote that is still open
        parts = typed.split()
    end = int(current) + 1 if current.isdecimal() else len(parts)
    parts = (parts + [""] * end)[:end]
    words: list[str] = []
    before, after_break = "", False
    for part in parts:
        if len(words) > 1 and (after_break or part in _BREAKS):
            words[-1] += part
            before = words[-1] if part in _BREAKS else before
        else:
            words.append(part)
            before = ""
        after_break = part in _BREAKS
    return words, before
