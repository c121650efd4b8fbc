"""`harness run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from harness.cli.asking import Asking, taking
from harness.cli.comparisons import draw_comparisons
from harness.cli.consoles import console, paper, print_json
from harness.cli.environment import cores
from harness.cli.exits import INTERRUPTED, exit_code
from harness.cli.interrupts import heard, interrupted
from harness.cli.sites import write_site
from harness.errors import reason

if TYPE_CHECKING:
    from harness.evaluation.cell_result import CellResult
    from harness.execution import App
    from harness.execution.events import Listener


#: Runs that are looked at for one that can be drawn: of some that broke early there is nothing to see.
_TRIES = 5


@taking(Asking)
def run(asking: Asking) -> None:
    """Run what is not stored yet, print the verdicts, and draw figures: of flows that share a path, or of the worst
    download.
    """
    from harness.execution.build_failures import UnbuiltError
    from harness.report import json_report, moves, table
    from harness.report.progress import Talk

    app = asking.open()
    request = asking.request(app)
    options = asking.options()
    if asking.html is not None:
        from harness.report.site.build import require_ours

        # Rather now than after hours of runs.
        require_ours(asking.html)
    talk = Talk(console())
    unbuilt: UnbuiltError | None = None
    try:
        with talk, heard(talk.interrupted, app.end_hard):
            results = app.run(request, options, talk)
    except UnbuiltError as error:
        unbuilt, results = error, error.results
    except KeyboardInterrupt:
        raise interrupted() from None
    if asking.as_json:
        print_json(json_report.report(results))
    else:
        table.show(results, paper())
        if handovers := moves.moved(results):
            moves.show(handovers, paper())
    if asking.draw:
        draw_comparisons(results, app.store.root / "figures")
        _draw_figures(app, results, asking.jobs or cores(), talk)
    if asking.html is not None:
        console().print(write_site(app, results, asking.html), soft_wrap=True)
    if unbuilt is not None:
        raise unbuilt
    raise typer.Exit(exit_code(results, strict=asking.strict))


def _draw_figures(app: App, results: list[CellResult], processes: int, listen: Listener) -> None:
    """Draw what is not drawn yet of a finished `run`. Nothing that goes wrong here costs its runs and verdicts."""
    from harness.execution.events import Warned
    from harness.report.plots.shared import telling_runs, with_figures

    chosen, telling = with_figures(results), telling_runs(results)
    target, talk = app.store.root / "figures", console()
    if not chosen and not telling:
        return
    sys.stdout.flush()
    try:
        from harness.report.plots.missing import draw_missing, draw_transfer

        # One of many: to look at them all there is `harness plot`.
        for result, one, measured in telling[:_TRIES]:
            file = draw_transfer(app.store, one, measured, target, app.places.cache)
            if file is not None:
                name = f"{result.cell.scenario.name} {result.name} #{one.repetition}"
                talk.print(_linked(f"{name} over time: {file}", file), soft_wrap=True)
                talk.print(f"  harness plot {one.name} draws it as a page and as PNG, too", soft_wrap=True)
                break
        if chosen:
            made = draw_missing(
                app.store, chosen, app.results.find, target, app.places.cache, processes,
                lambda text: talk.print(text, soft_wrap=True),
            )  # fmt: skip
            for problem in made.problems():
                listen(Warned(problem))
            talk.print(_linked(made.sentence(str(target)), target), soft_wrap=True)
    except KeyboardInterrupt:
        said = "interrupted while drawing; all runs are stored, and the same command draws the rest"
        talk.print(said, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:  # whatever it is, the verdicts stand
        listen(Warned(f"no figures: {reason(error)}"))


def _linked(sentence: str, place: Path) -> Text:
    """A sentence for a console, which opens the path in it on a click where it can."""
    text = Text(sentence)
    text.highlight_words([str(place)], f"link {place.resolve().as_uri()}")
    return text
