from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.metrics import VERSION
from harness.cli import main
from harness.cli.entry import COMMANDS, HIDDEN, program
from harness.cli.signals import FAILED, INFRASTRUCTURE, INTERRUPTED, NOTHING, UNSUPPORTED, USAGE, exit_code
from harness.engine.images.cache import Cache
from harness.engine.run_dir import prepare_folder
from harness.errors import EngineError
from harness.evaluation.cell_result import CellResult
from harness.execution.scheduler import UnbuiltError
from harness.outcome import LinkProof, MeasuredRun, Outcome, Run, Verdict
from harness.store.results import Store
from harness.topology import build_lab
from tests.examples import ROOT, catalogue, cell


def _run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["harness", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    out, err = capsys.readouterr()
    code = caught.value.code
    return (code if isinstance(code, int) else 0 if code is None else 1), out, err


BAD = [
    (("explain", "satelite/medium"), "no scenario 'satelite/medium'", "satellite/medium"),
    (("plan", "satellite/medium", "--clients", "ngtcp"), "no implementation 'ngtcp'", "ngtcp2"),
    (("run", "satellite/medium", "--servers", "quice"), "no implementation 'quice'", "quiche"),
    (("plan", "satellite/medium", "--set", "server.congestion=bbr"), "nothing is called", "server.congestion_control"),
    (("plan", "satellite/medium", "--vary", "flow1.server=quiche"), "there are 1 flows", "flow0"),
    (("plan", "dumbbell/fairness", "--vary", "flow0.serv=quiche"), "flow0.serv", ""),
    (("plan", "satellite/medium", "--set", "bbr"), "expected NAME=VALUE", "server.congestion_control=bbr"),
    (("plan", "satellite/medium", "--vary", "path.down.los=1%"), "nothing is called", "path.down.loss"),
    (("plan", "satellite/medium", "--vary", "pacing=on", "--vary", "pacing=off"), "given twice", "separated by commas"),
    (("schema", "scenery"), "no schema 'scenery'", "scenario"),
    (("report", "metrix"), "no scenario 'metrix'", "metrics"),
    (("report", "--clients", "metrics", "metrics", "dumbbell/alone"), "no implementation 'metrics'", "known"),
    (("report", "metrics", "satelite/medium"), "no scenario 'satelite/medium'", "satellite/medium"),
]


TABLES = ("metrics", "parameters", "defaults")


@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_the_report_is_a_command_with_a_help_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    code, out, _ = _run(capsys, monkeypatch, "report", table, "--help")
    assert code == 0
    assert f"Usage: harness report {table} [OPTIONS]" in out
    assert ("--clients" in out) is (table == "metrics")
    assert "--grid" not in out
    code, out, _ = _run(capsys, monkeypatch, "report", "--help")
    assert code == 0
    assert "--grid" in out and table in out


@pytest.mark.parametrize(
    "words",
    [
        ("report", "metrics", "dumbbell/alone", "--json"),
        ("report", "--json", "metrics", "dumbbell/alone"),
    ],
)
def test_options_stand_on_either_side_of_a_table_s_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    code, out, _ = _run(capsys, monkeypatch, *words, "--store", str(tmp_path))
    assert code == NOTHING
    assert json.loads(out) == {"schema": 1, "cells": []}
    # Without a table's name the words are scenarios, and options stand where they like, too.
    rest = [word for word in words if word != "metrics" and word != "--clients"]
    code, out, _ = _run(capsys, monkeypatch, *rest, "--store", str(tmp_path))
    assert code == NOTHING
    assert json.loads(out)["cells"] == []


def test_a_shell_completes_the_names_of_tables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_HARNESS_COMPLETE", "complete_bash")
    for typed, completions in (("harness report metr", ["metrics"]), ("harness report metrics --ma", ["--markdown"])):
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
        assert _run(capsys, monkeypatch)[1].split() == completions


def test_what_a_table_does_not_know_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run(capsys, monkeypatch, "report", "parameters", "satellite/medium")[0] == USAGE
    assert _run(capsys, monkeypatch, "report", "parameters", "--grid")[0] == USAGE


def test_the_help_waits_for_nothing_heavy_and_shows_the_commands_in_order() -> None:
    """What draws, computes or parses takes longer to import than everything else together."""
    text = "import sys; from harness.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", text, "--help"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0
    heavy = {"polars", "altair", "numpy", "scipy", "pydantic", "yaml", "cryptography", "jinja2", "cyclonedx"}
    assert not heavy & set(done.stderr.split())
    shown = re.findall(r"^[│ ] ([a-z]+) ", done.stdout, flags=re.MULTILINE)
    assert shown == list(COMMANDS)
    assert not set(HIDDEN) & set(shown)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("divergence", "a", "b", "c"), "3 things are named"),
        (("divergence", "satellite/medium", "--client", "ngtcp"), "no implementation 'ngtcp'"),
    ],
)
def test_a_divergence_of_what_it_cannot_be_of(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    code, out, err = _run(capsys, monkeypatch, *words)
    assert (code, out) == (USAGE, "")
    assert message in err


def test_a_fault_of_the_harness_is_one_line_a_log_and_an_exit_code_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(self: object) -> None:
        raise KeyError("nobody expects this")

    monkeypatch.setattr("harness.catalogue.Catalogue.implementations", fail)
    monkeypatch.setenv("HARNESS_STATE", str(tmp_path / "state"))
    code, out, err = _run(capsys, monkeypatch, "list")
    assert (code, out) == (70, "")
    first, second = err.splitlines()
    assert first == "error: the harness itself failed: KeyError: 'nobody expects this'"
    (log,) = (tmp_path / "state").glob("fault-*.log")
    assert second.startswith(f"hint: {log} ")
    assert log.read_text().startswith("harness list\n\nTraceback")
    monkeypatch.setenv("HARNESS_DEBUG", "1")
    with pytest.raises(KeyError):
        _run(capsys, monkeypatch, "list")


def test_how_to_go_on_can_be_pasted_into_a_shell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupt(*others: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.execution.App.run", interrupt)
    given = ["satellite/medium", "--set", "client.initial_rtt=100 ms", "--store", str(tmp_path / f"a {'long ' * 40}")]
    code, _, err = _run(capsys, monkeypatch, "run", *given, "--fresh")
    assert code == INTERRUPTED
    line = err.splitlines()[-1]
    assert shlex.split(line) == ["harness", "run", *given]


def test_a_cell_in_virtual_time_is_made_again_by_a_command_that_asks_for_the_same() -> None:
    given = {"server.initial_rtt": "100 ms", "path.forward.loss": "1 %"}
    real_catalogue = catalogue()
    tested_cell = cell(
        real_catalogue.find_scenarios(["satellite/medium"])[0], engine="virtual", seed=7, parameters=given
    )
    run = Run(cell=tested_cell, repetition=2, outcome=Outcome(status="completed"), started_at="")
    verdict = Verdict(status="pass", reason="objectives_met", sentence="")
    words = shlex.split(CellResult(tested_cell, ((run, None),), verdict, (Path("x y"),)).reproduction)
    assert words[:3] == ["harness", "run", "satellite/medium"]
    options = dict(zip(words[3:-1:2], words[4:-1:2], strict=True))
    assert options.keys() == {"--clients", "--servers", "--engine", "--seed", "--repeat", "--set"}
    assert (options["--engine"], options["--seed"], options["--repeat"]) == ("virtual", "7", "3")
    asked = dict(words[index + 1].split("=") for index, word in enumerate(words) if word == "--set")
    again = cell(real_catalogue.find_scenarios(["satellite/medium"])[0], engine="virtual", seed=7, parameters=asked)
    assert again.key == tested_cell.key


def test_a_cell_in_real_time_comes_up_from_its_folder_whatever_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "two words"
    with Cache(tmp_path / "cache").use("www/x"):
        prepare_folder(build_lab(cell(), 0), folder, tmp_path / "cache")
    run = Run(cell=cell(), repetition=0, outcome=Outcome(status="completed"), started_at="")
    verdict = Verdict(status="pass", reason="objectives_met", sentence="")
    words = shlex.split(CellResult(cell(), ((run, None),), verdict, (folder,)).reproduction)
    assert words[:6] == ["docker", "compose", "--env-file", f"{folder}/cell.env", "-f", f"{folder}/compose.yaml"]


def test_whose_processor_is_asked_for_is_one_of_two_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CPU", "amd")
    code, _, err = _run(capsys, monkeypatch, "list")
    assert code == USAGE
    assert "HARNESS_CPU: 'amd' is neither 'lab' nor 'host'" in err


@pytest.mark.parametrize(("words", "message", "hint"), BAD, ids=[" ".join(item[0]) for item in BAD])
def test_bad_input_is_one_error_with_a_hint_and_exit_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str, hint: str
) -> None:
    # Nothing here needs Docker: the words are wrong before it would be asked.
    monkeypatch.setattr("harness.execution.image_inventory.ImageInventory.unavailable", lambda self: {})
    code, out, err = _run(capsys, monkeypatch, *words)
    assert code == 2
    assert out == ""
    assert message in err
    assert hint in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "words",
    [("run",), ("explode",), ("run", "satellite/medium", "--repeat", "0"), ("run", "x", "--sim-kernel", "mine")],
)
def test_wrong_usage_is_exit_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    assert _run(capsys, monkeypatch, *words)[0] == 2


