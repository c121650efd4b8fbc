"""What the end of a `run` says, at two widths of a terminal; and that its commands are right."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from harness.cli import main
from harness.cli.options import EngineChoice, PairsChoice, RunArguments
from harness.cli.signals import FAILED
from harness.errors import EngineError, InputError
from harness.evaluation.cell_result import CellResult, CommandWords
from harness.execution import App, CheckoutPaths
from harness.execution.matrix import Request
from harness.outcome import Attributed, Attribution, Observation, StateShare
from harness.report.closing import closing_document, comparison_lines, miss_lines, next_commands
from harness.report.compare import comparisons
from harness.report.results import results_document
from tests.engine_pairs import completions, result, run
from tests.examples import ROOT, catalogue, cell, implementation, scenario
from tests.rendering import printed

NAMES = ("alpha", "beta")
#: A file that nobody below scenarios/ has.
OWN = """\
title: my own path
path:
  forward: {rate: 50 Mbit/s, delay: 10 ms}
  return: {rate: 10 Mbit/s, delay: 10 ms}
flows: [{download: 1 MB}]
"""


def _attributed(seconds: float) -> Attributed:
    parts = (
        StateShare(state="slow_start", seconds=seconds - 1, note="from 13.5 kB in 11 packets"),
        StateShare(state="line_rate", seconds=1),
    )
    return Attributed(
        version=1, transfers=(Attribution(flow=0, transfer="first", size=10_000_000, seconds=seconds, parts=parts),)
    )


def _cell(client: str, server: str, engine: str = "virtual", **figures: float) -> CellResult:
    """A cell whose one run completed; its 2 MB are due after 3 s."""
    stored_run, measured = run(figures=figures)
    assert measured is not None
    measured = measured.model_copy(update={"attributed": _attributed(figures["completion"])})
    stored_run = stored_run.model_copy(update={"warnings": ("cpu: the host's",)})
    who = {"client": implementation(client), "server": implementation(server)}
    return result(engine, (stored_run, measured), **who)  # type: ignore[arg-type]


def _matrix(engine: str = "virtual") -> list[CellResult]:
    times = iter((2.5, 3.5, 2.75, 4.0))
    cells = []
    for client in NAMES:
        for server in NAMES:
            seconds = next(times)
            cells.append(_cell(client, server, engine, completion=2 * seconds, milestone_2MB=seconds))
    return cells


@pytest.mark.parametrize("width", [80, 140])
def test_the_end_of_a_run(width: int, snapshot: SnapshotAssertion) -> None:
    virtual = _matrix()
    real = [_cell(name, name, "compose", completion=5.1, milestone_2MB=2.6) for name in NAMES]
    text = printed(results_document(virtual, reasons=False), width)
    text += printed(
        closing_document(
            virtual, site="file:///site/index.html", compared=comparisons([virtual[0], virtual[3], *real])
        ),
        width,
    )
    assert text == snapshot
    tables = [line for line in text.splitlines() if line[:1] in "┏┃┡│└"]
    assert tables and max(map(len, tables)) <= width


def test_a_warning_of_all_rows_is_said_once() -> None:
    text = printed(results_document(_matrix()), 140)
    assert text.count("cpu: the host's") == 1
    assert "all 4 cells: warning: cpu: the host's" in text


def test_one_command_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(results_document(_matrix()), 140)
    assert text.count("--fresh") == 1
    assert "have this line for each of 4 cells" in text


def test_who_misses_has_a_line_and_the_nearest_miss_comes_first() -> None:
    lines = miss_lines([*_matrix(), result("virtual", run("crashed", received=0, completion=1.0))])
    assert [line.partition(":")[0] for line in lines][:2] == ["alpha→beta", "beta→beta"]
    assert "slow start 6.0 s from 13.5 kB" in lines[0]
    assert len(lines) == 3 and ": error: " in lines[2]


def test_a_cell_alone_has_no_grid_and_no_rivals() -> None:
    text = printed(closing_document(_matrix()[:1]), 140)
    assert "client ↓" not in text and "miss" not in text
    assert "best: ✓ alpha→alpha" in text
    assert printed(closing_document([])) == ""


def test_engines_beside_each_other_say_who_is_absent() -> None:
    virtual = _matrix()
    real = _cell("alpha", "alpha", "compose", completion=5.1, milestone_2MB=2.6)
    agreeing, lonely = comparison_lines(comparisons([virtual[0], virtual[3], real]))
    assert agreeing == "alpha→alpha: 5 s in virtual time, 5.1 s in real time (-2.0%): they agree"
    assert lonely == "beta→beta: 8 s in virtual time; no compose runs"


def test_a_second_connection_and_a_transfer_that_did_not_finish_have_lines_of_their_own() -> None:
    real = _cell("alpha", "alpha", "compose", completion=5.1)
    (compared,) = [item for item in comparisons([_matrix()[0], real]) if item.metric == "completion"]
    assert compared.virtual is not None and compared.virtual.interval is not None
    never = replace(compared.virtual, interval=compared.virtual.interval.model_copy(update={"median": math.inf}))
    lost = replace(compared, virtual=never, difference=math.inf, within=False, explanation="not explained")
    again = replace(compared, metric="repeat_completion")
    assert comparison_lines([lost, again]) == [
        "alpha→alpha: did not finish in virtual time, 5.1 s in real time; not explained",
        "alpha→alpha, second connection: 5 s in virtual time, 5.1 s in real time (-2.0%): they agree",
    ]


# --- commands that can be typed


def _words_of(tmp_path: Path, **options: object) -> CommandWords:
    file = tmp_path / "own.yaml"
    file.write_text(OWN)
    app = App(CheckoutPaths(ROOT, tmp_path / "store", tmp_path / "state", tmp_path / "cache"), **options)  # type: ignore[arg-type]
    (own,) = app.catalogue.find_scenarios([str(file)])
    return app.results.result_of(cell(own, client=implementation("quiche"), server=implementation("quinn"))).words


def test_a_command_names_the_file_the_store_and_the_image(tmp_path: Path) -> None:
    words = _words_of(tmp_path, stand_ins={"quiche": "mine/quiche:dev", "ngtcp2": "mine/ngtcp2:dev"})
    assert words.scenario == str(tmp_path / "own.yaml")
    assert words.options == ("--store", str(tmp_path / "store"), "--image", "quiche=mine/quiche:dev")


def test_a_command_names_a_manifest_from_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "image.yaml").write_text("name: mine\nimage: mine/mine:1\nroles: [client, server]\n")
    app = App(CheckoutPaths(ROOT, ROOT / "results", tmp_path / "state", tmp_path / "cache"), [folder / "image.yaml"])
    assert app.results.result_of(cell(client=implementation("mine"))).words.options == (
        "--manifest",
        str(folder / "image.yaml"),
    )
    assert app.results.result_of(cell()).words == CommandWords()


def test_what_to_try_next_is_on_the_same_store_and_files() -> None:
    words = CommandWords("my own.yaml", ("--store", "a b", "--image", "alpha=mine:1"))
    commands = [
        shlex.split(line, comments=True) for line in next_commands([replace(item, words=words) for item in _matrix()])
    ]
    assert [words[:2] for words in commands] == [["harness", "why"], ["harness", "run"], ["harness", "report"]]
    assert all("a b" in words for words in commands)
    assert commands[1][2] == "my own.yaml" and "alpha=mine:1" in commands[1]


def test_the_real_time_check_is_of_virtual_time_alone() -> None:
    asking = RunArguments(["a"], engine=EngineChoice.VIRTUAL, jobs=4, cluster="local:2")
    real = asking.in_real_time
    assert (real.engine, real.pairs, real.jobs, real.cluster) == (EngineChoice.COMPOSE, PairsChoice.ITSELF, None, "")
    for wrong in (replace(asking, engine=EngineChoice.COMPOSE), replace(asking, shard="1/2")):
        with pytest.raises(InputError, match="--check-real"):
            _ = wrong.in_real_time


def test_a_result_without_figures_ends_a_run_too() -> None:
    nothing = completions("virtual", definition=scenario(objectives=[]))
    assert "best:" in printed(closing_document([nothing]))


def test_the_suggested_sweep_is_one_that_the_pair_can_run() -> None:
    def sweep(name: str) -> str:
        known = catalogue().implementations()[name][0]
        line = next_commands([completions("virtual", 4.0, client=known, server=known)])[1]
        words = shlex.split(line, comments=True)
        return words[words.index("--vary") + 1]

    assert sweep("quiche") == "server.congestion_control=cubic,bbr"
    for name in ("aioquic", "go-x-net", "quic-go", "msquic", "picoquic"):
        known = catalogue().implementations()[name][0]
        full, values = sweep(name).split("=", 1)
        role, _, parameter = full.partition(".")
        assert role == "path" or known.setting(role, parameter) is not None, values  # type: ignore[arg-type]


# --- sweeps


def _swept(*seconds: float, **observed: str) -> list[CellResult]:
    cells = []
    for value, asked in zip(seconds, ("reno", "cubic"), strict=True):
        stored_run, measured = run(completion=value)
        assert measured is not None
        seen = tuple(
            Observation(role="server", parameter="congestion_control", value=name, unit="", source="qlog")
            for key, name in observed.items()
            if key == asked
        )
        pair = stored_run, measured.model_copy(update={"observed": seen})
        cells.append(
            result("virtual", pair, definition=scenario(objectives=[]), parameters={"server.congestion_control": asked})
        )
    return cells


def test_a_sweep_shows_what_was_observed_beside_what_was_asked() -> None:
    text = printed(results_document(_swept(4.0, 5.0, cubic="cubic")), 160)
    assert re.search(r"│ +cubic │ .*│ server.congestion_control cubic +│", text)
    assert "server.congestion_control not seen" in text
    assert "observed" not in printed(results_document(_matrix()), 160)


def test_one_run_that_is_a_tenth_of_a_per_cent_better_is_no_best() -> None:
    near, clear = (printed(closing_document(_swept(4.0, other)), 120) for other in (4.0048, 4.8))
    assert "★" not in near and "★" in clear
    assert "★" not in printed(results_document(_swept(4.0, 4.0048)), 160)


def test_the_metric_that_ranks_is_a_column() -> None:
    text = printed(
        results_document(
            [completions("virtual", value, definition=scenario(milestones=["2 MB"])) for value in (4.0, 5.0)]
        ),
        160,
    )
    assert re.search(r"┃ +2MB ┃ +completion", text)
    assert "completion" not in printed(results_document(_matrix()[:1]), 160)


def test_a_parameter_of_both_roles_that_only_one_is_settable() -> None:
    known = catalogue()
    players = {"client": [known.implementations()["picoquic"][0]], "server": [known.implementations()["quiche"][0]]}
    known.require_settable("--vary", {"initial_rtt": ["100 ms"], "path.forward.loss": ["1 %"]}, players)  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        known.require_settable("--vary", {"ack_ratio": ["2", "10"]}, players)  # type: ignore[arg-type]
    assert caught.value.message == "--vary ack_ratio=2,10: not both the client and the server can be told"
    assert caught.value.hint.startswith("try client.ack_ratio: picoquic can") and "receiver's" in caught.value.hint


@pytest.mark.parametrize("problem", [None, EngineError("no Docker here", "start it")])
def test_a_run_with_the_real_time_check_answers_first_and_compares_last(
    problem: EngineError | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str]] = []

    def run_matrix(app: App, request: Request, options: object, listen: object) -> list[CellResult]:
        asked.append((request.engine, request.pairs))
        if request.engine == "virtual":
            return _matrix()
        if problem is not None:
            raise problem
        return [_cell(name, name, "compose", completion=5.1, milestone_2MB=2.6) for name in NAMES]

    monkeypatch.setattr("harness.execution.App.run", run_matrix)
    words = ["satellite/small", "--clients", "ngtcp2", "--servers", "ngtcp2", "--store", str(tmp_path / "store")]
    monkeypatch.setattr("sys.argv", ["harness", "run", *words, "--engine", "virtual", "--check-real", "--no-figures"])
    with pytest.raises(SystemExit) as ended:
        main()
    output = capsys.readouterr()
    assert asked == [("virtual", "all"), ("compose", "itself")]
    # The verdicts are those of virtual time, whatever came of real time.
    assert ended.value.code == FAILED
    assert output.out.index("│ alpha") < output.out.index("best:")
    if problem is None:
        assert "alpha→alpha: 5 s in virtual time, 5.1 s in real time (-2.0%): they agree" in output.out
    else:
        assert "nothing in real time: no Docker here" in output.err and "real time beside" not in output.out
