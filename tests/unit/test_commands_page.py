"""docs/commands.md has every command and option, as the command line declares them."""

from __future__ import annotations

import re

import typer
from typer.main import get_command

from harness.cli.entry import COMMANDS, HIDDEN, create_program, program
from tests.examples import ROOT
from tools.reference.commands_page import commands_page


def test_every_command_has_a_part() -> None:
    page = commands_page(program())
    headings = re.findall(r"^## harness (.+)$", page, flags=re.MULTILINE)
    assert [name for name in headings if " " not in name] == list(COMMANDS)
    assert {"report study", "report html", "cluster kubernetes", "interop judge"} <= set(headings)
    assert not set(HIDDEN) & set(headings)


def test_a_part_has_usage_help_and_options() -> None:
    page = commands_page(program())
    part = page.partition("## harness plan\n")[2].partition("\n## ")[0]
    assert "```\nharness plan [scenarios] [OPTIONS]\n```" in part
    assert "| `scenarios` | `TEXT` | required |" in part
    assert "| `--engine` | `compose`, `virtual` | `compose` |" in part
    assert "| `--seed` | `N` | `1` | Seed of the emulated loss. |" in part


def test_no_folder_of_this_machine_is_in_it() -> None:
    page = commands_page(program())
    assert str(ROOT) not in page and "| `--reference` | `PATH` | `results/reference` |" in page


def test_hidden_options_are_left_out_and_new_ones_come_in() -> None:
    app = create_program("x")

    @app.command("go")
    def go(
        far: bool = typer.Option(False, "--far", help="Go far."),
        secret: bool = typer.Option(False, "--secret", hidden=True),
    ) -> None:
        """Go."""

    @app.command("stay")
    def stay() -> None:
        """Stay."""

    page = commands_page(get_command(app))
    assert "| `--far` |  |  | Go far. |" in page and "--secret" not in page
    assert "```\nharness stay\n```\n\nStay.\n" in page
