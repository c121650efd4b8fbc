"""Whatever a person writes: one clear error where it is wrong, never a traceback, and never accepted if it cannot run."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.catalogue import Catalogue
from harness.cli.entry import cli
from harness.errors import HarnessError, InputError
from tests.bad_commands import COMMANDS, VARIABLES, BadCommand
from tests.bad_files import CONTENTS, MANIFEST, MANIFESTS, SCENARIO, SCENARIOS, Bad
from tests.examples import ROOT, catalogue

#: What pydantic, Python and PyYAML say among themselves.
RAW = ("Input should", "Value error", "valid dictionary", "function-", "Traceback", "Error:", "pydantic", "NoneType")


def _say_nothing_raw(error: HarnessError) -> None:
    said = f"{error.message}\n{error.hint}"
    assert not [words for words in RAW if words in said], said
    assert all(len(line) < 400 for line in said.splitlines()), said


def _refused(file: Path, read: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read(file)
    _say_nothing_raw(caught.value)
    assert caught.value.exit_code == 2
    return caught.value


def test_the_table_is_large_and_names_every_case_once() -> None:
    assert len(SCENARIOS) + len(CONTENTS) + len(MANIFESTS) + len(COMMANDS) >= 250
    for cases in (SCENARIOS, MANIFESTS):
        assert len(set(cases)) == len(cases)


def test_what_the_bad_files_are_made_of_is_good(tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text(SCENARIO)
    assert catalogue().scenario(tmp_path / "case.yaml").title == "A case"
    (tmp_path / "image.yaml").write_text(MANIFEST)
    assert catalogue().manifest(tmp_path / "image.yaml")[0].name == "mine"


@pytest.mark.parametrize("bad", SCENARIOS, ids=lambda bad: bad.new[:60])
def test_a_bad_scenario(tmp_path: Path, bad: Bad) -> None:
    _check(tmp_path / "case.yaml", bad, SCENARIO, catalogue().scenario)


@pytest.mark.parametrize("bad", MANIFESTS, ids=lambda bad: bad.new[:60])
def test_a_bad_manifest(tmp_path: Path, bad: Bad) -> None:
    _check(tmp_path / "image.yaml", bad, MANIFEST, catalogue().manifest)


def _check(file: Path, bad: Bad, good: str, read: Any) -> None:
    text, line, column = bad.text(good)
    file.write_text(text)
    error = _refused(file, read)
    first = error.message.splitlines()[0]
    assert first.startswith(f"{file}:{line}:{column}: "), first
    assert bad.says in first
    assert bad.hint in error.hint


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_that_is_none(tmp_path: Path, name: str) -> None:
    content, line, column, says, hint = CONTENTS[name]
    file = tmp_path / "case.yaml"
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

    monkeypatch.setattr("harness.app.inventory.Inventory.absent", lambda self: {})
    monkeypatch.setattr("harness.app.inventory.Inventory.image_of", accepted)
    monkeypatch.setattr("harness.app.inventory.Inventory.make", accepted)


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "empty").mkdir()
    (folder / "file").write_text("nothing of ours\n")
    (folder / "case.yaml").write_text(SCENARIO)
    return {"{tmp}": str(folder / "empty"), "{file}": str(folder / "file"), "{case}": str(folder / "case.yaml")}


def _said(words: tuple[str, ...], places: dict[str, str]) -> tuple[str, str]:
    """What a command line is refused with: message and hint."""
    for name, place in places.items():
        words = tuple(word.replace(name, place) for word in words)
    stored = {"report", "compare", "plot", "judge"}
    if words and words[0] in stored and "--store" not in words:
        words = (*words, "--store", places["{tmp}"])
    result = CliRunner().invoke(cli, words)
    if isinstance(result.exception, HarnessError):
        _say_nothing_raw(result.exception)
        assert result.exception.exit_code == 2, result.exception.message
        return result.exception.message, result.exception.hint
    if isinstance(result.exception, SystemExit):
        # Typer's own, in a frame: the words may be broken.
        assert result.exit_code == 2, result.output
        return result.output, result.output
    raise AssertionError(f"{words}: exit code {result.exit_code}") from result.exception


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize("bad", COMMANDS, ids=lambda bad: " ".join(bad.words)[:60])
def test_a_bad_command_line(bad: BadCommand, places: dict[str, str]) -> None:
    message, hint = _said(bad.words, places)
    assert bad.says in message
    assert bad.hint in hint


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize(("name", "value", "says"), VARIABLES)
def test_a_bad_variable(
    monkeypatch: pytest.MonkeyPatch, places: dict[str, str], name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    message, hint = _said(("check", "ngtcp2") if name != "HARNESS_PATIENCE" else ("run", "satellite/medium"), places)
    assert says in message
    assert hint


__all__ = ["ROOT", "Catalogue", "io"]
