"""The compose engine from its files to its removal, with a `docker` that is a script of ours."""

from __future__ import annotations

import os
import select
import shutil
import signal
from contextlib import closing
from pathlib import Path

import pytest

from harness.engine import EngineResult
from harness.engine.docker.engine import ComposeEngine
from harness.engine.docker.networks import LabNetworks, kind_of
from harness.engine.exit_rules import received_file
from harness.engine.images.cache import Cache
from harness.errors import EngineError
from harness.topology import Lab, build_lab
from tests.examples import cell, scenario

#: Containers are called c-SERVICE; what they do when is in `script`: SERVICE.TRANSFER → a line of shell. `die SERVICE CODE`
#: tells the events of an end, `got FLOW FILE` is a download. The simulator does its orders, and says so in `orders`.
SCRIPT = r"""#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/log"
die() { echo "{\"Action\": \"die\", \"timeNano\": $(date +%s%N), \"Actor\": {\"ID\": \"c-$1\", \"Attributes\": {\"com.docker.compose.project\": \"${project:-$(cat "$here/project")}\", \"com.docker.compose.service\": \"$1\", \"exitCode\": \"$2\"}}}" >>"$here/deaths"; }
oom() { echo "{\"Action\": \"oom\", \"Actor\": {\"ID\": \"c-$1\", \"Attributes\": {\"com.docker.compose.project\": \"$(cat "$here/project")\", \"com.docker.compose.service\": \"$1\"}}}" >>"$here/deaths"; }
got() { while [ ! -f "$here/under_way" ]; do sleep 0.01; done; cp "$here/cache/www/$2" "$here/$(cat "$here/under_way")/flow$1/downloads/$2"; }
act() { if [ -f "$here/does/$1" ]; then (. "$here/does/$1") >/dev/null 2>&1 & fi; }
known() { echo "{\"Id\": \"c-$1\", \"Image\": \"sha256:$1\", \"State\": {\"Pid\": $2, \"Running\": true, \"Paused\": false, \"ExitCode\": 0}, \"Config\": {\"Labels\": {\"com.docker.compose.service\": \"$1\"}}, \"HostConfig\": {\"Memory\": ${memory:-1}, \"PidsLimit\": 1}}" >"$here/known/c-$1"; }
simulate() {
  while :; do
    if [ -f "$1/order" ]; then
      logs=$(sed 's/.*"logs": "\/runs\/\([^"]*\)".*/\1/' "$1/order")
      echo "$logs" >>"$here/orders"
      echo "${logs%/*}" >"$here/under_way"
      rm "$1/order"
      echo '{"event": "ready"}' >"$here/$logs/events.jsonl"
    fi
    if [ -f "$1/stop" ]; then rm "$1/stop"; touch "$1/done"; fi
    sleep 0.01
  done
}
case "$*" in
"events "*) touch "$here/deaths"; if [ -f "$here/deaf" ]; then rm "$here/deaf"; sleep 0.05; exit 1; fi; exec tail -n +1 -f "$here/deaths" ;;
"image inspect "*) echo '{"Entrypoint": ["/run"]}' ;;
"ps "*) ls "$here/known" ;;
"inspect "*) shift; (cd "$here/known"; echo "[$(cat "$@" | paste -sd,)]") ;;
"logs "*) echo "words of $2" ;;
"start "*) act "${2#c-}.1" ;;
"stop --time 2 "*) shift 3; for one; do (sleep 0.05; die "${one#c-}" 143) >/dev/null 2>&1 & done ;;
"rm "*) shift 3; for one; do rm "$here/known/$one"; done ;;
"run --detach "*)
  service=$(echo "$*" | sed 's/.*compose.service=\([a-z0-9]*\) .*/\1/')
  project=$(echo "$*" | sed 's/.*compose.project=\([-a-z0-9]*\) .*/\1/')
  echo "$project" >"$here/project"
  known "$service" 0
  echo "c-$service"
  pipe="$here/run/held/$service/start"
  if [ -p "$pipe" ]; then (read _ <"$pipe"; . "$here/does/$service.0") >/dev/null 2>&1 &
  else act "$service.0"; fi ;;
"compose "*" up "*)
  [ ! -f "$here/refuse" ] || { echo "no space left on device" >&2; exit 1; }
  file=$(echo "$*" | sed 's/.*--file \([^ ]*\) .*/\1/')
  # Another one takes the place of what may still be up.
  [ ! -f "$here/simulator" ] || kill "$(cat "$here/simulator")" 2>/dev/null
  (simulate "$(dirname "$file")/sim") >/dev/null 2>&1 &
  echo $! >"$here/simulator"
  known sim $!
  fence=$(dirname "$file")/fence/said
  if [ ! -f "$fence" ]; then
    sleep 1000 >/dev/null 2>&1 &
    echo $! >"$here/fence"
    known fence $!
    { cat "$here/unfenced" 2>/dev/null; echo closed; } >"$fence"
  fi ;;
"compose "*" rm "*) rm "$here/known/c-fence" ;;
"compose "*" down "*) kill "$(cat "$here/simulator")" "$(cat "$here/fence")"; rm "$here/known/c-sim" "$here/known/c-fence" ;;
esac
"""


