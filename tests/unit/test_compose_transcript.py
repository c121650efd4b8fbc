"""What is the same in two transcripts of the compose engine, and what is not; Docker itself is in no test here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import EngineError
from harness.repro.checkout import Checkout
from harness.repro.compose_transcript import (
    GOLDEN_LABS,
    MEASURED,
    SHARED_RESOURCES,
    Transcript,
    differences,
    normalize,
    read_transcript,
    run_files,
    shim_folder,
    transcript,
)
from tests.examples import catalogue

COMPOSE = "services:\n  sim:\n    image: quic-lab/sim:{tag}-lab\n    cpu_shares: 262144\n"
KEY = "9dae890139496c33"


@dataclass
class Noted:
    """What the shim notes of a run with a client, in two networks, and a server. The fields are what varies."""

    process: int = 4711
    tag: str = "0123456789ab"
    scratch: str = "/tmp/quic-lab-equivalent-a"
    looks: int = 3
    at: float = 1764106876.25
    lines: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        name, owner = f"quic-lab-{self.process}-1", f"{self.process}-123456-0123456789ab"
        self.client, self.server, self.sim = (self.identity(number) for number in range(3))
        standing = f"{self.scratch}/store/partial/{owner}.quic-lab-{self.process}-0.paths"
        compose = ["compose", "--project-name", f"quic-lab-{self.process}-0", "--file", f"{standing}/compose.yaml"]
        logs = f"{self.scratch}/store/partial/{owner}.{KEY}.0/flow0/client:/logs"
        self.note("version", "--format", "{{.Server.Version}}")
        self.note("events", "--since", f"{self.at:.3f}", "--filter", f"label=org.quic-lab.owner={owner}")
        self.note(
            *compose, "--progress", "quiet", "up", "--detach",
            files={f"{standing}/compose.yaml": COMPOSE.format(tag=self.tag), f"{standing}/sim/plan.json": "{}"},
            variables={"LAB_OWNER": owner, "LAB_CERTS": "/srv/lab/.cache/certs"},
            identities={self.sim: f"quic-lab-{self.process}-0-sim-1"},
        )  # fmt: skip
        self.note(
            "run",
            "--detach",
            "--name",
            f"{name}-server0",
            f"quic-lab/a:{self.tag}",
            identities={self.server: f"{name}-server0"},
        )
        self.note(
            "create", "--name", f"{name}-client0", "--volume", logs, "a:1", identities={self.client: f"{name}-client0"}
        )
        self.note("network", "connect", "--ip", "10.0.0.1", f"quic-lab-{self.process}-0_left-far", self.client)
        self.note("start", self.client)
        for _ in range(self.looks):
            self.note("inspect", self.sim, self.server, self.client)
        self.note("logs", self.client)
        self.note("stop", "--time", "2", self.server)
        self.note("rm", "--force", *((self.client, self.server) if self.process % 2 else (self.server, self.client)))
        self.note(*compose, "down", "--volumes")

    def identity(self, number: int) -> str:
        return f"{self.process * 7 + number:064x}"

    def note(self, *words: str, identities: Mapping[str, str] | None = None, **overrides: Any) -> None:
        self.lines.append({"at": self.at, "words": list(words), **overrides})
        if identities is not None:
            self.lines.append({"made": identities})

    def place(self, *words: str) -> int:
        """Where the first command is that begins with these words."""
        return next(place for place, line in enumerate(self.lines) if line.get("words", [])[: len(words)] == [*words])

    def words(self, *words: str) -> list[str]:
        command: list[str] = self.lines[self.place(*words)]["words"]
        return command

    def read(self, files: Mapping[str, str] | None = None) -> Transcript:
        places = {self.scratch: "SCRATCH", "/srv/lab": "CHECKOUT", "/srv/lab/.cache": "CACHE", KEY: "KEY"}
        return read_transcript(
            map(json.dumps, self.lines), files or {"cell.env": "LAB_WWW=/srv/lab/.cache/www\n"}, places
        )


CLIENT, SERVER = "quic-lab-1-client0", "quic-lab-1-server0"


def test_the_commands_of_each_container_are_in_order_between_those_of_what_stands() -> None:
    transcript = Noted().read()
    ways = {name: [command.split()[0] for command in commands] for name, commands in transcript.changes.items()}
    assert ways == {
        SHARED_RESOURCES: ["compose", "compose"],
        SERVER: ["compose", "run", "stop", "rm", "compose"],
        CLIENT: ["compose", "create", "network", "start", "rm", "compose"],
    }
    assert transcript.changes[CLIENT][2] == f"network connect --ip 10.0.0.1 quic-lab-0_left-far {CLIENT}"
    assert transcript.changes[SERVER][-2] == f"rm --force {SERVER}"
    assert transcript.queries == {
        "events --since TIME --filter label=org.quic-lab.owner=OWNER", f"inspect {CLIENT}", f"inspect {SERVER}",
        "inspect quic-lab-0-sim-1", f"logs {CLIENT}",
    }  # fmt: skip
    assert transcript.files == {
        "cell.env": "LAB_WWW=CACHE/www\n",
        "standing/compose.yaml": COMPOSE.replace(":{tag}", ""),
        "standing/sim/plan.json": "{}",
        "standing/variables": "LAB_CERTS=CACHE/certs\nLAB_OWNER=OWNER\n",
    }


def test_what_varies_from_run_to_run_differs_in_nothing() -> None:
    recording = Noted(4712, "f" * 12, "/tmp/pytest-of-root/pytest-1/base0", looks=9, at=1764109999.5)
    assert differences(Noted().read(), recording.read()) == ()


def test_what_is_done_to_another_container_may_come_between() -> None:
    recording = Noted()
    place = recording.place("run")
    recording.lines[place : place + 4] = [*recording.lines[place + 2 : place + 4], *recording.lines[place : place + 2]]
    assert differences(Noted().read(), recording.read()) == ()


def test_who_takes_time_to_end_may_be_told_so_once_more() -> None:
    recording = Noted()
    recording.lines.insert(recording.place("stop"), {"words": ["stop", "--time", "2", recording.server]})
    assert differences(Noted().read(), recording.read()) == ()
    recording.lines.insert(recording.place("stop"), {"words": ["stop", "--time", "9", recording.server]})
    assert len(differences(Noted().read(), recording.read())) == 1


def test_images_that_are_made_and_orphans_that_are_removed_are_no_commands_of_a_lab() -> None:
    recording = Noted()
    exported = "e" * 64
    beside: list[dict[str, Any]] = [
        {"words": ["buildx", "build", "--tag", "quic-lab/sim:0123456789ab"]},
        {"words": ["image", "inspect", "quic-lab/sim:0123456789ab"]},
        {"words": ["create", "--label", "org.quic-lab.owner=1-2-0123456789ab", "quic-lab/a:0123456789ab"]},
        {"made": {exported: ""}},
        {"words": ["export", exported]},
        {"words": ["rm", "--force", exported]},
        {"words": ["rm", "--force", "--volumes", "0123456789ab", "0123456789ac"]},
        {"words": ["network", "rm", "0123456789ab"]},
        {"words": ["compose", "version", "--short"]},
        {"words": ["run", "--rm", "--network", "none", "quic-lab/sim:0123456789ab-host", "-m", "simulator.features"]},
    ]
    recording.lines[:0] = beside
    assert differences(Noted().read(), recording.read()) == ()


def test_a_changed_flag_is_named() -> None:
    recording = Noted()
    recording.words("stop")[2] = "3"
    assert differences(Noted().read(), recording.read()) == (
        f"docker, {SERVER}, command 3: 'stop --time 2 {SERVER}' before, 'stop --time 3 {SERVER}' now",
    )


def test_a_changed_flag_of_what_stands_is_named_where_it_is() -> None:
    recording = Noted()
    recording.words("compose").insert(-1, "--wait")
    deviations = differences(Noted().read(), recording.read())
    assert f"docker, {SHARED_RESOURCES}, command 1: " in deviations[0]
    assert {line.split(",")[1].strip() for line in deviations} == {SHARED_RESOURCES, CLIENT, SERVER}


def test_an_added_command_and_one_that_is_no_longer_given_are_named() -> None:
    recording = Noted()
    recording.lines.insert(recording.place("stop"), {"words": ["kill", recording.server]})
    added = f"docker, {SERVER}, command 3: 'stop --time 2 {SERVER}' before, 'kill {SERVER}' now"
    assert differences(Noted().read(), recording.read()) == (added,)
    del recording.lines[recording.place("kill")], recording.lines[recording.place("stop")]
    assert differences(Noted().read(), recording.read()) == (
        f"docker, {SERVER}, command 3: 'stop --time 2 {SERVER}' before, 'rm --force {SERVER}' now",
    )


def test_two_commands_of_one_container_in_another_order_are_named() -> None:
    recording = Noted()
    first, second = recording.place("network"), recording.place("start")
    recording.lines[first], recording.lines[second] = recording.lines[second], recording.lines[first]
    (line,) = differences(Noted().read(), recording.read())
    assert line == (
        f"docker, {CLIENT}, command 3: 'network connect --ip 10.0.0.1 quic-lab-0_left-far {CLIENT}' before, "
        f"'start {CLIENT}' now"
    )


def test_networks_that_go_before_their_containers_are_named() -> None:
    recording = Noted()
    removed = recording.lines.pop(recording.place("rm"))
    recording.lines.append(removed)
    deviations = differences(Noted().read(), recording.read())
    assert [line.partition(",")[2].split(",")[0].strip() for line in deviations] == [CLIENT, SERVER]


def test_files_that_are_given_to_their_user_are_in_no_order_with_containers() -> None:
    """Containers are being removed meanwhile."""
    chown = ["run", "--rm", "--volume", "/tmp/quic-lab-equivalent-a:/run-folder", "--entrypoint", "chown", "sim:1"]
    before, behind = Noted(), Noted()
    before.lines.insert(before.place("rm"), {"words": chown})
    behind.lines.insert(behind.place("rm") + 1, {"words": chown})
    assert differences(before.read(), behind.read()) == ()
    (line,) = differences(before.read(), Noted().read())
    assert line.startswith(f"docker, {SHARED_RESOURCES}, command 2: 'run --rm --volume SCRATCH:/run-folder")


def test_a_new_look_and_one_that_is_not_asked_for_any_more_are_named() -> None:
    recording = Noted()
    del recording.lines[recording.place("logs")]
    recording.note("top", recording.client)
    assert differences(Noted().read(), recording.read()) == (
        f"docker logs {CLIENT}: not asked any more", f"docker top {CLIENT}: asked now",
    )  # fmt: skip


def test_a_changed_line_of_a_file_is_named() -> None:
    base = Noted().read(
        {"compose.yaml": "services:\n  a:\n", "held": "", "plan/plan.json": f"{'x' * 500} 1 {'y' * 500}"}
    )
    other = {"compose.yaml": "services:\n  b:\n", "plan/plan.json": f"{'x' * 500} 2 {'y' * 500}", "new": ""}
    compose, held, new, plan = differences(base, Noted().read(other))
    assert compose == "compose.yaml, line 2: '  a:\\n' before, '  b:\\n' now"
    assert (held, new) == ("held: not written any more", "new: written now")
    # Of a long line what is around the difference.
    assert "x 1 y" in plan and "x 2 y" in plan and len(plan) < 400
    ends = replace(base, files={**base.files, "compose.yaml": "services:\n  a:"})
    assert differences(base, ends) == ("compose.yaml, line 2: '  a:\\n' before, '  a:' now",)


def test_a_changed_file_of_what_stands_is_named() -> None:
    recording = Noted()
    files = recording.lines[recording.place("compose")]["files"]
    first = next(iter(files))
    files[first] = files[first].replace("262144", "1024")
    assert differences(Noted().read(), recording.read()) == (
        "standing/compose.yaml, line 4: '    cpu_shares: 262144\\n' before, '    cpu_shares: 1024\\n' now",
    )


def test_numbers_of_a_plan_are_not_taken_for_names() -> None:
    """Times are in ns: 250 s are twelve digits, as an ID's short form has, and some counts are sixteen."""
    plan = '{"at_ns": 250000000000, "limit": 1000000000000000, "rate": 2500000000.5}'
    assert normalize(plan, {}) == plan


