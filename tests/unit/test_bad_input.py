"""Whatever a person writes: one clear error where it is wrong, never a traceback, and never accepted if it cannot run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.analysis.objectives import mistakes
from harness.catalogue import Catalogue, Mistake
from harness.catalogue.catalogue import ListedScenario
from harness.cli.consoles import console, print_document
from harness.cli.entry import cli, main
from harness.errors import EngineError, HarnessError, InputError, disk_error
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.events import RunFinished, Warned
from harness.outcome import MeasuredRun, Outcome, Run
from harness.report.catalogue import ListedImplementation, catalogue_document
from harness.report.progress import ProgressPrinter
from harness.report.results import results_document
from harness.scenario.schema import Scenario
from harness.store.results import Store
from tests.bad_commands import COMMANDS, VARIABLES, BadCommand
from tests.bad_faults import FAULTS, FAULTY
from tests.bad_files import CONTENTS, MANIFEST, MANIFESTS, RAW, SCENARIO, SCENARIOS, Bad
from tests.bad_moves import MOVES, MOVING
from tests.bad_segments import DOWNLOADS, NO_TCP, SEQUENCE, SEQUENCES, SPLIT, UNSPLIT
from tests.examples import ROOT, catalogue, cell, implementation, scenario


def _say_nothing_raw(error: HarnessError) -> None:
    text = f"{error.message}\n{error.hint}"
    assert not [words for words in RAW if words in text], text
    assert all(len(line) < 400 for line in text.splitlines()), text


def _refused(file: Path, read: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read(file)
    _say_nothing_raw(caught.value)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return caught.value


def test_the_table_is_large_and_names_every_case_once() -> None:
    assert len(SCENARIOS) + len(MOVES) + len(CONTENTS) + len(MANIFESTS) + len(COMMANDS) >= 250
    for cases in (SCENARIOS, MOVES, FAULTS, SEQUENCES, MANIFESTS):
        assert len(set(cases)) == len(cases)


def test_what_the_bad_files_are_made_of_is_good(tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text(SCENARIO)
    assert catalogue().scenario(tmp_path / "case.yaml").title == "A case"
    (tmp_path / "moving.yaml").write_text(MOVING)
    assert catalogue().scenario(tmp_path / "moving.yaml").title == "A handover"
    (tmp_path / "sequence.yaml").write_text(SEQUENCE)
    assert catalogue().scenario(tmp_path / "sequence.yaml").title == "Three segments"
    (tmp_path / "image.yaml").write_text(MANIFEST)
    assert catalogue().manifest(tmp_path / "image.yaml").name == "mine"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where bad files are written, one in place of the other."""
    return tmp_path_factory.mktemp("bad")


@pytest.mark.parametrize("bad", SCENARIOS, ids=lambda bad: bad.mutated[:60])
def test_a_bad_scenario(folder: Path, bad: Bad) -> None:
    _check(folder / "case.yaml", bad, SCENARIO, catalogue().scenario)


@pytest.mark.parametrize("bad", MOVES, ids=lambda bad: bad.mutated[:60])
def test_a_bad_move(folder: Path, bad: Bad) -> None:
    _check(folder / "case.yaml", bad, MOVING, catalogue().scenario)


@pytest.mark.parametrize("bad", FAULTS, ids=lambda bad: bad.mutated[:60])
def test_a_bad_fault(folder: Path, bad: Bad) -> None:
    _check(folder / "case.yaml", bad, FAULTY, catalogue().scenario)


@pytest.mark.parametrize("bad", SEQUENCES, ids=lambda bad: bad.mutated[:60])
def test_bad_segments_in_a_row(folder: Path, bad: Bad) -> None:
    _check(folder / "case.yaml", bad, SEQUENCE, catalogue().scenario)


@pytest.mark.parametrize("why", UNSPLIT)
def test_a_proxy_that_nothing_would_need(folder: Path, why: str) -> None:
    _check(folder / "case.yaml", NO_TCP, UNSPLIT[why], catalogue().scenario)


@pytest.mark.parametrize("why", SPLIT)
def test_a_proxy_that_something_may_need(tmp_path: Path, why: str) -> None:
    (tmp_path / "case.yaml").write_text(SPLIT[why])
    assert any(catalogue().scenario(tmp_path / "case.yaml").proxies)


@pytest.mark.parametrize("bad", MANIFESTS, ids=lambda bad: bad.mutated[:60])
def test_a_bad_manifest(folder: Path, bad: Bad) -> None:
    _check(folder / "image.yaml", bad, MANIFEST, catalogue().manifest)


