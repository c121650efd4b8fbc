"""All commands as one program, and what happens to the exceptions that they raise."""

from __future__ import annotations

import atexit
import codecs
import errno
import functools
import gc
import importlib
import itertools
import os
import re
import shlex
import sys
import time
import traceback
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from harness.cli.completion import join_split_words
from harness.cli.consoles import print_error, print_text
from harness.cli.environment import require_linux, state_folder, version
from harness.cli.signals import CLOSED_PIPE, FAULT, INTERRUPTED, MET, raise_on_signal
from harness.cli.workspace import require_checkout, require_workspace
from harness.errors import HarnessError, InputError, describe_error, did_you_mean, disk_error

# --- An unexpected exception: one line for people, and a log with its traceback.


def fault_error(error: Exception) -> HarnessError:
    """The error for an unexpected exception. Its traceback goes into a file."""
    message = f"the harness itself failed: {describe_error(error)}"
    file = state_folder() / f"fault-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.log"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join([f"{shlex.join(sys.argv)}\n\n", *traceback.format_exception(error)]))
    except OSError:
        return HarnessError(message, "HARNESS_DEBUG=1 shows where")
    return HarnessError(message, f"{file} says where; finished runs are kept")


# --- The environment of a command: closed streams, encodings that lack letters, no width, a removed folder.


#: Replacements for letters that the output's encoding lacks. All others become a question mark.
_REPLACEMENTS = {
    "→": "->",
    "←": "<-",
    "–": "-",
    "—": "-",
    "…": "...",
    "≤": "<=",
    "≥": ">=",
    "✓": "+",
    "✗": "x",
    "✕": "x",
    "●": "o",
    "★": "*",
    "×": "x",
    "·": "-",
    "↓": "v",
    "‡": "#",
    "█": "#",
    "“": '"',
    "”": '"',
    "’": "'",
}
#: Name of the error handler that writes the replacements.
_ERROR_HANDLER = "quic-lab"
_WIDTH = re.compile("[1-9][0-9]{0,4}")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_REPLACEMENTS.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def prepare_streams() -> None:
    """Prepare streams and width, so that a command can print: open closed streams, remove an invalid width."""
    codecs.register_error(_ERROR_HANDLER, _plain)
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file to be opened would get this number, and receive the output.
            os.open(os.devnull, os.O_RDWR)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_ERROR_HANDLER)
    for name in ("COLUMNS", "LINES"):
        if not _WIDTH.fullmatch(os.environ.get(name, "1")):
            del os.environ[name]


def require_working_directory() -> None:
    """InputError where the working directory has been removed: no relative path means anything then."""
    try:
        Path.cwd()
    except OSError as error:
        raise InputError("the folder that this command is started in is gone", "'cd' to one that is there") from error


class ClosedPipeError(Exception):
    """The reader of the output has closed the pipe: 'harness list | head'."""


def is_broken_pipe(error: OSError) -> bool:
    """Whether an error says that the reader of the output has gone."""
    return error.errno in (errno.EPIPE, errno.ESHUTDOWN)


def silence_output() -> None:
    """Print nothing any more. Else Python would report an error for the rest of a closed pipe's buffer."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(nowhere, stream.fileno())


# --- entry


#: Name → module and name of the command there, in the order of the help. A Typer has commands below it.
COMMANDS = {
    "init": "harness.cli.workspace:init",
    "list": "harness.cli.inspect:list_",
    "images": "harness.cli.images:images",
    "validate": "harness.cli.inspect:validate",
    "explain": "harness.cli.inspect:explain",
    "schema": "harness.cli.inspect:schema",
    "plan": "harness.cli.run:plan",
    "run": "harness.cli.run:run",
    "reach": "harness.cli.run:reach",
    "why": "harness.cli.run:why",
    "history": "harness.cli.releases:history",
    "bisect": "harness.cli.releases:bisect",
    "report": "harness.cli.report:reports",
    "interop": "harness.cli.interop:interop",
    "compare": "harness.cli.results:compare",
    "gate": "harness.cli.gate:gate",
    "merge": "harness.cli.results:merge",
    "plot": "harness.cli.results:plot",
    "measure": "harness.cli.results:measure",
    "judge": "harness.cli.results:judge",
    "lab": "harness.cli.inspect:lab",
    "prune": "harness.cli.maintain:prune",
    "cache": "harness.cli.maintain:cache",
    "clean": "harness.cli.maintain:clean",
    "check": "harness.cli.quality:check",
    "cluster": "harness.cli.cluster:cluster",
    "divergence": "harness.cli.quality:divergence",
    "verify": "harness.cli.quality:verify",
    "equivalent": "harness.cli.quality:equivalent",
}
#: For people who work on the repository; the help does not show them.
HIDDEN = {"digests": "harness.cli.quality:digests"}
#: Those that need Linux for more than to read: they run labs, build images for them, or change what is there.
LINUX_COMMANDS = frozenset(
    (
        "images",
        "run",
        "reach",
        "why",
        "history",
        "bisect",
        "merge",
        "clean",
        "check",
        "cluster",
        "divergence",
        "verify",
        "equivalent",
    )
)


class CommandGroup(TyperGroup):
    """Commands. Bad arguments become errors with hints, like all other errors."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse options with an empty value."""
        for word, after in itertools.pairwise([*args, "-"]):
            if re.fullmatch(r"--[\w-]+", word) and after == "":
                raise _empty_value_error(word)
            if re.fullmatch(r"--[\w-]+=", word):
                raise _empty_value_error(word[:-1])
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Call the command. Exceptions of Click and of the disk become errors of this project."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if error.__cause__ is None:
                raise
            raise _invalid_value_error(error) from error
        except OSError as error:
            if not is_broken_pipe(error):
                raise
            # Click would end with exit code 1, which is that of a failed verdict.
            raise ClosedPipeError from error