def test_validate_says_where(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text((ROOT / "scenarios/satellite/medium.yaml").read_text().replace("rate: 50 Mbit/s", "rate: 50 MB"))
    code, _, err = _run(capsys, monkeypatch, "validate", str(bad))
    assert code == 2
    assert f"{bad}:14:19: path.forward.rate" in err.replace("\n", "")
    code, _, err = _run(capsys, monkeypatch, "validate")
    assert code == 0
    assert "are valid" in err


def test_list_carries_its_schema(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = _run(capsys, monkeypatch, "list", "--json")
    content = json.loads(out)
    assert code == 0
    assert content["schema"] == 1
    assert "satellite/medium" in {item["name"] for item in content["scenarios"]}
    assert {"ngtcp2", "quiche", "quic-go"} <= {item["name"] for item in content["implementations"]}


def test_infrastructure_is_exit_3(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise EngineError("the disk is full: /x", "free space")

    monkeypatch.setattr("harness.execution.measured_store.StoredResults.find", refuse)
    code, _, err = _run(capsys, monkeypatch, "report")
    assert code == 3
    assert "error: the disk is full: /x\nhint: free space" in err


def test_a_failed_build_costs_its_runs_and_not_the_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UnbuiltError(
            "1 image could not be built (quiche): 7 runs left out", "the reason is above", [_result("pass", ())]
        )

    monkeypatch.setattr("harness.execution.image_inventory.ImageInventory.unavailable", lambda self: {})
    monkeypatch.setattr("harness.execution.App.run", refuse)
    code, out, err = _run(capsys, monkeypatch, "run", "satellite/medium", "--no-figures")
    assert code == 3
    assert "alpha" in out
    assert "error: 1 image could not be built (quiche): 7 runs left out\nhint: the reason is above" in err


def _result(status: str, outcomes: tuple[str, ...]) -> CellResult:
    result = CellResult(cell(), (), Verdict(status=status, reason="", sentence=""), ())
    result.__dict__["outcomes"] = dict.fromkeys(outcomes, 1)
    return result


@pytest.mark.parametrize(
    ("results", "strict", "code"),
    [
        ([("pass", ("completed",))], False, 0),
        ([], False, NOTHING),
        ([("error", ())], False, NOTHING),
        ([("pass", ("completed",)), ("fail", ("completed",))], False, 1),
        ([("error", ("crashed",))], False, 1),
        ([("unsupported", ("unsupported",))] * 2, False, UNSUPPORTED),
        ([("unsupported", ("unsupported",)), ("pass", ("completed",))], False, 0),
        # A run that was asked for, and of which nothing is known, is not among what was judged.
        ([("pass", ("completed", "infrastructure"))], False, INFRASTRUCTURE),
        ([("inconclusive", ("completed",))], False, 0),
        ([("inconclusive", ("completed",))], True, 4),
        ([("error", ("infrastructure",)), ("fail", ("completed",))], True, 3),
        ([("fail", ("completed",))] * 256, False, 1),
    ],
)
def test_exit_codes_are_never_a_count(results: list[tuple[str, tuple[str, ...]]], strict: bool, code: int) -> None:
    assert exit_code([_result(*item) for item in results], strict=strict) == code


#: Commands that answer from stored runs.
_ASKING = [
    ("report",), ("report", "--json"), ("report", "--markdown"), ("report", "--grid"), ("report", "metrics"), ("judge",),
    ("compare",), ("plot",), ("measure",),
]  # fmt: skip


@pytest.mark.parametrize("words", _ASKING, ids=" ".join)
def test_where_nothing_is_stored_nothing_is_met(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    code, out, err = _run(capsys, monkeypatch, *words, "--store", str(tmp_path / "absent"))
    assert (code, json.loads(out)["cells"] if "--json" in words else out or []) == (NOTHING, [])
    assert f"error: {tmp_path / 'absent'}: no such folder, so there are no stored runs" in err
    code, _, err = _run(capsys, monkeypatch, *words, "--store", str(tmp_path))
    assert code == NOTHING
    assert f"error: {tmp_path} holds no runs" in err


def _stored(root: Path, *statuses: str) -> Store:
    store = Store(root)
    for number, status in enumerate(statuses):
        tested_cell = cell(catalogue().find_scenarios(["satellite/medium"])[0])
        run = Run(cell=tested_cell, repetition=number, outcome=Outcome(status=status), started_at="")
        proof = MeasuredRun(version=VERSION, link=LinkProof(valid=True))
        store.finish(store.begin(tested_cell.key, number), run, proof)
    return store


def test_the_exit_code_of_stored_runs_is_that_of_what_was_judged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for statuses, code in {
        ("unsupported", "unsupported"): UNSUPPORTED,
        ("infrastructure",): INFRASTRUCTURE,
        ("completed", "infrastructure"): INFRASTRUCTURE,
        ("timed_out",): FAILED,
    }.items():
        root = tmp_path / "-".join(statuses)
        _stored(root, *statuses)
        assert _run(capsys, monkeypatch, "judge", "--store", str(root))[0] == code, statuses
    code, _, err = _run(capsys, monkeypatch, "judge", "satellite/small", "--store", str(root))
    assert (code, "no stored runs match" in err, "has runs of satellite/medium" in err) == (NOTHING, True, True)


@pytest.mark.parametrize("words", _ASKING[:-1], ids=" ".join)
def test_a_run_that_cannot_be_read_costs_itself_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    store = _stored(tmp_path, "timed_out", "timed_out")
    (key,) = store.cell_keys()
    code, _, _ = _run(capsys, monkeypatch, *words, "--store", str(tmp_path))
    (store.folder(key, 0) / "run.json").write_text("[]")
    damaged, _, err = _run(capsys, monkeypatch, *words, "--store", str(tmp_path))
    assert damaged == code
    assert err.count(f"warning: the run {key}/0 is left out: ") == 1
    (store.folder(key, 1) / "run.json").write_text("{")
    code, _, err = _run(capsys, monkeypatch, *words, "--store", str(tmp_path))
    assert code == NOTHING
    assert f"the run {key}/1 is left out: " in err and f"{tmp_path} holds no runs" in err


def test_every_option_is_on_a_page() -> None:
    """What `--help` alone names is not met by who reads how to begin."""
    folders = (ROOT, ROOT / "docs", ROOT / "docs" / "guides", ROOT / "images", ROOT / "results")
    pages = "\n".join(page.read_text() for folder in folders for page in folder.glob("*.md"))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", pages))

    def options(command: Any, name: str) -> Iterator[tuple[str, list[str]]]:
        for parameter in command.params:
            if long := [word for word in parameter.opts if word.startswith("--")]:
                yield name, long
        for below, subcommand in getattr(command, "commands", {}).items():
            if not subcommand.hidden:
                yield from options(subcommand, f"{name} {below}")

    every = [*options(program(), "harness")]
    assert len(every) > 100
    assert [(name, words) for name, words in every if named.isdisjoint(words)] == []
