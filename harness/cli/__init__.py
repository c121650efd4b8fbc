"""The command line: arguments and exit codes; nothing else.

A file a command, each thin: it reads its words, calls what does the work, and prints. What commands share is in
`options` and `asking` (their declarations), `words` (what they say), `stored` (what they name of a store), `completion`
(what a shell proposes), `environment` (variables and places), `consoles` (where text goes), `interrupts` and `exits`.
What a command needs is imported when it runs, so that `harness --help` waits for nothing.
"""

from harness.cli.entry import cli, main

__all__ = ["cli", "main"]
