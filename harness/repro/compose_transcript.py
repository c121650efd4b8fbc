"""What the compose engine asks of Docker for a golden lab, and the files it writes: equal where a change kept both.

In real time no run is another one to the byte. Of two versions of the engine it can be proven that they give the same
labs the same files, and Docker the same commands: those that change a container in the same order for each container,
those that only look the same, however often.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import EngineError
from harness.repro.checkout import Checkout

#: The golden labs, by name, from the shortest.
GOLDEN_LABS: dict[str, Path] = {
    name: Path(__file__).parent / "golden_labs" / f"{name}.yaml" for name in ("pair", "segments", "moved", "shared")
}
#: How often a lab is tried while the machine disturbs it.
_ATTEMPTS = 5
#: Seconds that a golden lab may take, with the images that it needs.
_SECONDS = 1200.0
#: Of a run's folder, what its containers are made from; the rest is what they did.
_FILES = ("compose.yaml", "cell.env", "lab.json", "plan/**/*")
#: Commands that change nothing. How often they are given depends on how long things take.
_LOOKING = frozenset({"events", "image", "inspect", "logs", "ps", "stats", "top", "version", "info", "wait"})
#: Commands by which images are made and looked into before a first run.
_MAKES_IMAGES = frozenset({"buildx", "build", "pull", "export"})
#: In place of `docker`: notes the words, and what a new container is called, and hands over.
_SHIM = """\
#!{python} -ISE
import json, os, subprocess, sys
words, log, real = sys.argv[1:], {log!r}, {real!r}
made = ""
if words[:1] in (["run"], ["create"]):
    done = subprocess.run([real, *words], stdout=subprocess.PIPE)
    made, code = done.stdout.decode().strip(), done.returncode
    sys.stdout.buffer.write(done.stdout)
line = (json.dumps({{"words": words, "made": made}}) + "\\n").encode()
with open(log, "ab", buffering=0) as file:
    file.write(line)
if words[:1] in (["run"], ["create"]):
    sys.exit(code)
os.execv(real, [real, *words])
"""
#: What differs between two runs of one version → what stands for it.
_VARYING = (
    (re.compile(r"\bquic-lab-\d+-(\d+)"), r"quic-lab-\1"),
    (re.compile(r"\b\d+-\d+-[0-9a-f]{12}(-\d+)?\b"), "OWNER"),
    # An image that is built here is called by what it is made from, which a change of the simulator changes.
    (re.compile(r"\b(quic-lab/[\w.-]+):[0-9a-f]{12}"), r"\1"),
    (re.compile(r"\b([0-9a-f]{64}|[0-9a-f]{12})\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "KEY"),
    (re.compile(r"\b\d{10}\.\d+\b"), "TIME"),
    (re.compile(r"/tmp/[\w.-]+"), "SCRATCH"),
)


@dataclass(frozen=True)
class Transcript:
    """One golden lab, as one version of the engine brought it up and down."""

    files: Mapping[str, str]
    """Place in the run's folder → text, without what varies."""
    changing: Mapping[str, tuple[str, ...]]
    """Container, or whatever a command names → the commands that change it, in order."""
    kinds: tuple[str, ...]
    """The kinds of commands that change something, in the order in which each came first."""
    looking: frozenset[str]
    """The commands that only look."""

    @property
    def attempts(self) -> int:
        """How often the lab was brought up: each time its containers have names with another number."""
        names = " ".join(self.changing)
        return len(set(re.findall(r"\bquic-lab-(\d+)-client0\b", names)))


def transcript(checkout: Checkout, name: str, scratch: Path) -> Transcript:
    """Run a golden lab in real time with the code of a checkout. EngineError where it does not complete undisturbed.

    `scratch`: a new folder for stores, shims and their logs.
    """
    for number in range(_ATTEMPTS):
        made = _attempt(checkout, name, scratch / str(number))
        if made is not None:
            return made
    raise EngineError(
        f"the golden lab {name} was disturbed {_ATTEMPTS} times in real time", "try again on a quieter machine"
    )


def _attempt(checkout: Checkout, name: str, scratch: Path) -> Transcript | None:
    """One transcript; None where the run was made once more, as on a busy machine, or images were made before it."""
    store, log, programs = scratch / "store", scratch / "docker.jsonl", scratch / "bin"
    programs.mkdir(parents=True)
    log.touch()
    shim = programs / "docker"
    shim.write_text(_SHIM.format(python=sys.executable, log=str(log), real=shutil.which("docker")))
    shim.chmod(0o755)
    words = ["run", str(GOLDEN_LABS[name]), "--engine", "compose", "--repeat", "1", "--no-figures"]
    words += ["--store", str(store)]
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = checkout.python("-m", "harness.cli", *words, seconds=_SECONDS, PATH=path)
    runs = list(store.glob("runs/*/0"))
    if len(runs) != 1 or json.loads((runs[0] / "run.json").read_text())["outcome"]["status"] != "completed":
        said = "\n  ".join(done.stderr.strip().splitlines()[-5:]) or "no message"
        raise EngineError(f"the golden lab {name} did not complete in {checkout.folder}:\n  {said}")
    text = {str(checkout.folder): "CHECKOUT", str(checkout.cache): "CACHE", str(scratch): "SCRATCH"}
    files = {
        str(file.relative_to(runs[0])): settled(file.read_text(), text)
        for pattern in _FILES
        for file in sorted(runs[0].glob(pattern))
        if file.is_file()
    }
    made = read_commands(log.read_text().splitlines(), files, text)
    return made if made.attempts == 1 and not _MAKES_IMAGES & {*made.kinds} else None


