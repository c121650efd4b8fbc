"""What a shell is told, --version and -h."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from harness.cli import completion, main
from harness.cli.entry import load_command
from harness.report.plots.registry import plots
from harness.scenario.parameters import PARAMETERS
from tests.examples import ROOT, catalogue

Complete = Callable[..., list[str]]


@pytest.fixture
def bash(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """What Bash is answered for words as it splits them; the last is the one that is completed."""

    def complete(*words: str) -> list[str]:
        monkeypatch.setenv("_HARNESS_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["harness", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        monkeypatch.setattr("sys.argv", ["harness"])
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr().out.split()

    return complete


def test_scenarios_and_families(bash: Complete) -> None:
    assert bash("run", "satellite/med") == [
        "satellite/medium", "satellite/medium-congested", "satellite/medium-variable",
    ]  # fmt: skip
    names = {catalogue().scenario_name(file) for file in catalogue().scenario_files()}
    assert names < set(completion.scenarios(""))
    assert "dumbbell" in bash("explain", "dumb")
    # Beside the tables of the report, which stand in the same place.
    assert bash("report", "met") == ["metrics"]
    assert "satellite/large" in bash("report", "satellite/l")


def test_implementations_after_a_comma(bash: Complete) -> None:
    assert bash("run", "satellite", "--clients", "ngtcp") == ["ngtcp2", "ngtcp2-qns"]
    assert bash("plan", "satellite", "--servers", "ngtcp2,quich") == ["ngtcp2,quiche", "ngtcp2,quiche-qns"]
    assert bash("check", "quiche,ngtcp2,quiche-") == ["quiche,ngtcp2,quiche-qns"]
    assert completion._implementations() == sorted(catalogue().implementations())


def test_parameters_and_then_values_as_bash_takes_them_apart(bash: Complete) -> None:
    assert bash("run", "satellite", "--set", "server.congestion") == ["server.congestion_control="]
    # The word ends at the = for Bash: it keeps what stands before, and puts the answer behind.
    values = bash("run", "satellite", "--set", "server.congestion_control", "=", "reno")
    assert values == ["reno", "reno-64m"]
    assert {"bbr", "cubic", "reno"} <= set(bash("run", "satellite", "--vary", "congestion_control", "="))
    assert bash("run", "satellite", "--vary", "server.congestion_control", "=", "reno,reno-") == ["reno,reno-64m"]
    assert bash("run", "x", "--set", "pacing", "=", "o") == ["on", "off"]
    assert bash("run", "x", "--vary", "flow1.server", "=", "quiche-") == ["quiche-qns"]
    assert bash("run", "x", "--vary", "flow1.serv") == ["flow1.server=", *(f"flow1.server.{n}=" for n in PARAMETERS)]
    # An option behind it is none the wiser.
    assert bash("run", "x", "--set", "pacing", "=", "on", "--clients", "ngtcp2-") == ["ngtcp2-qns"]


def test_a_shell_that_keeps_words_whole_gets_them_whole() -> None:
    assert completion.settings("client.congestion_control=bbrv") == []
    assert "server.congestion_control=reno" in completion.settings("server.congestion_control=re")
    assert completion.sweeps("pacing=on,") == ["pacing=on,off"]
    assert completion.settings("initial_cwnd=") == []


def test_every_figure_and_outcome(bash: Complete) -> None:
    assert completion.figures("") == sorted(plots())
    assert bash("plot", "--only", "drop_rate,trans") == ["drop_rate,transfer"]
    assert bash("run", "x", "--retry", "crashed,tim") == ["crashed,timed_out"]
    assert bash("plan", "x", "--engine", "v") == ["virtual"]


def test_words_that_are_not_finished_are_no_error(bash: Complete) -> None:
    assert bash("run", "satellite", "--set", '"server.cong') == []
    assert "run" in bash("")


def test_a_shell_waits_for_nothing_heavy() -> None:
    text = (
        "import sys; from harness.cli import completion as c; c.settings('server.congestion_control='); c.figures(''); "
        "c.outcomes(''); c.scenarios(''); print(*sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"polars", "altair", "scipy", "jinja2", "cryptography"} & set(process.stdout.split())


def _run_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[int | str | None, str]:
    monkeypatch.setattr("sys.argv", ["harness", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code, capsys.readouterr().out


def test_the_version_names_the_commit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.store.provenance.commit_of", lambda root: "0123abcd+")
    code, out = _run_command(capsys, monkeypatch, "--version")
    assert code in (0, None)
    assert out.startswith("harness ") and "(0123abcd+), Python 3." in out


@pytest.mark.parametrize("words", [(), ("run",), ("report", "metrics")])
def test_h_is_help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    code, short = _run_command(capsys, monkeypatch, *words, "-h")
    assert code == 0
    assert short == _run_command(capsys, monkeypatch, *words, "--help")[1]
    assert f"Usage: harness {' '.join(words)}".rstrip() in short


def test_plan_takes_what_run_takes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import inspect

    run, plan = (inspect.signature(load_command(name)).parameters for name in ("run", "plan"))
    assert [*run, "shards"] == list(plan)
    assert {"scenarios", "jobs", "fresh", "retry", "draw"} <= set(run)
    for command in ("run", "plan"):
        assert "--figures" in _run_command(capsys, monkeypatch, command, "--help")[1]
