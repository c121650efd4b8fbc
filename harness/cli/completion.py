"""Shell completion of scenarios, implementations, parameters and their values, figures and outcomes.

The shell waits for it at every key, so it must be quick. Names come from file names where possible. Other modules are
imported on demand, and none that draws or computes.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.cli.workspace import ROOT, find_workspace

#: Characters of our words at which Bash ends a word (COMP_WORDBREAKS).
_BREAKS = ("=", ":")


def scenarios(incomplete: str) -> list[str]:
    """Scenarios, and folders of scenarios."""
    folders = [root / "scenarios" for root in _roots()]
    names = sorted(
        str(file.relative_to(folder).with_suffix("")) for folder in folders for file in folder.rglob("*.yaml")
    )
    families = sorted({name.rpartition("/")[0] for name in names} - {""})
    return _starting_with(incomplete, [*families, *names])


def one_implementation(incomplete: str) -> list[str]:
    """The name of an implementation."""
    return _starting_with(incomplete, _implementations())


def implementations(incomplete: str) -> list[str]:
    """Implementations, separated by commas."""
    return _complete_last(incomplete, [*_implementations(), "all"])


def settings(incomplete: str) -> list[str]:
    """NAME= of a parameter, then the values that some implementation takes."""
    name, equals, typed = incomplete.partition("=")
    return [f"{name}={value}" for value in _starting_with(typed, _values(name))] if equals else _names(name)


def sweeps(incomplete: str) -> list[str]:
    """The same with several values, separated by commas."""
    name, equals, typed = incomplete.partition("=")
    return [f"{name}={value}" for value in _complete_last(typed, _values(name))] if equals else _names(name)


def outcomes(incomplete: str) -> list[str]:
    """Outcomes of runs, separated by commas."""
    from typing import get_args

    from harness.outcome.run import Status

    return _complete_last(incomplete, get_args(Status))


def figures(incomplete: str) -> list[str]:
    """Figures, separated by commas. They are found by their decorators, since an import would take seconds."""
    files = sorted((Path(__file__).parents[1] / "report" / "plots").glob("*.py"))
    pattern = re.compile(r"^@plot\w*\((?:.|\n)*?^def (\w+)\(", re.MULTILINE)
    return _complete_last(incomplete, sorted(name for file in files for name in pattern.findall(file.read_text())))


def formats(incomplete: str) -> list[str]:
    """File formats of figures, separated by commas."""
    return _complete_last(incomplete, ("png", "svg", "html"))


def kinds(incomplete: str) -> list[str]:
    """Kinds of files that have a schema."""
    return _starting_with(incomplete, ("scenario", "image"))


def _implementations() -> list[str]:
    return sorted(file.parent.name for root in _roots() for file in (root / "images").glob("*/image.yaml"))


def _roots() -> list[Path]:
    workspace = find_workspace()
    return [ROOT, *([workspace] if workspace is not None else [])]


def _names(incomplete: str) -> list[str]:
    """Parameters that can be set or varied. Those of a flow appear once its number is typed."""
    from harness.planning.sweep import dimensions
    from harness.scenario.parameters import PARAMETERS, ROLES

    candidates = [*dimensions()]
    if match := re.match(r"flow\d+\.", incomplete):
        flow_parameters = [*ROLES, "access_delay", *(f"{role}.{name}" for role in ROLES for name in PARAMETERS)]
        candidates = [f"{match[0]}{name}" for name in flow_parameters]
    return [f"{name}=" for name in _starting_with(incomplete, candidates)]


def _values(name: str) -> list[str]:
    """Values of a parameter that some implementation takes; empty for numbers, durations and sizes."""
    from harness.scenario.parameters import PARAMETERS, ROLES

    field_name = name.rpartition(".")[2]
    if name.startswith("flow") and field_name in ROLES:
        return _implementations()
    parameter = PARAMETERS.get(field_name)
    if parameter is None or name.startswith(("path.", "paths.")):
        return []
    if parameter.kind == "switch":
        return ["on", "off"]
    from harness.catalogue import Catalogue

    roles = [role for role in ROLES if f"{role}." in name] or ROLES
    value_sets = (
        setting.values or ()
        for implementation, _ in Catalogue(ROOT, workspace=find_workspace()).implementations().values()
        for role in roles
        if (setting := implementation.setting(role, field_name)) is not None
    )
    return sorted({str(value) for values in value_sets for value in values})


def _starting_with(incomplete: str, candidates: Iterable[str]) -> list[str]:
    return [word for word in candidates if word.startswith(incomplete)]


def _complete_last(incomplete: str, candidates: Iterable[str]) -> list[str]:
    """Completions of the last of several words, separated by commas. A word that is there already is left out."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{word}" for word in _starting_with(last, candidates) if word not in before.split(",")]


@contextlib.contextmanager
def join_split_words() -> Iterator[None]:
    """Join the words that Bash split, while it asks for completions.

    Bash splits `--set pacing=o` at the =, and replaces only the part behind it. So the answers have only that part.
    """
    if os.environ.get("_HARNESS_COMPLETE") != "complete_bash":
        yield
        return
    words, prefix = _rejoined(os.environ.get("COMP_WORDS", ""), os.environ.get("COMP_CWORD", ""))
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = shlex.join(words), str(max(len(words) - 1, 0))
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            yield
    finally:
        sys.stdout.write("".join(line.removeprefix(prefix) for line in output.getvalue().splitlines(keepends=True)))


def _rejoined(typed: str, current: str) -> tuple[list[str], str]:
    """(the words up to the one that is completed, the part of that word that Bash keeps)."""
    try:
        parts = shlex.split(typed)
    except ValueError:  # a quote that is still open
        parts = typed.split()
    end = int(current) + 1 if current.isdecimal() else len(parts)
    parts = (parts + [""] * end)[:end]
    words: list[str] = []
    prefix, after_break = "", False
    for part in parts:
        if len(words) > 1 and (after_break or part in _BREAKS):
            words[-1] += part
            prefix = words[-1] if part in _BREAKS else prefix
        else:
            words.append(part)
            prefix = ""
        after_break = part in _BREAKS
    return words, prefix
