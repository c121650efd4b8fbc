"""The command line: arguments and exit codes; nothing else.

A command is thin: it reads its arguments, calls the code that does the work, and prints. Commands share `options`
(declarations of arguments, and what they mean), `stored` (selection of stored runs, and the arguments for it),
`completion` (proposals of the shell), `environment` (variables and folders), `consoles` (output) and `signals`
(interrupts and exit codes). A command imports what it needs when it runs, so that `harness --help` is quick.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.cli.entry import cli, main

__all__ = ["cli", "main", "program"]


def program() -> None:
    """The program `harness`. It sets up signals first, and then loads everything else."""
    from harness.cli.signals import install_exit_handlers

    install_exit_handlers()
    from harness.cli.entry import main

    main()


def __getattr__(name: str) -> Any:
    if name not in ("cli", "main"):
        raise AttributeError(name)
    from harness.cli import entry

    return getattr(entry, name)