class Machine:
    """A folder with a lab's run, its cache and a `docker`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *flows: dict[str, str]) -> None:
        self.folder = folder
        self.lab: Lab = build_lab(cell(scenario(flows=list(flows), objectives=[])), 0)
        self.run = folder / "run"
        for part in ("run", "does", "known"):
            (folder / part).mkdir()
        docker = folder / "docker"
        docker.write_text(SCRIPT)
        docker.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        # Who is not root has files given back, by a container.
        monkeypatch.setattr("os.geteuid", lambda: 0)
        # Its containers are processes of this test's own control group.
        for module in ("networks", "containers"):
            monkeypatch.setattr(f"harness.engine.docker.{module}.is_of_container", lambda pid, container: pid > 0)
        self.phases: list[str] = []

    def script(self, what: str, line: str) -> None:
        (self.folder / "does" / what).write_text(line + "\n")

    def engine(self) -> ComposeEngine:
        return ComposeEngine(Cache(self.folder / "cache"))

    def run_once(self) -> EngineResult:
        """Run the lab, and have nothing stay."""
        with closing(self.engine()) as engine:
            return engine.run(self.lab, self.run, self.phases.append)

    def is_clean(self) -> bool:
        """Whether every container was removed, and the folder of what stood."""
        return not any((self.folder / "known").iterdir()) and not list(self.folder.glob("*.paths"))

    def docker_calls(self) -> list[str]:
        return (self.folder / "log").read_text().splitlines()


def test_a_download_and_its_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB", "repeat_after": "200 ms"})
    for number in (0, 1):
        machine.script(f"client0.{number}", "sleep 0.2; got 0 100kB.bin; die client0 0")
    result = machine.run_once()
    assert result.outcome.status == "completed"
    assert [(item.index, item.received, item.intact, item.exit_code) for item in result.transfers] == [
        (0, 100_000, True, 0),
        (1, 100_000, True, 0),
    ]
    first, again = result.transfers
    assert 0.15 < (again.started_ns - first.ended_ns) / 1e9 < 3
    assert machine.phases == ["create", "ready", "transfer", "pause", "transfer", "collect", "remove"]
    assert result.phases.keys() == set(machine.phases)
    assert result.image_ids == {name: f"sha256:{name}" for name in ("client0", "server0", "sim")}
    assert (machine.run / "server0.log").read_text() == "words of c-server0\n"
    assert machine.is_clean()
    assert not received_file(machine.run, 0, 0).exists(), "compared, and removed"
    assert machine.is_clean()


def test_one_is_held_until_its_start_and_one_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"stop": "600 ms"}, {"download": "100 kB", "start": "300 ms"})
    machine.script("client1.0", "sleep 1; got 1 100kB.bin; die client1 0")
    result = machine.run_once()
    assert result.outcome.status == "completed"
    assert [(item.flow, item.cut_off, item.exit_code) for item in result.transfers] == [(0, True, None), (1, False, 0)]
    cut, late = result.transfers
    assert 0.2 < (late.started_ns - cut.started_ns) / 1e9 < 3
    assert "stop --time 2 c-client0 c-server0" in machine.docker_calls()
    assert not (machine.run / "held").exists()


def test_the_last_words_of_who_broke_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    machine.script("server0.0", "sleep 0.1; die server0 3")
    result = machine.run_once()
    assert (result.outcome.status, result.outcome.role, result.outcome.reason) == ("crashed", "server", "exit_3")
    assert result.outcome.log_tail == ("words of c-server0",)
    assert result.transfers == ()


def test_who_tells_of_ends_is_asked_again_where_it_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    (tmp_path / "deaf").touch()
    machine.script("client0.0", "got 0 100kB.bin; die client0 0")
    result = machine.run_once()
    assert result.outcome.status == "completed"
    assert sum(words.startswith("events ") for words in machine.docker_calls()) == 2


def test_what_came_up_is_brought_down_when_the_ground_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    (tmp_path / "refuse").touch()
    with pytest.raises(EngineError, match="no space left on device"):
        machine.run_once()
    assert machine.phases == ["create", "remove"]
    down, networks = machine.docker_calls()[-2:]
    assert " down " in down
    # Compose may leave a network.
    assert networks.startswith("network ls ")
    assert not list(tmp_path.glob("*.paths"))


def _stands(machine: Machine) -> int:
    return int((machine.folder / "simulator").read_text())


def _ups(machine: Machine) -> int:
    return sum(" up " in words for words in machine.docker_calls())


def test_what_stands_serves_the_next_run_and_goes_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    machine.script("client0.0", "sleep 0.1; got 0 100kB.bin; die client0 0")
    path = tmp_path / "other"
    path.mkdir()
    with closing(machine.engine()) as engine:
        results = [engine.run(machine.lab, folder, machine.phases.append) for folder in (machine.run, path)]
        assert _ups(machine) == 1
        assert not any(" down " in words for words in machine.docker_calls())
        os.kill(_stands(machine), 0)
    assert [result.outcome.status for result in results] == ["completed"] * 2
    assert results[0].image_ids == results[1].image_ids
    assert (tmp_path / "orders").read_text().split() == ["run/sim", "other/sim"]
    assert machine.is_clean()


def test_a_simulator_that_ended_between_two_runs_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    machine.script("client0.0", "sleep 0.1; got 0 100kB.bin; die client0 0")
    with closing(machine.engine()) as engine:
        engine.run(machine.lab, machine.run, machine.phases.append)
        _kill(_stands(machine))
        shutil.rmtree(machine.run)
        machine.run.mkdir()
        assert engine.run(machine.lab, machine.run, machine.phases.append).outcome.status == "completed"
    assert _ups(machine) == 2
    assert machine.is_clean()


def test_what_stands_gives_way_to_another_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    machine.script("client0.0", "sleep 0.1; got 0 100kB.bin; die client0 0")
    built_lab = machine.lab.model_copy(update={"mtu": 1400})
    assert kind_of(built_lab, tmp_path) != kind_of(machine.lab, tmp_path)
    # What a simulator is told anew for each run makes no difference.
    assert kind_of(machine.lab.model_copy(update={"seed": 7, "timeout": 1.0}), tmp_path) == kind_of(
        machine.lab, tmp_path
    )
    with closing(machine.engine()) as engine:
        for lab in (machine.lab, built_lab):
            shutil.rmtree(machine.run)
            machine.run.mkdir()
            engine.run(lab, machine.run, machine.phases.append)
        downs = [number for number, words in enumerate(machine.docker_calls()) if " down " in words]
        ups = [number for number, words in enumerate(machine.docker_calls()) if " up " in words]
        assert ups[0] < downs[0] < ups[1]
    assert machine.is_clean()


def test_nothing_stays_after_what_nobody_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ground fails in mid-run: whatever that was, the next run has none of it."""
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    machine.script("client0.0", "sleep 0.1; kill -9 $(cat $here/simulator); project=$(cat $here/standing) die sim 137")
    monkeypatch.setattr("harness.engine.docker.containers.next_project", lambda: "quic-lab-1-run")
    monkeypatch.setattr("harness.engine.docker.networks.next_project", lambda: "quic-lab-1-paths")
    (tmp_path / "standing").write_text("quic-lab-1-paths\n")
    engine = machine.engine()
    result = engine.run(machine.lab, machine.run, machine.phases.append)
    assert (result.outcome.status, result.outcome.role) == ("infrastructure", "sim")
    assert machine.is_clean(), "though nobody closed the engine"


