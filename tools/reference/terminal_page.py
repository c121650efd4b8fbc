"""A picture of a terminal for the README: the end of a run, made of stored runs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from harness.cli.consoles import text_console
from harness.evaluation.cell_result import CellResult, CommandWords
from harness.report.closing import closing_document
from harness.report.terminal import render_terminal

#: The scenario, and who plays each role.
SCENARIO, PLAYERS = "satellite/medium", ("ngtcp2", "picoquic", "quiche")
COMMAND = f"harness run {SCENARIO} --clients {','.join(PLAYERS)} --servers {','.join(PLAYERS)} --engine virtual"
#: Columns of the terminal.
WIDTH = 120
#: The picture, as `rich.console.Console.export_svg` fills it in. It loads no font from elsewhere.
_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: {char_height}px; line-height: {line_height}px }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def shown_cells(results: Sequence[CellResult]) -> list[CellResult]:
    """The cells of the command, as if they were in the user's own store."""
    return [
        replace(result, words=CommandWords())
        for result in results
        if result.cell.scenario.name == SCENARIO
        and result.cell.virtual_time
        and not result.cell.parameters
        and {result.cell.client.name, result.cell.server.name} <= {*PLAYERS}
    ]


def terminal_text(results: Sequence[CellResult]) -> str:
    """The command and what it ends with, as a terminal gets it: with the escape sequences of colours."""
    output = io.StringIO()
    terminal = text_console(
        file=output, width=WIDTH, force_terminal=True, color_system="standard", legacy_windows=False, _environ={}
    )
    terminal.print(f"$ {COMMAND}", style="bold")
    terminal.print("…", style="dim")
    render_terminal(closing_document(shown_cells(results)), terminal)
    return output.getvalue()


def terminal_picture(results: Sequence[CellResult]) -> str:
    """The same as SVG. Lines that are too long are folded."""
    console = Console(file=io.StringIO(), width=WIDTH, record=True, legacy_windows=False, _environ={})
    console.print(Text.from_ansi(terminal_text(results)), overflow="fold", highlight=False)
    svg = console.export_svg(title="harness", theme=SVG_EXPORT_THEME, code_format=_FORMAT, unique_id="terminal")
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines() if line.strip())
