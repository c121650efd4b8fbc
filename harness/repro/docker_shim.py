"""A `docker` in the search path that logs each command, and then runs Docker itself.

Run as `python docker_shim.py LOG DOCKER WORDS…`. It must work with any Python and any version of the harness, so it
imports nothing of the harness. A line of the log is a JSON object, written by a single write(2):

* before a command, `at` (s since the epoch) and `words`; before `compose up` also `files` (path → text of the project's
  files) and `variables` (LAB_…, which the Compose file leaves open);
* after a command that makes containers or a network, `made` (ID → name).
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

#: Label with the name of a container's Compose project.
_PROJECT = "com.docker.compose.project"


def _note(log: str, **content: Any) -> None:
    with Path(log).open("ab", buffering=0) as file:
        file.write(json.dumps(content).encode() + b"\n")


def _after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1] if option in words[:-1] else ""


def _project_files(words: list[str]) -> dict[str, str]:
    folder = Path(_after(words, "--file")).parent
    return {str(file): file.read_text() for file in sorted(folder.rglob("*")) if file.is_file()}


def main(log: str, docker: str, words: list[str]) -> int:
    """Log a command and run it. Returns the exit code, except where Docker replaces this process (exec)."""
    up = words[:1] == ["compose"] and "up" in words
    context = {}
    if up:
        variables = {name: value for name, value in os.environ.items() if name.startswith("LAB_")}
        context = {"files": _project_files(words), "variables": variables}
    _note(log, at=time.time(), words=words, **context)
    creates = words[:1] in (["run"], ["create"]) or words[:2] == ["network", "create"]
    if not (up or creates):
        os.execv(docker, [docker, *words])
    completed = subprocess.run([docker, *words], stdout=subprocess.PIPE, check=False)
    if up:
        label = f"label={_PROJECT}={_after(words, '--project-name')}"
        form = "{{.ID}} {{.Names}}"
        listing = [docker, "ps", "--all", "--no-trunc", "--filter", label, "--format", form]
        listed = subprocess.run(listing, stdout=subprocess.PIPE, check=False).stdout.decode()
        _note(log, made=dict(line.split() for line in listed.splitlines()))
    elif completed.returncode == 0:
        name = words[-1] if words[0] == "network" else _after(words, "--name")
        _note(log, made={completed.stdout.decode().strip(): name})
    sys.stdout.buffer.write(completed.stdout)
    sys.stdout.flush()
    # For a command that a signal ended: the exit code of a shell.
    return completed.returncode if completed.returncode >= 0 else 128 - completed.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
