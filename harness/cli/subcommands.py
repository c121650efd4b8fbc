"""A command that has commands below it, and arguments of its own in the same place."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class WithSubcommands(TyperGroup):
    """Takes the first word for a command where it names one, and else for an argument of its own.

    Options may stand on either side of the word, as in `report --json metrics`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave in `ctx.args` a command's name and its words; nothing where there is none."""
        # A parser of a group stops at the first word, and leaves it and what follows to the arguments.
        found, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        (argument,) = (one.name for one in self.params if one.param_type_name == "argument")
        words = list(found.get(argument) or ())
        if not words or words[0] not in self.commands:
            ctx.allow_interspersed_args = True
            return super().parse_args(ctx, args)
        super().parse_args(ctx, [])
        left = [words[0], *args[: len(args) - len(words)], *words[1:]]
        ctx.args = left
        return left

    def invoke(self, ctx: Any) -> Any:
        """Call the command that was named, or what the group itself does."""
        if not ctx.args:
            return super().invoke(ctx)
        name, *args = ctx.args
        # Below the group's own parent: its usage line then shows no arguments of the group.
        with self.commands[name].make_context(f"{ctx.info_name} {name}", args, parent=ctx.parent) as below:
            return below.command.invoke(below)