class _Commands(UserDict[str, Any]):
    """Name → Click command, made on first access: to inspect the arguments of all commands takes 0.2 s of CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.data.update(dict.fromkeys((*COMMANDS, *HIDDEN)))

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _make_command(name)
        return self.data[name]


def load_command(name: str) -> Callable[..., None] | typer.Typer:
    """The function of a command, or the Typer with the commands below it."""
    module, _, attribute = (COMMANDS | HIDDEN)[name].partition(":")
    command: Callable[..., None] | typer.Typer = getattr(importlib.import_module(module), attribute)
    return command


def _make_command(name: str) -> Any:
    group, command = create_program(name), load_command(name)
    # With a callback Typer makes a group of it, however few commands it has.
    group.callback()(lambda: None)
    if isinstance(command, typer.Typer):
        group.add_typer(command, name=name)
    else:
        group.command(name, hidden=name in HIDDEN)(command)
    click_group: Any = get_command(group)
    return click_group.commands[name]


class _OrderedCommands(CommandGroup):
    """The commands of `harness`, in the order of COMMANDS."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.commands = _Commands()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Refuse at once what this machine cannot do."""
        if args[0] in LINUX_COMMANDS and not {"-h", "--help"}.intersection(args):
            require_linux(args[0])
            require_workspace(args[0])
            if args[0] == "equivalent" or (args[0] == "verify" and "--reference" not in " ".join(args)):
                require_checkout(args[0])
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, of which none is loaded."""
        return [*self.commands]


def _empty_value_error(option: str) -> HarnessError:
    """The error for an option with an empty value, as from a script with an unset variable."""
    return InputError(f"{option}: its value is empty", "give it one, or leave the option out")


def _invalid_value_error(error: typer.BadParameter) -> HarnessError:
    """The error for a value that Typer refuses, in the same words as all other errors."""
    from pydantic import ValidationError

    from harness.scenario.validation_errors import find_mistakes

    cause = error.__cause__
    if not isinstance(cause, ValidationError) or error.param is None:
        return InputError(error.message, "--help says what there is")
    mistake = find_mistakes(cause, None)[0]
    name = max([*error.param.opts, ""], key=len)
    value = str(cause.errors()[0]["input"])
    choices = re.findall("'([^']*)'", mistake.text.partition(" one of ")[2])
    hint = did_you_mean(value, choices) if choices else mistake.hint or "--help says what there is"
    return InputError(f"{name} {value}: {mistake.text.rstrip('.')}", hint)


def create_program(
    name: str, group: type[TyperGroup] | None = None, *, no_args_is_help: bool = False, completion: bool = False
) -> typer.Typer:
    """An empty program with the settings that all programs of this repository share; `run_program` runs it.

    `group`: the class of its group of commands; None for a single command.
    """
    return typer.Typer(
        name=name,
        cls=group,
        no_args_is_help=no_args_is_help,
        pretty_exceptions_enable=False,
        add_completion=completion,
        # Commands take it from here.
        context_settings={"help_option_names": ["-h", "--help"]},
    )


cli = create_program("harness", _OrderedCommands, no_args_is_help=True, completion=True)


def _print_version(requested: bool) -> None:
    if requested:
        print_text(version())
        raise typer.Exit(MET)


@cli.callback()
def harness(
    shown: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """QUIC over long, lossy and shared paths: real implementations, real queues, verdicts."""


@functools.cache
def program() -> Any:
    """All commands as one Click command, made once."""
    return get_command(cli)


#: Thresholds of the garbage collector's three generations (gc.set_threshold).
_GC_THRESHOLDS = 500_000, 20, 20
#: What polars passes on to its allocator, jemalloc: freed memory is returned at once. Else what a table took to read,
#: 40 MB for that of the reference's runs, stays beside what is made of it.
_ALLOCATOR_OPTIONS = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:0"}


def main() -> None:
    """Entry point of `harness`."""
    run_program(program, "harness")


def run_program(command: Callable[[], Any], name: str) -> None:
    """Run a Click command and end the process: errors become one message, a hint and an exit code."""
    # Packets of a capture stay in memory until a run is measured, stored runs until a command ends. To collect garbage
    # among them takes a tenth of that, and after a report another 0.2 s while the interpreter ends.
    gc.set_threshold(*_GC_THRESHOLDS)
    atexit.register(gc.freeze)
    os.environ.update(_ALLOCATOR_OPTIONS)
    prepare_streams()
    try:
        require_working_directory()
        try:
            with raise_on_signal(), join_split_words():
                command()(prog_name=name)
        finally:
            # Here an error of the disk or a closed pipe can still be reported.
            sys.stdout.flush()
    except ClosedPipeError:
        silence_output()
        sys.exit(CLOSED_PIPE)
    except HarnessError as error:
        if os.environ.get("HARNESS_DEBUG"):
            raise
        print_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        if os.environ.get("HARNESS_DEBUG"):
            raise
        if is_broken_pipe(error):
            silence_output()
            sys.exit(CLOSED_PIPE)
        failure = disk_error(error, Path("standard output"))
        print_error(failure)
        sys.exit(failure.exit_code)
    except Exception as error:
        if os.environ.get("HARNESS_DEBUG"):
            raise
        print_error(fault_error(error))
        sys.exit(FAULT)