def _kill(pid: int) -> None:
    """Kill a process and see it end."""
    pidfd = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        assert select.select([pidfd], [], [], 10)[0]
    finally:
        os.close(pidfd)


def _fence_ends(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> EngineResult:
    machine.script(
        "client0.0", "sleep 0.1; project=$(cat $here/standing) die fence 137; got 0 100kB.bin; die client0 0"
    )
    monkeypatch.setattr("harness.engine.docker.networks.next_project", lambda: "quic-lab-1-paths")
    (machine.folder / "standing").write_text("quic-lab-1-paths\n")
    return machine.run_once()


def test_a_lab_whose_fence_ends_is_open_and_its_run_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = _fence_ends(Machine(tmp_path, monkeypatch, {"download": "100 kB"}), monkeypatch)
    assert (result.outcome.status, result.outcome.role, result.outcome.reason) == ("infrastructure", "sim", "killed")
    assert "fence" in result.outcome.detail and result.outcome.passing


def test_the_end_of_a_fence_that_another_stands_in_for_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})

    def another(paths: LabNetworks, path: Path) -> tuple[str, ...]:
        paths.fence = "c-new"
        return ()

    monkeypatch.setattr(LabNetworks, "_fenced", another)
    result = _fence_ends(machine, monkeypatch)
    assert result.outcome.status == "completed"