def test_folders_are_settled_from_the_innermost() -> None:
    places = {"/srv/lab": "CHECKOUT", "/srv/lab/.cache": "CACHE", KEY: "KEY"}
    text = f"/srv/lab/a /srv/lab/.cache/www quic-lab-12-3_left 12-34-0123456789ab 12-34-0123456789abn4026 {KEY} quic-lab/sim:0123456789ab-lab"
    assert normalize(text, places) == "CHECKOUT/a CACHE/www quic-lab-3_left OWNER OWNER KEY quic-lab/sim-lab"


def test_of_what_is_measured_the_names_count(tmp_path: Path) -> None:
    written = {
        "compose.yaml": "a", "cell.env": "b", "lab.json": "c", "plan/plan.json": "d", "plan/sim-far/plan.json": "e",
        "cpu.csv": "1", "sim/counters.jsonl.zst": "2", "flow0/client/qlog/8d33.sqlog.zst": "3", "flow0/server/keys": "4",
        "run.json": "5",
    }  # fmt: skip
    for place, text in written.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    measured = {"cpu.csv": MEASURED, "sim/counters.jsonl": MEASURED}
    assert run_files(tmp_path) == {place: written[place] for place in list(written)[:5]} | measured


# --- the shim


@pytest.fixture
def through_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `docker` as a harness would, through the shim, where Docker is a script of the shell."""
    real = tmp_path / "real"
    real.mkdir()
    (real / "docker").write_text(
        '#!/bin/sh\ncase $1 in\nrun) echo abc123;;\nps) echo def456 quic-lab-1-0-sim-1;;\nfail) exit 7;;\n*) echo "$@";;\nesac\n'
    )
    (real / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(real), prepend=":")
    monkeypatch.setenv("PATH", str(shim_folder(tmp_path / "scratch", tmp_path / "log")), prepend=":")
    monkeypatch.setenv("LAB_OWNER", "somebody")

    def docker(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["docker", *words], capture_output=True, text=True, check=False)

    return docker


def _lines(log: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(line.pop("at") > 1e9 for line in lines if "words" in line)
    return lines


def test_the_shim_notes_words_and_what_was_made_and_hands_over(
    through_shim: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    assert through_shim("logs", 'a "quoted" word\n').stdout == 'logs a "quoted" word\n\n'
    assert through_shim("run", "--detach", "--name", "x", "image").stdout == "abc123\n"
    assert through_shim("fail").returncode == 7
    assert _lines(tmp_path / "log") == [
        {"words": ["logs", 'a "quoted" word\n']},
        {"words": ["run", "--detach", "--name", "x", "image"]},
        {"made": {"abc123": "x"}},
        {"words": ["fail"]},
    ]


def test_the_shim_notes_what_compose_brings_up_from_which_files(
    through_shim: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    place = tmp_path / "paths" / "compose.yaml"
    (place.parent / "sim").mkdir(parents=True)
    (place.parent / "sim" / "plan.json").write_text("{}")
    place.write_text("services:\n")
    words = ["compose", "--project-name", "quic-lab-1-0", "--file", str(place), "up", "--detach"]
    assert through_shim(*words).stdout == " ".join(words) + "\n"
    up, created = _lines(tmp_path / "log")
    assert up["words"] == words
    assert up["files"] == {str(place): "services:\n", str(place.parent / "sim" / "plan.json"): "{}"}
    assert up["variables"]["LAB_OWNER"] == "somebody"
    assert created == {"made": {"def456": "quic-lab-1-0-sim-1"}}


def test_commands_at_once_are_noted_line_by_line(
    through_shim: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    long = ["x" * 5000] * 4
    started = [subprocess.Popen(["docker", "logs", *long], stdout=subprocess.DEVNULL) for _ in range(8)]
    assert [process.wait() for process in started] == [0] * 8
    assert _lines(tmp_path / "log") == [{"words": ["logs", *long]}] * 8


def test_without_docker_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="no 'docker' command"):
        shim_folder(tmp_path, tmp_path / "log")


# --- golden labs


@pytest.mark.parametrize("name", GOLDEN_LABS)
def test_every_golden_lab_is_a_scenario_that_names_who_plays(name: str) -> None:
    scenario = catalogue().scenario(GOLDEN_LABS[name])
    assert not scenario.open_roles
    assert scenario.timeout.seconds <= 20


def test_every_golden_lab_is_named() -> None:
    assert {file.stem for file in GOLDEN_LABS["pair"].parent.glob("*.yaml")} == GOLDEN_LABS.keys()


@dataclass(frozen=True)
class Pretended(Checkout):
    """Writes the record of a run instead of making one."""

    outcomes: Sequence[Mapping[str, str]] = ()
    seconds: float = 0.0

    def python(self, *words: str, seconds: float, **variables: str) -> subprocess.CompletedProcess[str]:
        if self.seconds > seconds:
            raise subprocess.TimeoutExpired(words, seconds)
        store = Path(words[words.index("--store") + 1])
        for number, outcome in enumerate(self.outcomes):
            folder = store / "runs" / KEY / str(number)
            folder.mkdir(parents=True)
            (folder / "run.json").write_text(json.dumps({"outcome": outcome}))
        assert variables["HARNESS_PATIENCE"] == "0 s"
        return subprocess.CompletedProcess(words, 0, "", "error: there is no such thing")


@pytest.mark.parametrize(
    ("outcomes", "seconds", "message"),
    [
        ([], 0, "made no run of the golden lab pair:\n  error: there is no such thing"),
        ([{"status": "infrastructure", "detail": "the simulator was not ready"}], 0,
         "the golden lab pair ended as infrastructure in .*: the simulator was not ready"),
        ([{"status": "completed"}], 1e9, "the golden lab pair did not end within 1200 s"),
    ],
)  # fmt: skip
def test_a_golden_lab_that_does_not_complete_is_an_error(
    outcomes: list[dict[str, str]], seconds: float, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.repro.compose_transcript.shutil.which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(EngineError, match=message):
        transcript(Pretended(tmp_path, tmp_path, tmp_path, outcomes, seconds), "pair", tmp_path / "scratch")


def test_a_golden_lab_that_completes_has_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.repro.compose_transcript.shutil.which", lambda name: f"/usr/bin/{name}")
    checkout = Pretended(tmp_path, tmp_path, tmp_path, [{"status": "completed"}])
    assert transcript(checkout, "pair", tmp_path / "scratch") == Transcript({}, {}, frozenset())
