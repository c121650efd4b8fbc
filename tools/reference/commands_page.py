"""docs/commands.md: every command with its arguments and options, from the declarations of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from harness.cli.workspace import ROOT
from harness.report.markdown import table_row

_HEAD = """# Commands

```console
$ harness COMMAND --help
```

prints the same for one command. This page is generated from [`harness/cli`](../harness/cli) (`make generate`).
[Use](use.md) has the tasks and the [exit codes](use.md#exit-codes).
"""
#: What stands for a value of a type, in a usage line or a table.
_PLACES = {Path: "PATH", int: "N", float: "NUMBER", str: "TEXT"}


def commands_page(program: Any) -> str:
    """The page of a Click group: a part for each command, hidden ones left out."""
    parts = [_HEAD, _options("harness", program)]
    parts += [_section(name, command) for name, command in _commands(program, "harness")]
    return "\n".join(part for part in parts if part)


def _commands(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.commands[name]
        if command.hidden:
            continue
        yield f"{prefix} {name}", command
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix} {name}")


def _section(name: str, command: Any) -> str:
    below = hasattr(command, "commands")
    words = [name, *(f"[{parameter.name}]" for parameter in _arguments(command)), *(["COMMAND"] if below else [])]
    words += ["[OPTIONS]"] if len(_listed(command)) > len(_arguments(command)) else []
    # Lines of a docstring are wrapped, and its paragraphs are not.
    paragraphs = [" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n")]
    usage = f"```\n{' '.join(words)}\n```\n"
    return "\n".join([f"## {name}", "", usage, *(f"{text}\n" for text in paragraphs), _options(name, command)])


def _arguments(command: Any) -> list[Any]:
    return [parameter for parameter in _listed(command) if not parameter.opts[0].startswith("-")]


def _listed(command: Any) -> list[Any]:
    return [parameter for parameter in command.params if not parameter.hidden]


def _options(name: str, command: Any) -> str:
    listed = _listed(command)
    if not listed:
        return ""
    lines = [table_row([f"`{name}`", "value", "by default", "meaning"]), table_row(["---"] * 4)]
    lines += [
        table_row([_names(parameter), _value(parameter), _default(parameter), " ".join((parameter.help or "").split())])
        for parameter in listed
    ]
    return "\n".join(lines) + "\n"


def _names(parameter: Any) -> str:
    words = [*parameter.opts, *parameter.secondary_opts]
    return ", ".join(f"`{word}`" for word in words)


def _value(parameter: Any) -> str:
    """What an option takes; empty for a switch."""
    if getattr(parameter, "is_bool_flag", False) or getattr(parameter, "is_flag", False):
        return ""
    if parameter.metavar:
        return f"`{parameter.metavar}`"
    kind = _plain_type(parameter.type_descriptor.annotation)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{member.value}`" for member in kind)
    return f"`{_PLACES.get(kind, 'TEXT')}`"


def _plain_type(annotation: Any) -> Any:
    """The type of one value: list[Path] | None → Path."""
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(kind for kind in get_args(annotation) if kind is not NoneType)
    return get_args(annotation)[0] if get_origin(annotation) is list else annotation


def _default(parameter: Any) -> str:
    """The default, where there is one to speak of."""
    value = parameter.default
    if value is None or value is False or value == "" or callable(value):
        return "required" if parameter.required else ""
    if value is True:
        return "on"
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, Path) and value.is_relative_to(ROOT):
        value = value.relative_to(ROOT)
    return f"`{value}`"
