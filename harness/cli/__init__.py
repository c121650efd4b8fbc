"""The command line: arguments and exit codes; nothing else.

A command is thin: it reads its arguments, calls the code that does the work, and prints. Commands share `options`
(declarations of arguments, and what they mean), `stored` (selection of stored runs, and the arguments for it),
`completion` (proposals of the shell), `environment` (variables and folders), `consoles` (output) and `signals`
(interrupts and exit codes). A command imports what it needs when it runs, so that `harness --help` is quick.
"""

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.cli.entry import cli, main

__all__ = ["cli", "main", "program"]


def program() -> None:
    """The program `harness`. It sets up signals first, and then loads everything else.

    Python on Windows lacks modules that almost everything here imports (fcntl), so nothing else is imported there.
    """
    if os.name != "posix":
        print("error: the harness needs Linux, and this is Windows: here it works in a container", file=sys.stderr)
        print("hint: docs/where-it-runs.md has the command; WSL 2 has a Linux of its own", file=sys.stderr)
        raise SystemExit(3)
    from harness.cli.signals import install_exit_handlers

    install_exit_handlers()
    from harness.cli.entry import main

    main()


def __getattr__(name: str) -> Any:
    if name not in ("cli", "main"):
        raise AttributeError(name)
    from harness.cli import entry

    return getattr(entry, name)
