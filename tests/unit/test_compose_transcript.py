"""What is the same in two transcripts of the compose engine, and what is not; Docker itself is in no test here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import EngineError
from harness.repro import compose_transcript
from harness.repro.checkout import Checkout
from harness.repro.compose_transcript import GOLDEN_LABS, Transcript, differences, read_commands, settled, transcript
from tests.examples import catalogue

CLIENT, SERVER = "a" * 64, "b" * 64


def commands(process: int = 4711, tag: str = "0" * 12, seen: int = 3) -> list[tuple[list[str], str]]:
    """A run's commands with what they printed of new containers; they vary with the process, the image, and time."""
    name = f"quic-lab-{process}-1"
    owner = f"{process}-123456-0123456789ab"
    ids = CLIENT.replace("a", f"{process % 10}"), SERVER.replace("b", f"{(process + 1) % 10}")
    return [
        (["version", "--format", "{{.Server.Version}}"], ""),
        (["compose", "--project-name", f"quic-lab-{process}-0", "up", "--detach"], ""),
        (["run", "--detach", "--name", f"{name}-server0", f"--label=owner={owner}", f"quic-lab/quiche:{tag}"], ids[1]),
        (["create", "--name", f"{name}-client0", "--volume", f"/tmp/{process}/logs:/logs", "example/a:1"], ids[0]),
        (["network", "connect", f"quic-lab-{process}-0_left-far", ids[0]], ""),
        (["start", ids[0]], ""),
        *([(["inspect", ids[0], ids[1]], "")] * seen),
        (["events", "--since", f"17640{process:05}.123"], ""),
        (["stop", "--time", "2", ids[1]], ""),
        (["rm", "--force", *(ids if process % 2 else ids[::-1])], ""),
    ]


def read(made: Sequence[tuple[list[str], str]], files: dict[str, str] | None = None) -> Transcript:
    lines = [json.dumps({"words": words, "made": name}) for words, name in made]
    return read_commands(lines, files or {"compose.yaml": "services:\n  client0:\n"}, {})


def test_what_varies_from_run_to_run_differs_in_nothing() -> None:
    base = read(commands())
    assert differences(base, read(commands(4712, "f" * 12, 9))) == ()
    assert base.attempts == 1
    assert base.kinds == ("compose up", "run", "create", "network connect", "start", "stop", "rm")
    # What is done to other containers may come between.
    made = commands()
    made[2], made[3] = made[3], made[2]
    assert read(made).changing == base.changing


def test_a_changed_flag_is_named() -> None:
    made = [(["stop", "--time", "3", words[-1]] if words[0] == "stop" else words, name) for words, name in commands()]
    assert differences(read(commands()), read(made)) == (
        "docker, of quic-lab-1-server0: 'stop --time 2 quic-lab-1-server0' before, "
        "'stop --time 3 quic-lab-1-server0' now",
    )


def test_a_command_that_is_no_longer_given_is_named() -> None:
    found = differences(read(commands()), read([item for item in commands() if item[0][0] != "rm"]))
    assert "'rm --force quic-lab-1-client0 quic-lab-1-server0' before, 'nothing' now" in found[0]
    assert found[1].startswith("docker: compose up, run")


def test_two_commands_of_one_container_in_another_order_are_named() -> None:
    made = commands()
    connect = next(number for number, (words, _) in enumerate(made) if words[:2] == ["network", "connect"])
    made[connect], made[connect + 1] = made[connect + 1], made[connect]
    found = differences(read(commands()), read(made))
    assert found[0].startswith("docker, of quic-lab-1-client0: 'network connect")
    assert "in this order before" in found[1]


def test_a_new_look_and_a_line_of_a_file_are_named() -> None:
    files = {"compose.yaml": "services:\n  client0:\n    cpu_shares: 512\n", "plan/plan.json": "{}"}
    found = differences(read(commands()), read([*commands(), (["top", CLIENT], "")], files))
    assert found == (
        "compose.yaml: 'nothing' before, '    cpu_shares: 512' now",
        "plan/plan.json: 'nothing' before, '{}' now",
        "docker ID top: asked now",
    )


def test_a_long_line_is_shown_where_it_differs() -> None:
    base = read(commands(), {"compose.yaml": f"{'x' * 500} 1 {'y' * 500}"})
    (line,) = differences(base, replace(base, files={"compose.yaml": f"{'x' * 500} 2 {'y' * 500}"}))
    assert len(line) < 400
    assert "x 1 y" in line and "x 2 y" in line


def test_names_of_folders_and_owners_are_settled() -> None:
    text = "/srv/checkout/a /tmp/pytest-1/b quic-lab-12-3_left 12-34-0123456789ab quic-lab/sim:0123456789ab-lab"
    assert settled(text, {"/srv/checkout": "CHECKOUT"}) == "CHECKOUT/a SCRATCH/b quic-lab-3_left OWNER quic-lab/sim-lab"


@pytest.mark.parametrize("name", GOLDEN_LABS)
def test_every_golden_lab_is_a_scenario_that_names_who_plays(name: str) -> None:
    scenario = catalogue().scenario(GOLDEN_LABS[name])
    assert not scenario.open_roles
    assert scenario.timeout.seconds <= 20


def test_a_first_run_for_which_images_are_made_is_told_apart() -> None:
    first = read([(["buildx", "build", "--load"], ""), *commands()])
    assert compose_transcript._MAKES_IMAGES & {*first.kinds}
    assert not compose_transcript._MAKES_IMAGES & {*read(commands()).kinds}


def test_a_lab_that_is_disturbed_is_tried_again_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm, tried = read(commands()), list[Path]()

    def attempt(checkout: Checkout, name: str, scratch: Path) -> Transcript | None:
        tried.append(scratch)
        return calm if len(tried) == 3 else None

    monkeypatch.setattr(compose_transcript, "_attempt", attempt)
    assert transcript(Checkout(tmp_path, tmp_path, tmp_path), "pair", tmp_path) is calm
    assert len(set(tried)) == 3
    monkeypatch.setattr(compose_transcript, "_attempt", lambda *words: None)
    with pytest.raises(EngineError, match="was disturbed 5 times"):
        transcript(Checkout(tmp_path, tmp_path, tmp_path), "pair", tmp_path)
