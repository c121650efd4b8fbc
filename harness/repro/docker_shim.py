"""Stands for `docker` in the search path: notes each command in a log, and hands over to Docker itself.

Run as `python docker_shim.py LOG DOCKER WORDS…`. It runs with whatever Python and harness are at work, so it imports
nothing of the harness. A line of the log is a JSON object, written at once by one write(2):

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

#: Where Compose says which project a container is of.
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
    """Note a command and do it. The exit code; nothing is returned where Docker takes this process over."""
    up = words[:1] == ["compose"] and "up" in words
    more = {}
    if up:
        variables = {name: value for name, value in os.environ.items() if name.startswith("LAB_")}
        more = {"files": _project_files(words), "variables": variables}
    _note(log, at=time.time(), words=words, **more)
    makes = words[:1] in (["run"], ["create"]) or words[:2] == ["network", "create"]
    if not (up or makes):
        os.execv(docker, [docker, *words])
    done = subprocess.run([docker, *words], stdout=subprocess.PIPE, check=False)
    if up:
        label = f"label={_PROJECT}={_after(words, '--project-name')}"
        form = "{{.ID}} {{.Names}}"
        listing = [docker, "ps", "--all", "--no-trunc", "--filter", label, "--format", form]
        listed = subprocess.run(listing, stdout=subprocess.PIPE, check=False).stdout.decode()
        _note(log, made=dict(line.split() for line in listed.splitlines()))
    elif done.returncode == 0:
        name = words[-1] if words[0] == "network" else _after(words, "--name")
        _note(log, made={done.stdout.decode().strip(): name})
    sys.stdout.buffer.write(done.stdout)
    sys.stdout.flush()
    # Of a command that a signal ended, what a shell would say.
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
