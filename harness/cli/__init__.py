"""The command line: arguments and exit codes; nothing else.

A file a command, each thin: it reads its words, calls what does the work, and prints. What commands share is in
`options` and `asking` (their declarations), `words` (what they say), `stored` (what they name of a store), `completion`
(what a shell proposes), `environment` (variables and places), `consoles` (where text goes), `interrupts` and `exits`.
What a command needs is imported when it runs, so that `harness --help` waits for nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.cli.entry import cli, main

__all__ = ["cli", "main", "program"]


def program() -> None:
    """The program `harness`: heeds signals first, and loads everything else then."""
    from harness.cli.signals import end_at_once

    end_at_once()
    from harness.cli.entry import main

    main()


def __getattr__(name: str) -> Any:
    if name not in ("cli", "main"):
        raise AttributeError(name)
    from harness.cli import entry

    return getattr(entry, name)
