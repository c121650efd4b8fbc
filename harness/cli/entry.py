"""All commands as one program, and what becomes of what they raise."""

from __future__ import annotations

import codecs
import errno
import functools
import gc
import itertools
import os
import re
import shlex
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from harness.cli.cluster import cluster
from harness.cli.completion import whole_words
from harness.cli.consoles import complain, print_text
from harness.cli.environment import ROOT, version
from harness.cli.gate import gate
from harness.cli.images import images
from harness.cli.inspect import explain, lab, list_, schema, validate
from harness.cli.maintain import cache, clean, prune
from harness.cli.quality import check, digests, divergence, equivalent, verify
from harness.cli.report import reports
from harness.cli.results import compare, judge, measure, merge, plot
from harness.cli.run import plan, reach, run
from harness.cli.signals import FAULT, INTERRUPTED, MET, UNREAD, ends_in_order
from harness.errors import HarnessError, InputError, did_you_mean, disk_error, reason

# --- An exception that nobody expected: one line for people, and a log with where it happened.


def fault(error: Exception) -> HarnessError:
    """What to say of it; its traceback goes into a file."""
    said = f"the harness itself failed: {reason(error)}"
    file = ROOT / ".state" / f"fault-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.log"
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join([f"{shlex.join(sys.argv)}\n\n", *traceback.format_exception(error)]))
    except OSError:
        return HarnessError(said, "HARNESS_DEBUG=1 shows where")
    return HarnessError(said, f"{file} says where; finished runs are kept")


# --- What a command is started in: closed streams, encodings of few letters, no width, a folder that is gone.


#: What stands for a letter that the output's encoding has not; of any other a question mark.
_INSTEAD = {
    "→": "->", "←": "<-", "–": "-", "—": "-", "…": "...", "≤": "<=", "≥": ">=", "✓": "+", "✗": "x", "✕": "x", "●": "o",
    "★": "*", "×": "x", "·": "-", "↓": "v", "‡": "#", "█": "#", "“": '"', "”": '"', "’": "'",
}  # fmt: skip
#: By this name Python knows how such letters are written.
_HANDLER = "quic-lab"
_WIDTH = re.compile("[1-9][0-9]{0,4}")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_INSTEAD.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def settle() -> None:
    """Make of the streams and the width something that a command can print to."""
    codecs.register_error(_HANDLER, _plain)
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The next file to be opened would have its number, and take what is printed.
            os.open(os.devnull, os.O_RDWR)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_HANDLER)
    for name in ("COLUMNS", "LINES"):
        if not _WIDTH.fullmatch(os.environ.get(name, "1")):
            del os.environ[name]


def require_folder() -> None:
    """InputError where the folder that a command is started in has been removed: no name in it means anything."""
    try:
        Path.cwd()
    except OSError as error:
        raise InputError("the folder that this command is started in is gone", "'cd' to one that is there") from error


class UnreadError(Exception):
    """Whoever read what is printed has closed the pipe: 'harness list | head'."""


def is_broken_pipe(error: OSError) -> bool:
    """Whether nobody reads what was written on."""
    return error.errno in (errno.EPIPE, errno.ESHUTDOWN)


def fall_silent() -> None:
    """Print nothing any more: what is left in a closed pipe's buffer would be complained of at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(nowhere, stream.fileno())


# --- entry


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
