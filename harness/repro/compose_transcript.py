"""The commands that the compose engine gives Docker for a golden lab, and the files it writes.

In real time no two runs are equal to the byte. But two versions of the engine can be proven to write the same files
for the same labs, and to give Docker the same commands. Commands that change a container are compared in order, for
each container. Commands that only look are compared as a set: how often they are given depends on the machine.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from harness.errors import EngineError
from harness.repro.checkout import Checkout

#: The golden labs, by name, from the shortest.
GOLDEN_LABS: dict[str, Path] = {
    name: Path(__file__).parent / "golden_labs" / f"{name}.yaml" for name in ("pair", "segments", "moved", "shared")
}
#: Seconds that a golden lab may take, including builds of images.
_SECONDS = 1200.0
_SHIM = Path(__file__).parent / "docker_shim.py"
#: Files of a run's folder from which containers are made: their text is compared. Of other files only the names are.
_INPUTS = ("compose.yaml", "cell.env", "lab.json", "plan/*")
#: Left out: files that endpoints write, under names of their own, and files of the store.
_UNCOMPARED = ("flow*/client/*", "flow*/server/*", "run.json", "measured.json", "series.parquet")
#: Stands for the text of a file whose content is measured.
MEASURED = "measured"
#: Commands that change nothing.
_READ_ONLY = frozenset({"events", "inspect", "logs", "ps", "stats", "top", "wait", "network ls", "network inspect"})
#: Commands about images and versions. They depend on what is on this machine, and do not come from an engine.
_IMAGE_COMMANDS = frozenset(
    {
        "build",
        "buildx",
        "builder",
        "compose version",
        "export",
        "image",
        "images",
        "info",
        "load",
        "login",
        "pull",
        "push",
        "rmi",
        "save",
        "tag",
        "version",
    }
)
#: Commands whose name has two words.
_GROUPS = frozenset({"compose", "container", "network", "volume"})
#: Options of `docker compose` that take a value, ahead of its command.
_COMPOSE_OPTIONS = frozenset({"--env-file", "--file", "--profile", "--progress", "--project-name"})
#: Subject of commands that name no container, and the beginnings of those that concern all containers.
SHARED_RESOURCES = "networks and simulators"
_CONCERNING_ALL = ("compose ", "network ")
#: What differs between two runs of one version → its placeholder.
_VARYING = (
    # Projects: process ID of the harness, and number of the project.
    (re.compile(r"\bquic-lab-\d+-(\d+)"), r"quic-lab-\1"),
    # Owners (harness/engine/process_owner.py).
    (re.compile(r"\b\d+-\d+-[0-9a-f]{12}(n\d+)?\b"), "OWNER"),
    # The tag of an image that is built here is a digest of its sources, which a change of the simulator changes.
    (re.compile(r"\b(quic-lab/[\w.-]+):[0-9a-f]{12}"), r"\1"),
)
#: Whole words: IDs of containers and networks, long and short; seconds since the epoch.
_ID, _TIME = re.compile(r"[0-9a-f]{64}|[0-9a-f]{12}"), re.compile(r"\d{10}\.\d+")
#: Characters of a line that are shown before a difference, and from there on.
_CHARACTERS_BEFORE, _CHARACTERS_AFTER = 60, 80


@dataclass(frozen=True)
class Transcript:
    """Files and commands of one golden lab, with one version of the engine."""

    files: Mapping[str, str]
    """Place in the run's folder → text without what varies, or MEASURED.

    Below `standing/` are the files from which networks and simulators were brought up.
    """
    changes: Mapping[str, tuple[str, ...]]
    """Container → the commands that change it or its networks, in order."""
    queries: frozenset[str]
    """The commands that only look."""


def transcript(checkout: Checkout, name: str, scratch: Path) -> Transcript:
    """Run a golden lab in real time with the code of a checkout. EngineError where it does not complete.

    `scratch`: a new folder for the store, the shim and its log.
    """
    store, log = scratch / "store", scratch / "docker.jsonl"
    words = ["run", str(GOLDEN_LABS[name]), "--engine", "compose", "--repeat", "1", "--no-figures"]
    try:
        completed = checkout.python(
            "-m",
            "harness.cli",
            *words,
            "--store",
            str(store),
            seconds=_SECONDS,
            PATH=f"{shim_folder(scratch, log)}{os.pathsep}{os.environ['PATH']}",
            # A run that the host disturbed is not repeated: files and commands are the same.
            HARNESS_PATIENCE="0 s",
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"the golden lab {name} did not end within {_SECONDS:g} s in {checkout.folder}") from error
    folder = _completed_run_folder(store, name, checkout, completed.stderr)
    places = {str(checkout.folder): "CHECKOUT", str(checkout.cache): "CACHE", str(scratch): "SCRATCH"}
    return read_transcript(log.read_text().splitlines(), run_files(folder), {**places, folder.parent.name: "KEY"})


def shim_folder(scratch: Path, log: Path) -> Path:
    """Make a folder with a `docker` that logs its commands. EngineError where there is no Docker."""
    docker = shutil.which("docker")
    if docker is None:
        raise EngineError("there is no 'docker' command", "run 'make setup'")
    folder = scratch / "bin"
    folder.mkdir(parents=True)
    log.touch()
    command = shlex.join([sys.executable, "-ISE", str(_SHIM), str(log), docker])
    (folder / "docker").write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    (folder / "docker").chmod(0o755)
    return folder


def _completed_run_folder(store: Path, name: str, checkout: Checkout, stderr: str) -> Path:
    """The folder of the run. EngineError where it did not complete."""
    records = sorted(store.glob("runs/*/*/run.json"))
    if len(records) != 1:
        message = "\n  ".join(stderr.strip().splitlines()[-5:]) or "no message"
        raise EngineError(f"{checkout.folder} made no run of the golden lab {name}:\n  {message}")
    outcome: dict[str, Any] = json.loads(records[0].read_text())["outcome"]
    if outcome["status"] != "completed":
        message = outcome.get("detail") or outcome.get("reason") or "no reason is given"
        raise EngineError(
            f"the golden lab {name} ended as {outcome['status']} in {checkout.folder}: {message}",
            "give the same command again; if that does not help, run the lab by hand: "
            f"harness run {GOLDEN_LABS[name]} --engine compose",
        )
    return records[0].parent


def run_files(folder: Path) -> dict[str, str]:
    """Files of a run's folder → text for those from which containers are made, MEASURED for all others."""
    files = {}
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder)
        if file.is_file() and not _matches(place, _UNCOMPARED):
            # Whether the store has compressed a file does not count.
            files[str(place).removesuffix(".zst")] = file.read_text() if _matches(place, _INPUTS) else MEASURED
    return files