def test_a_fence_stays_where_its_simulator_is_started_anew_and_is_made_again_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    machine.script("client0.0", "sleep 0.1; got 0 100kB.bin; die client0 0")
    fences = []
    with closing(machine.engine()) as engine:
        for ended in ("", "simulator", "fence"):
            if ended:
                _kill(int((tmp_path / ended).read_text()))
                shutil.rmtree(machine.run)
                machine.run.mkdir()
            assert engine.run(machine.lab, machine.run, machine.phases.append).outcome.status == "completed"
            fences.append((tmp_path / "fence").read_text())
    assert fences[0] == fences[1] != fences[2]
    assert sum(" rm --stop --force fence" in words for words in machine.docker_calls()) == 1
    assert machine.is_clean()


def test_what_this_machine_lacks_is_said_once_and_recorded_in_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    machine.script("client0.0", "sleep 0.1; got 0 100kB.bin; die client0 0")
    monkeypatch.setenv("memory", "0")
    (tmp_path / "unfenced").write_text("frames: Operation not supported\n")
    results = []
    with closing(machine.engine()) as engine:
        for _ in range(2):
            shutil.rmtree(machine.run)
            machine.run.mkdir()
            results.append(engine.run(machine.lab, machine.run, machine.phases.append))
    text = "any memory, 4096 processes each; closed networks; without frames: Operation not supported"
    assert [result.containers for result in results] == [text] * 2
    # A busy machine samples late, and says so in addition.
    first, second = (
        [words.partition(":")[0] for words in result.warnings if not words.startswith("file sizes were not sampled")]
        for result in results
    )
    assert first == [
        "endpoints may have any memory",
        "this machine is not shut off from a lab's networks by all that it should",
    ]
    assert second == []


def test_limits_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    machine.script("client0.0", "got 0 100kB.bin; die client0 0")
    with closing(ComposeEngine(Cache(tmp_path / "cache"), memory=1 << 30)) as engine:
        result = engine.run(machine.lab, machine.run, machine.phases.append)
    assert result.containers == "1 GiB of memory, 4096 processes each; closed networks"
    containers = [words for words in machine.docker_calls() if words.startswith("run --detach")]
    assert len(containers) == 2 and all("--memory 1073741824 --memory-swap 1073741824" in words for words in containers)


def test_who_loses_a_process_for_want_of_memory_is_named_with_what_it_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's end is no end of its server."""
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    machine.script("client0.0", "sleep 0.1; oom server0; sleep 0.1; die client0 1")
    result = machine.run_once()
    assert (result.outcome.status, result.outcome.role, result.outcome.reason) == (
        "infrastructure", "server", "out_of_memory",
    )  # fmt: skip
    assert "server0" in result.outcome.detail and "4 GiB (HARNESS_ENDPOINT_MEMORY)" in result.outcome.detail


@pytest.mark.parametrize(("words", "is_named"), [("setgid: Operation not permitted", True), ("no", False)])
def test_who_is_refused_something_hears_of_its_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, is_named: bool
) -> None:
    machine = Machine(tmp_path, monkeypatch, {"download": "100 kB"})
    script = (tmp_path / "docker").read_text()
    (tmp_path / "docker").write_text(script.replace("words of $2", words))
    machine.script("server0.0", "sleep 0.1; die server0 1")
    assert any("container" in warning and "server0" in warning for warning in machine.run_once().warnings) == is_named