def _check(file: Path, bad: Bad, good: str, read: Any) -> None:
    text, line, column = bad.text(good)
    file.write_text(text)
    error = _refused(file, read)
    first = error.message.splitlines()[0]
    assert first.startswith(f"{file}:{line}:{column}: "), first
    assert bad.error in first
    assert bad.hint in error.hint


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_that_is_none(folder: Path, name: str) -> None:
    content, line, column, says, hint = CONTENTS[name]
    file = folder / "case.yaml"
    file.write_bytes(content)
    error = _refused(file, catalogue().scenario)
    assert error.message.startswith(f"{file}:{line}:{column}: "), error.message
    assert says in error.message
    assert hint in error.hint


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for an image has accepted a command line."""

    def accepted(*_: object, **__: object) -> None:
        raise AssertionError("the command line was accepted")

    def read(
        root: Path,
        manifests: tuple[Path, ...],
        check: Callable[[Scenario], Sequence[Mistake]],
        stand_ins: Mapping[str, str],
        workspace: Path | None,
    ) -> Catalogue:
        own = manifests or stand_ins or workspace
        return Catalogue(root, manifests, check, stand_ins, workspace) if own else catalogue()

    monkeypatch.setattr("harness.execution.checkout.Catalogue", read)
    monkeypatch.setattr("harness.execution.image_inventory.ImageInventory.unavailable", lambda self: {})
    monkeypatch.setattr("harness.execution.image_inventory.ImageInventory.image_of", accepted)
    monkeypatch.setattr("harness.execution.image_inventory.ImageInventory.make", accepted)


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "empty").mkdir()
    (folder / "file").write_text("nothing of ours\n")
    (folder / "case.yaml").write_text(SCENARIO)
    (folder / "split.yaml").write_text(DOWNLOADS)
    files = {"{file}": "file", "{case}": "case.yaml", "{split}": "split.yaml"}
    return {"{tmp}": str(folder / "empty"), **{word: str(folder / name) for word, name in files.items()}}


@pytest.fixture(scope="session")
def command() -> Any:
    """All commands as one, made once."""
    return typer.main.get_command(cli)


RefusedBy = Callable[[Sequence[str]], tuple[str, str]]


@pytest.fixture
def refused_by(
    command: Any, nothing_starts: None, places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> RefusedBy:
    """Runs a command line that is to be refused: message and hint."""

    def refused(words: Sequence[str]) -> tuple[str, str]:
        for name, place in places.items():
            words = [word.replace(name, place) for word in words]
        stored = {"report", "compare", "plot", "judge"}
        if words[0] in stored and "--store" not in words:
            words = [*words, "--store", places["{tmp}"]]
        try:
            command.main(list(words), prog_name="harness")
        except HarnessError as error:
            _say_nothing_raw(error)
            assert error.exit_code == 2, error.message
            assert error.hint, error.message
            return error.message, error.hint
        except SystemExit as end:
            # Typer's own words, in a frame.
            output = capsys.readouterr()
            assert end.code == 2, output
            assert not [words for words in RAW if words in output.err], output.err
            return output.err, output.err
        raise AssertionError(f"accepted: {words}")

    return refused


@pytest.mark.parametrize("bad", COMMANDS, ids=lambda bad: " ".join(bad.words)[:60])
def test_a_bad_command_line(refused_by: RefusedBy, bad: BadCommand) -> None:
    message, hint = refused_by(bad.words)
    assert bad.error in message
    assert bad.hint in hint


@pytest.mark.parametrize(("name", "value", "says"), VARIABLES)
def test_a_bad_variable(
    monkeypatch: pytest.MonkeyPatch, refused_by: RefusedBy, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    real_time = name in ("HARNESS_PATIENCE", "HARNESS_ENDPOINT_MEMORY")
    message, _ = refused_by(["run", "satellite/medium"] if real_time else ["check", "ngtcp2"])
    assert says in message


# --- what people wrote is printed as they wrote it

ODD = "[/nope] [bold]:smile: [link=x]{x}"


def test_nothing_that_a_person_wrote_is_markup(capsys: pytest.CaptureFixture[str]) -> None:
    odd_scenario = scenario(title=ODD)
    alpha = implementation("alpha", title=ODD, version=ODD, licence=ODD, notes=ODD)
    played = cell(odd_scenario, alpha, implementation("beta"))
    run = Run(cell=played, repetition=0, started_at="",
              outcome=Outcome(status="crashed", role="client", detail=ODD, reason=ODD, log_tail=(ODD,)))  # fmt: skip
    verdict = judge(odd_scenario, [(run, None)])
    result = CellResult(played, ((run, MeasuredRun(version=1, warnings=(ODD,))),), verdict, (Path("x"),))
    print_document(results_document([result]))
    print_document(
        catalogue_document(
            [ListedScenario(odd_scenario.name, odd_scenario.title, 1)],
            [ListedImplementation(alpha, here=False, absent=ODD)],
        )
    )
    with ProgressPrinter(console()) as progress:
        progress(RunFinished(played, run, run.outcome, verdict))
        progress(Warned(ODD))
    out, err = capsys.readouterr()
    folded = "".join(out.split())
    assert folded.count("".join(ODD.split())) >= 5
    assert err.count(ODD) == 2


# --- places that refuse


def test_a_disk_that_refuses_is_named_by_the_place_that_refused() -> None:
    refused = disk_error(OSError(30, "Read-only file system", "/cache/www/10MB"), Path("/store"))
    assert refused.message == "/cache/www/10MB: Read-only file system"
    assert "another folder" in refused.hint
    assert disk_error(OSError(28, "No space left"), Path("/store")).message == "the disk is full: /store"


def test_a_store_that_takes_nothing_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "measured.json.new").mkdir()
    with pytest.raises(EngineError) as caught:
        Store(tmp_path).write_measured(tmp_path, MeasuredRun(version=1))
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint


def test_an_error_of_the_system_that_nobody_foresaw_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object) -> None:
        raise PermissionError(13, "Permission denied", "/x/y")

    monkeypatch.setattr("harness.catalogue.Catalogue.implementations", refuse)
    monkeypatch.setattr("sys.argv", ["harness", "list"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 3
    assert capsys.readouterr().err == "error: /x/y: Permission denied\nhint: check the folder's permissions\n"


def test_two_scenarios_of_one_name_are_not_taken_for_one(tmp_path: Path) -> None:
    for folder, title in (("a", "A case"), ("b", "Another")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "case.yaml").write_text(SCENARIO.replace("A case", title))
    with pytest.raises(InputError, match="another scenario is named 'case', too"):
        Catalogue(ROOT, mistakes=mistakes).find_scenarios([str(tmp_path / name / "case.yaml") for name in "ab"])
