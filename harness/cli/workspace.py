"""Workspaces: folders with scenarios, images and results of your own, beside those that the program has.

A checkout needs none: it is one. A program that was installed (`pip install .`) has the scenarios and recipes of the
checkout that it was built from, in its folder `shipped`, and changes nothing there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.consoles import console
from harness.errors import InputError, disk_error

_PACKAGE = Path(__file__).resolve().parents[1]
_SHIPPED = _PACKAGE / "shipped"
#: Whether the program was installed without its checkout.
IS_INSTALLED = _SHIPPED.is_dir()
#: What has the scenarios/ and images/ that come with the program: the checkout, or a folder of the package.
ROOT = _SHIPPED if IS_INSTALLED else _PACKAGE.parent
#: The folder that makes a folder a workspace. It holds logs of builds and what is kept from command to command.
MARK = ".quic-lab"
_SCHEMAS = ("scenarios/schema.json", "images/schema.json")


def find_workspace() -> Path | None:
    """HARNESS_WORKSPACE, else the nearest of the working directory and the folders above it that is a workspace.

    None where none is. The search ends at a checkout. InputError where the variable names no workspace.
    """
    if text := os.environ.get("HARNESS_WORKSPACE"):
        folder = Path(text).absolute()
        if not (folder / MARK).is_dir():
            raise InputError(f"HARNESS_WORKSPACE: {text} is no workspace", f"make one with 'harness init {text}'")
        return folder
    here = Path.cwd()
    for folder in (here, *here.parents):
        if folder == ROOT:
            return None
        if (folder / MARK).is_dir():
            return folder
    return None


def require_workspace(command: str) -> None:
    """InputError for a command that runs labs or changes what is there, where its results would have no place."""
    if IS_INSTALLED and find_workspace() is None:
        raise InputError(
            f"'harness {command}' needs a workspace, and {Path.cwd()} is in none",
            "'harness init' makes this folder one; 'harness init FOLDER' another",
        )


def require_checkout(command: str) -> None:
    """InputError for a command that reads the history of the code, or writes to recipes, in an installed program."""
    if IS_INSTALLED:
        raise InputError(
            f"'harness {command}' needs a clone of the repository, and this program was installed without one",
            "clone it, and use the program of its 'make setup'",
        )


def user_folder(variable: str, fallback: str) -> Path:
    """The program's folder below a base folder of the user (XDG Base Directory Specification)."""
    base = os.environ.get(variable, "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / fallback) / "quic-lab"


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to make a workspace of; made if needed.")] = Path(),
) -> None:
    """Make a folder a workspace: scenarios, images and results of your own, beside those of the program."""
    place = folder.absolute()
    if place == ROOT or place.is_relative_to(_SHIPPED):
        raise InputError(f"{place}: this is where the program's own files are", "name a folder of your own")
    again = (place / MARK).is_dir()
    try:
        for name in ("scenarios", "images", "results", MARK):
            (place / name).mkdir(parents=True, exist_ok=True)
        for name in _SCHEMAS:
            # Editors complete by them: '# yaml-language-server: $schema=schema.json' on a file's first line.
            shutil.copyfile(ROOT / name, place / name)
    except OSError as error:
        raise disk_error(error, place) from error
    output = console()
    output.print(f"{place} is a workspace{' already; its schemas are new' if again else ''}", soft_wrap=True)
    output.print("  scenarios/  yours, by their names below this folder; 'harness list' has them beside the program's")
    output.print("  images/     your implementations: a folder each, with image.yaml")
    output.print("  results/    runs, figures and sites")
    output.print("try next:")
    move = "" if place == Path.cwd() else f"cd {folder} && "
    for command in ("list", "plan satellite/medium --clients picoquic --servers picoquic --engine virtual"):
        output.print(f"  {move}harness {command}", soft_wrap=True)