def _matches(place: Path, patterns: Iterable[str]) -> bool:
    """Whether the path of a file, or of a folder above it, matches a pattern."""
    return any(part.match(pattern) for part in (place, *place.parents) for pattern in patterns)


def read_transcript(lines: Iterable[str], files: Mapping[str, str], places: Mapping[str, str]) -> Transcript:
    """A transcript from the log of the shim.

    `lines`: the log; `files`: the run's files, unchanged; `places`: a folder, or a cell's key → its placeholder.
    """
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    identities = {identity: name for item in records for identity, name in item.get("made", {}).items() if name}
    texts = {place: normalize(text, places) for place, text in files.items()}
    steps: list[tuple[str, str]] = []
    looking: set[str] = set()
    names = Placeholders(places, identities)
    for item in records:
        texts |= {place: normalize(text, places) for place, text in _compose_up_files(item)}
        words = [names.readable(word) for word in item.get("words", ())]
        if not words or _is_beside(words):
            continue
        commands = list(names.by_subject(words))
        if _kind(words) in _READ_ONLY:
            looking.update(command for _, command in commands)
        else:
            steps += commands
    return Transcript(texts, _by_subject(steps), frozenset(looking))


@dataclass(frozen=True)
class Placeholders:
    """Names that differ in every run, and their placeholders in commands."""

    places: Mapping[str, str]
    """Folder, or a cell's key → its placeholder."""
    created: Mapping[str, str]
    """ID of a container, or of a network with a command of its own → name."""

    @functools.cached_property
    def known(self) -> frozenset[str]:
        """Readable names of all containers and networks that were made."""
        return frozenset(normalize(name, self.places) for name in self.created.values())

    def readable(self, word: str) -> str:
        """A word of a command, with names instead of IDs and times."""
        if _ID.fullmatch(word):
            name = next((name for identity, name in self.created.items() if identity.startswith(word)), "ID")
            return normalize(name, self.places)
        return "TIME" if _TIME.fullmatch(word) else normalize(word, self.places)

    def by_subject(self, words: Sequence[str]) -> Iterator[tuple[str, str]]:
        """(subject, command) for each container that a command names. Their order in the command does not count."""
        subjects = [word for word in words if word in self.known]
        for subject in subjects or [SHARED_RESOURCES]:
            yield subject, " ".join(word for word in words if word == subject or word not in subjects)


