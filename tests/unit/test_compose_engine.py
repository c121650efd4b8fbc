"""The compose engine from its files to its removal, with a `docker` that is a script of ours."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.engines.cache import Cache
from harness.engines.compose import ComposeEngine
from harness.engines.conclusion import received_file
from harness.errors import EngineError
from harness.lab import Lab, build_lab
from tests.examples import cell, scenario

#: Containers are called c-SERVICE; what they do when is in `does`: SERVICE.TRANSFER → a line of shell. `die SERVICE CODE`
#: tells the events of an end, `got FLOW FILE` is a download.
SCRIPT = r"""#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/log"
die() { echo "{\"Action\": \"die\", \"timeNano\": $(date +%s%N), \"Actor\": {\"ID\": \"$1\", \"Attributes\": {\"com.docker.compose.service\": \"$1\", \"exitCode\": \"$2\"}}}" >>"$here/deaths"; }
got() { cp "$here/cache/www/$2" "$here/run/flow$1/downloads/$2"; }
act() { if [ -f "$here/does/$1" ]; then (. "$here/does/$1") >/dev/null 2>&1 & fi; }
case "$*" in
"events "*) touch "$here/deaths"; if [ -f "$here/deaf" ]; then rm "$here/deaf"; sleep 0.05; exit 1; fi; exec tail -n +1 -f "$here/deaths" ;;
"image inspect "*) echo '{"Entrypoint": ["/run"]}' ;;
"ps "*) sed 's/.*/c-&/' "$here/services" ;;
"inspect "*) cat "$here/inspect.json" ;;
"logs "*) echo "words of $2" ;;
"start "*) act "${2#c-}.1" ;;
"stop --time 2 "*) shift 3; for one; do (sleep 0.05; die "${one#c-}" 143) >/dev/null 2>&1 & done ;;
"compose "*" up "*)
  [ ! -f "$here/refuse" ] || { echo "no space left on device" >&2; exit 1; }
  echo '{"event": "ready"}' >"$here/run/sim/events.jsonl"
  for service in $(cat "$here/services"); do
    pipe="$here/run/held/$service/start"
    if [ -p "$pipe" ]; then (read _ <"$pipe"; . "$here/does/$service.0") >/dev/null 2>&1 &
    else act "$service.0"; fi
  done ;;
esac
"""


class Machine:
    """A folder with a lab's run, its cache and a `docker`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *flows: dict[str, str]) -> None:
        self.folder = folder
        self.lab: Lab = build_lab(cell(scenario(flows=list(flows), objectives=[])), 0)
        self.run = folder / "run"
        for part in ("run", "does"):
            (folder / part).mkdir()
        names = [*(host.name for host in self.lab.hosts), "sim"]
        (folder / "services").write_text("".join(f"{name}\n" for name in names))
        inspected = [
            {
                "Id": f"c-{name}",
                "Image": f"sha256:{name}",
                "State": {"Pid": 0},
                "Config": {"Labels": {"com.docker.compose.service": name}},
            }
            for name in names
        ]
        (folder / "inspect.json").write_text(json.dumps(inspected))
        docker = folder / "docker"
        docker.write_text(SCRIPT)
        docker.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        # Who is not root has files given back, by a container.
        monkeypatch.setattr("os.geteuid", lambda: 0)
        self.phases: list[str] = []

    def does(self, what: str, line: str) -> None:
        (self.folder / "does" / what).write_text(line + "\n")

    def engine(self) -> ComposeEngine:
        return ComposeEngine(Cache(self.folder / "cache"))

    def said(self) -> list[str]:
        return (self.folder / "log").read_text().splitlines()


def test_a_download_and_its_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB", "repeat_after": "200 ms"})
    for number in (0, 1):
        machine.does(f"client0.{number}", "sleep 0.2; got 0 100kB.bin; die client0 0")
    done = machine.engine().run(machine.lab, machine.run, machine.phases.append)
    assert done.outcome.status == "completed"
    assert [(item.index, item.received, item.intact, item.exit_code) for item in done.transfers] == [
        (0, 100_000, True, 0),
        (1, 100_000, True, 0),
    ]
    first, again = done.transfers
    assert 0.15 < (again.started_ns - first.ended_ns) / 1e9 < 3
    assert machine.phases == ["create", "ready", "transfer", "pause", "transfer", "collect", "remove"]
    assert done.phases.keys() == set(machine.phases)
    assert done.image_ids == {name: f"sha256:{name}" for name in ("client0", "server0", "sim")}
    assert (machine.run / "server0.log").read_text() == "words of c-server0\n"
    assert not received_file(machine.run, 0, 0).exists(), "compared, and removed"
    assert " down " in machine.said()[-1]


def test_one_is_held_until_its_start_and_one_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"stop": "600 ms"}, {"download": "100 kB", "start": "300 ms"})
    machine.does("client1.0", "sleep 1; got 1 100kB.bin; die client1 0")
    done = machine.engine().run(machine.lab, machine.run, machine.phases.append)
    assert done.outcome.status == "completed"
    assert [(item.flow, item.cut_off, item.exit_code) for item in done.transfers] == [(0, True, None), (1, False, 0)]
    cut, late = done.transfers
    assert 0.2 < (late.started_ns - cut.started_ns) / 1e9 < 3
    assert "stop --time 2 c-client0 c-server0" in machine.said()
    assert not (machine.run / "held").exists()


def test_the_last_words_of_who_broke_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    machine.does("server0.0", "sleep 0.1; die server0 3")
    done = machine.engine().run(machine.lab, machine.run, machine.phases.append)
    assert (done.outcome.status, done.outcome.role, done.outcome.reason) == ("crashed", "server", "exit_3")
    assert done.outcome.log_tail == ("words of c-server0",)
    assert done.transfers == ()


def test_who_tells_of_ends_is_asked_again_where_it_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    (tmp_path / "deaf").touch()
    machine.does("client0.0", "got 0 100kB.bin; die client0 0")
    done = machine.engine().run(machine.lab, machine.run, machine.phases.append)
    assert done.outcome.status == "completed"
    assert sum(words.startswith("events ") for words in machine.said()) == 2


def test_what_came_up_is_brought_down_when_the_ground_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    (tmp_path / "refuse").touch()
    with pytest.raises(EngineError, match="no space left on device"):
        machine.engine().run(machine.lab, machine.run, machine.phases.append)
    assert machine.phases == ["create", "remove"]
    assert " down " in machine.said()[-1]
