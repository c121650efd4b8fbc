"""The picture of a terminal in the README: what it says, and what it is made of."""

from __future__ import annotations

import re
import shlex
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.text import Text

from harness.cli import main
from harness.evaluation.cell_result import CellResult, CommandWords
from harness.outcome import EngineName
from harness.report.closing import closing_document
from tests.engine_pairs import result, run
from tests.examples import ROOT, catalogue, implementation
from tests.examples import cell as make_cell
from tests.rendering import printed
from tools.reference.terminal_page import (
    COMMAND,
    PLAYERS,
    SCENARIO,
    WIDTH,
    shown_cells,
    terminal_picture,
    terminal_text,
)

PICTURE = ROOT / "docs" / "figures" / "terminal.svg"
SVG = "{http://www.w3.org/2000/svg}"


def _cell(engine: EngineName, client: str, server: str, seconds: float, **overrides: Any) -> CellResult:
    (shown,) = catalogue().find_scenarios([SCENARIO])
    figures = {"milestone_2MB": seconds / 9, "milestone_10MB": seconds / 5, "milestone_100MB": seconds}
    pair = run(seconds=seconds, figures={**figures, "completion": seconds})
    cell = make_cell(shown, implementation(client), implementation(server), engine=engine, **overrides)
    return result(engine, pair, of=cell)


def _results() -> list[CellResult]:
    """A run of each pair, of which those with picoquic as the server are in time; and cells that have no place there."""
    cells = [
        _cell("virtual", client, server, (15.0 if server == "picoquic" else 25.0) + number)
        for number, client in enumerate(PLAYERS)
        for server in PLAYERS
    ]
    others = [
        _cell("compose", "ngtcp2", "ngtcp2", 1.5),
        _cell("virtual", "ngtcp2", "quinn", 2.5),
        _cell("virtual", "quiche", "quiche", 3.5, parameters={"server.congestion_control": "reno"}),
    ]
    return [*others, *cells]


def _words(text: str) -> list[str]:
    return text.split()


def _letters(text: str) -> str:
    """A text without its spaces: a picture has places instead."""
    return "".join(text.split())


def _drawn(svg: str) -> str:
    """The letters of a picture, line by line."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for text in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        if text.get("clip-path"):
            lines.setdefault(float(text.attrib["y"]), []).append((float(text.attrib["x"]), text.text or ""))
    return _letters("".join(piece for _, line in sorted(lines.items()) for _, piece in sorted(line)))


def test_it_is_the_command_and_what_a_run_ends_with() -> None:
    results = _results()
    cells = shown_cells(results)
    assert [(cell.cell.client.name, cell.cell.server.name) for cell in cells] == [
        (client, server) for client in PLAYERS for server in PLAYERS
    ]
    ending = printed(closing_document(cells), WIDTH)
    assert _words(Text.from_ansi(terminal_text(results)).plain) == ["$", *_words(COMMAND), "…", *_words(ending)]
    assert "3 of 9 meet every objective" in ending
    # A store of the one who made the picture is in none of its commands.
    assert all(cell.words == CommandWords() for cell in cells)


def test_the_picture_has_every_word_and_the_colours() -> None:
    results = _results()
    svg = terminal_picture(results)
    assert _drawn(svg) == _letters(Text.from_ansi(terminal_text(results)).plain)
    assert svg == terminal_picture(results)
    colours = set(re.findall(r"fill: (#[0-9a-f]{6})", svg))
    assert len(colours) >= 3


def test_the_readme_s_picture_is_small_and_loads_nothing() -> None:
    svg = PICTURE.read_text(encoding="utf-8")
    assert len(svg.encode()) < 60_000
    assert re.findall(r"https?://[^\"' )]+", svg) == ["http://www.w3.org/2000/svg"]
    assert _drawn(svg).startswith(f"${_letters(COMMAND)}…")
    assert "](docs/figures/terminal.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_command_is_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    program, _, *words = shlex.split(COMMAND)
    monkeypatch.setattr("sys.argv", [program, "plan", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0, capsys.readouterr().err
