"""`harness reach`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from harness.cli.asking import Asking, taking
from harness.cli.consoles import console, print_view
from harness.cli.interrupts import heard, interrupted
from harness.errors import InputError


@dataclass(frozen=True)
class AskingForSettings(Asking):
    """The words of `run`, and how far the search may go."""

    budget: Annotated[
        int, typer.Option("--budget", help="Sets of settings that may be tried for each pair.", min=1, max=10000)
    ] = 60
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown on stdout.")] = False


@taking(AskingForSettings)
def reach(asking: AskingForSettings) -> None:
    """Search a study's factors for the fewest settings with which each pair meets all objectives of its scenario.

    What is stored counts; what is missing is run. The same command goes on where it was stopped, and a larger budget
    where a smaller one ended.
    """
    from harness.doe.settings_search import reach as search
    from harness.report import reach as view
    from harness.report.progress import Talk

    if asking.shard or asking.html is not None:
        raise InputError("a search has no shards, and no site", "leave --shard and --html out")
    app = asking.open()
    request, options = asking.request(app), asking.options()
    words_to = console()
    talk = Talk(words_to)

    def say(text: str) -> None:
        words_to.print(text, soft_wrap=True, markup=False)

    try:
        with talk, heard(talk.interrupted, app.end_hard):
            made = search(app, request, options, asking.budget, talk, say)
    except KeyboardInterrupt:
        raise interrupted() from None
    print_view(view, made, markdown=asking.markdown, as_json=asking.as_json)