def read_commands(lines: Iterable[str], files: Mapping[str, str], names: Mapping[str, str]) -> Transcript:
    """A transcript of what the shim noted, a line a command; `names`: folder → what stands for it."""
    noted = [json.loads(line) for line in lines]
    known = {made["made"]: _name(made["words"]) for made in noted if made["made"]}
    changing: dict[str, list[str]] = {}
    kinds: dict[str, None] = {}
    looking = set()
    for words in (made["words"] for made in noted):
        readable = [settled(known.get(word, word), names) for word in words]
        subjects = sorted(word for word in readable if word in {settled(name, names) for name in known.values()})
        if _looks(words):
            looking.add(" ".join(sorted(readable)))
            continue
        kind = _kind(words)
        kinds.setdefault(kind)
        subject = " ".join(subjects) or kind
        # Containers that are removed together are named in the order in which Docker lists them.
        command = " ".join([*(word for word in readable if word not in subjects), *subjects])
        changing.setdefault(subject, []).append(command)
    return Transcript(
        files, {name: tuple(commands) for name, commands in changing.items()}, tuple(kinds), frozenset(looking)
    )


def _looks(words: Sequence[str]) -> bool:
    return words[0] in _LOOKING or words[:2] in (["network", "ls"], ["network", "inspect"], ["compose", "version"])


def _kind(words: Sequence[str]) -> str:
    """`run`, `network connect`, `compose up`: the words of a command that are no options."""
    if words[0] != "compose":
        return " ".join(words[: 2 if words[0] == "network" else 1])
    return "compose " + next((word for word in words if word in ("up", "down", "stop", "start", "rm", "create")), "")


def _name(words: Sequence[str]) -> str:
    """What a container is called that a command makes."""
    return words[words.index("--name") + 1] if "--name" in words else "container"


def settled(text: str, names: Mapping[str, str]) -> str:
    """A text without what differs between two runs of one version; `names`: folder → what stands for it."""
    for folder, name in names.items():
        text = text.replace(folder, name)
    for pattern, stands in _VARYING:
        text = pattern.sub(stands, text)
    return text


def differences(base: Transcript, candidate: Transcript) -> tuple[str, ...]:
    """What is not the same, each as a line for people."""
    found = [
        f"{place}: {_first_line(base.files.get(place, ''), candidate.files.get(place, ''))}"
        for place in sorted({*base.files, *candidate.files})
        if base.files.get(place) != candidate.files.get(place)
    ]
    for subject in sorted({*base.changing, *candidate.changing}):
        sides = base.changing.get(subject, ()), candidate.changing.get(subject, ())
        if sides[0] != sides[1]:
            texts = ["\n".join(side) for side in sides]
            found.append(f"docker, of {subject}: {_first_line(texts[0], texts[1])}")
    if base.kinds != candidate.kinds:
        found.append(f"docker: {', '.join(base.kinds)} in this order before, {', '.join(candidate.kinds)} now")
    found += [f"docker {command}: no longer asked" for command in sorted(base.looking - candidate.looking)]
    found += [f"docker {command}: asked now" for command in sorted(candidate.looking - base.looking)]
    return tuple(found)


def _first_line(base: str, candidate: str) -> str:
    """The first line in which two texts differ."""
    sides = base.splitlines(), candidate.splitlines()
    for number in range(max(len(side) for side in sides)):
        before, now = (side[number] if number < len(side) else "nothing" for side in sides)
        if before != now:
            return f"'{_short(before, now)}' before, '{_short(now, before)}' now"
    return "other line ends"


def _short(text: str, other: str) -> str:
    """A text from just before the place where it differs from another one."""
    pairs = enumerate(zip(text, other, strict=False))
    same = next((place for place, (one, another) in pairs if one != another), min(len(text), len(other)))
    start = max(0, same - 60)
    return ("…" if start else "") + text[start : same + 80] + ("…" if len(text) > same + 80 else "")


def prove(base: Checkout, candidate: Checkout, scratch: Path) -> dict[str, tuple[str, ...]]:
    """Golden lab → what is not the same in two versions of the compose engine. EngineError, as `transcript`."""
    return {
        name: differences(
            transcript(base, name, scratch / f"{name}-base"), transcript(candidate, name, scratch / f"{name}-today")
        )
        for name in GOLDEN_LABS
    }
