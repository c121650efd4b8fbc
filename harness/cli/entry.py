"""All commands as one program, and what becomes of what they raise."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from harness.cli.cache import cache
from harness.cli.check import check
from harness.cli.clean import clean
from harness.cli.cluster import cluster
from harness.cli.compare import compare
from harness.cli.completion import whole_words
from harness.cli.consoles import complain, print_text
from harness.cli.digests import digests
from harness.cli.divergence import divergence
from harness.cli.environment import version
from harness.cli.equivalent import equivalent
from harness.cli.exits import FAULT, INTERRUPTED, MET, UNREAD
from harness.cli.explain import explain
from harness.cli.faults import fault
from harness.cli.gate import gate
from harness.cli.images import images
from harness.cli.judge import judge
from harness.cli.lab import lab
from harness.cli.list import list_
from harness.cli.measure import measure
from harness.cli.merge import merge
from harness.cli.plan import plan
from harness.cli.plot import plot
from harness.cli.prune import prune
from harness.cli.reach import reach
from harness.cli.report import reports
from harness.cli.run import run
from harness.cli.schema import schema
from harness.cli.signals import ends_in_order
from harness.cli.surroundings import UnreadError, fall_silent, is_broken_pipe, require_folder, settle
from harness.cli.validate import validate
from harness.cli.verify import verify
from harness.errors import HarnessError, InputError, did_you_mean, disk_error

#: Name → command, in the order of the help. A Typer has commands below it.
COMMANDS: dict[str, Callable[..., None] | typer.Typer] = {
    "list": list_, "images": images, "validate": validate, "explain": explain, "schema": schema, "plan": plan,
    "run": run, "reach": reach, "report": reports, "compare": compare, "gate": gate, "merge": merge, "plot": plot,
    "measure": measure, "judge": judge, "lab": lab, "prune": prune, "cache": cache, "clean": clean, "check": check,
    "cluster": cluster, "divergence": divergence, "verify": verify, "equivalent": equivalent,
}  # fmt: skip
#: For whoever works on the repository; the help does not show them.
HIDDEN: dict[str, Callable[..., None]] = {"digests": digests}


class CommandGroup(TyperGroup):
    """Commands whose bad words end in errors with hints, as everything else does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse options with nothing in them."""
        for word, after in itertools.pairwise([*args, "-"]):
            if re.fullmatch(r"--[\w-]+", word) and after == "":
                raise _empty(word)
            if re.fullmatch(r"--[\w-]+=", word):
                raise _empty(word[:-1])
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Call the command; what Click and the disk raise becomes an error of this project's."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if error.__cause__ is None:
                raise
            raise _unfit(error) from error
        except OSError as error:
            if not is_broken_pipe(error):
                raise
            # Click would end with 1, which is the code of a verdict.
            raise UnreadError from error


class _InOrder(CommandGroup):
    """Typer lists commands first and then those that have commands below them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *HIDDEN]


def _empty(option: str) -> HarnessError:
    """An option with nothing in it, as of a script whose variable is not set: it would mean something else."""
    return InputError(f"{option}: its value is empty", "give it one, or leave the option out")


def _unfit(error: typer.BadParameter) -> HarnessError:
    """What Typer says of a value in pydantic's words, in those of all other errors."""
    from pydantic import ValidationError

    from harness.scenario.validation_errors import mistakes_in

    cause = error.__cause__
    if not isinstance(cause, ValidationError) or error.param is None:
        return InputError(error.message, "--help says what there is")
    found = mistakes_in(cause, None)[0]
    name = max([*error.param.opts, ""], key=len)
    given = str(cause.errors()[0]["input"])
    choices = re.findall("'([^']*)'", found.text.partition(" one of ")[2])
    hint = did_you_mean(given, choices) if choices else found.hint or "--help says what there is"
    return InputError(f"{name} {given}: {found.text.rstrip('.')}", hint)


cli = typer.Typer(
    name="harness",
    cls=_InOrder,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    # Commands take it from here.
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print_text(version())
        raise typer.Exit(MET)


@cli.callback()
def harness(
    shown: Annotated[
        bool,
        typer.Option("--version", help="Print the version and end.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """QUIC over long, lossy and shared paths: real implementations, real queues, verdicts."""


for _name, _command in COMMANDS.items():
    if isinstance(_command, typer.Typer):
        cli.add_typer(_command, name=_name)
    else:
        cli.command(_name)(_command)
for _name, _command in HIDDEN.items():
    cli.command(_name, hidden=True)(_command)


@functools.cache
def program() -> Any:
    """All commands as one, made once: to look through what each of them takes is most of what a short one costs."""
    return get_command(cli)


#: New objects after which garbage is looked for, and how often older ones are looked through, too.
_GARBAGE = 100_000, 20, 20


def main() -> None:
    """Entry point of `harness`."""
    run_program(program, "harness")


def run_program(command: Callable[[], Any], name: str) -> None:
    """Run a command of Click's and end the process: errors become one message, a hint and an exit code."""
    # What was read of captures lives until a run is measured: looking through it again and again is a tenth of it.
    gc.set_threshold(*_GARBAGE)
    settle()
    try:
        require_folder()
        try:
            with ends_in_order(), whole_words():
                command()(prog_name=name)
        finally:
            # While what the disk or the reader says to it can still be told.
            sys.stdout.flush()
    except UnreadError:
        fall_silent()
        sys.exit(UNREAD)
    except HarnessError as error:
        if os.environ.get("HARNESS_DEBUG"):
            raise
        complain(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        if os.environ.get("HARNESS_DEBUG"):
            raise
        if is_broken_pipe(error):
            fall_silent()
            sys.exit(UNREAD)
        refused = disk_error(error, Path("standard output"))
        complain(refused)
        sys.exit(refused.exit_code)
    except Exception as error:
        if os.environ.get("HARNESS_DEBUG"):
            raise
        complain(fault(error))
        sys.exit(FAULT)