def _compose_up_files(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The files and variables of `compose up`."""
    files: Mapping[str, str] = item.get("files", {})
    if files:
        folder = Path(option_value(item["words"], "--file")).parent
        yield from ((f"standing/{Path(file).relative_to(folder)}", text) for file, text in files.items())
        yield "standing/variables", "".join(f"{name}={value}\n" for name, value in sorted(item["variables"].items()))


def _is_beside(words: Sequence[str]) -> bool:
    """Whether a command is about images, or removes what an earlier harness has left."""
    if words[0] in ("create", "run") and "--name" not in words and "--volume" not in words:
        # It exports an image's files, or probes the host's queues.
        return True
    return _kind(words) in _IMAGE_COMMANDS or (_kind(words) in ("rm", "network rm") and words[-1] == "ID")


def _kind(words: Sequence[str]) -> str:
    """The words that say what a command does: `run`, `network connect`, `compose up`."""
    if words[0] not in _GROUPS:
        return words[0]
    further = iter(words[1:])
    for word in further:
        if word in _COMPOSE_OPTIONS:
            next(further, None)
        elif not word.startswith("-"):
            return f"{words[0]} {word}"
    return words[0]


def _by_subject(steps: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Container → its commands in order, together with those that concern all containers."""
    steps = list(steps)
    ordered: dict[str, list[str]] = {subject: [] for subject, _ in steps}
    for subject, commands in ordered.items():
        for target, command in steps:
            applies = target == subject or (target == SHARED_RESOURCES and command.startswith(_CONCERNING_ALL))
            # A container that is slow to end may be told to stop again.
            repeated = command.startswith("stop ") and commands[-1:] == [command]
            if applies and not repeated:
                commands.append(command)
    return {subject: tuple(commands) for subject, commands in ordered.items()}


def normalize(text: str, places: Mapping[str, str]) -> str:
    """A text with placeholders for what differs between two runs; `places`: folder or key → its placeholder."""
    # Longest first: a cache may be inside a checkout, and a store inside the folder of a test.
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    for pattern, placeholder in _VARYING:
        text = pattern.sub(placeholder, text)
    return text


def differences(base: Transcript, candidate: Transcript) -> tuple[str, ...]:
    """The differences, each as a line for people: files first, then the commands of each container."""
    return (*_of_files(base.files, candidate.files), *_of_commands(base, candidate))


def _of_files(base: Mapping[str, str], candidate: Mapping[str, str]) -> Iterator[str]:
    for place in sorted({*base, *candidate}):
        if place not in candidate:
            yield f"{place}: not written any more"
        elif place not in base:
            yield f"{place}: written now"
        elif base[place] != candidate[place]:
            lines = (text.splitlines(keepends=True) for text in (base[place], candidate[place]))
            yield f"{place}, {_first_difference(*lines, unit='line')}"


def _of_commands(base: Transcript, candidate: Transcript) -> Iterator[str]:
    for subject in sorted({*base.changes, *candidate.changes}):
        before, now = base.changes.get(subject, ()), candidate.changes.get(subject, ())
        if before != now:
            yield f"docker, {subject}, {_first_difference(before, now, unit='command')}"
    yield from (f"docker {command}: not asked any more" for command in sorted(base.queries - candidate.queries))
    yield from (f"docker {command}: asked now" for command in sorted(candidate.queries - base.queries))


def _first_difference(base: Sequence[str], candidate: Sequence[str], *, unit: str) -> str:
    """The first line or command that differs, as text."""
    place = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(base, candidate, strict=False)))
    before, now = (side[place] if place < len(side) else None for side in (base, candidate))
    return f"{unit} {place + 1}: {_excerpt(before, now)} before, {_excerpt(now, before)} now"


def _excerpt(text: str | None, counterpart: str | None) -> str:
    """An excerpt of a text, quoted: it begins shortly before the first difference from another text."""
    if text is None:
        return "nothing"
    prefix_length = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, counterpart or "", strict=False))
    )
    start, end = max(0, prefix_length - _CHARACTERS_BEFORE), prefix_length + _CHARACTERS_AFTER
    return repr(f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}")


def option_value(words: Sequence[str], option: str) -> str:
    """The value of an option; empty where it is not given."""
    return words[words.index(option) + 1] if option in words[:-1] else ""


def compare_engines(base: Checkout, candidate: Checkout, scratch: Path) -> dict[str, tuple[str, ...]]:
    """Golden lab → differences between two versions of the compose engine. EngineError, as `transcript`."""
    return {
        name: differences(
            transcript(base, name, scratch / f"{name}-base"), transcript(candidate, name, scratch / f"{name}-today")
        )
        for name in GOLDEN_LABS
    }
