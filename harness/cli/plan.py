"""`harness plan`."""

from __future__ import annotations

from harness.cli.asking import Asking, taking
from harness.cli.consoles import console, print_json, print_text
from harness.cli.environment import open_app


@taking
def plan(asking: Asking) -> None:
    """Print the runs a request amounts to, which of them are stored, how long the rest takes and what of the disk.

    Takes the words of `run`; those that say what becomes of results change nothing here, but for --artefacts.
    """
    from harness.app.disk import DiskUse
    from harness.plan import UntilDecided
    from harness.progress import span
    from harness.repetitions import Repetitions
    from harness.reports import json_report
    from harness.text import size_of

    app = open_app(asking.store, asking.manifest)
    request = asking.request(app)
    matrix = app.matrix(request, lambda event: None, pull=False)
    series = Repetitions(matrix, request.repetitions, app.results.of)
    done = set() if asking.fresh else app.results.done(series.possible(), asking.again)
    # Of cells that go on until they are decided, what is asked for as things are.
    series.first(done)
    planned = [item for item in series.possible() if item.repetition < series.reached(item.cell)]
    done &= {(item.cell.key, item.repetition) for item in planned}
    todo = [item for item in planned if (item.cell.key, item.repetition) not in done]
    experience = app.experience(matrix)
    seconds = sum(experience.expected(item.cell) for item in todo)
    beside = asking.beside
    disk = DiskUse(app.store, asking.artefacts.value)
    need, free = disk.need(todo, beside), disk.free()
    if asking.as_json:
        room = {"least": need.least, "stay": need.stay, "meanwhile": need.meanwhile, "free": free}
        print_json(json_report.plan(planned, done, seconds, room))
        return
    for item in planned:
        state = "stored" if (item.cell.key, item.repetition) in done else "to run"
        cell = item.cell
        extra = " ".join(f"{name}={value}" for name, value in cell.parameters.items())
        pair = f"{cell.client.name}→{cell.server.name}"
        print_text(f"{cell.key} {item.repetition:3} {state:7} {cell.scenario.name} {pair} {extra}".rstrip())
    undecided = isinstance(request.repetitions, UntilDecided) and len(done) < len(planned)
    more = ", then more until the objectives are decided" if undecided else ""
    minutes = f"about {span(seconds / max(1, min(beside, len(todo))))} to run" + (
        f", {beside} at a time" if beside > 1 else ""
    )
    console().print(
        f"{len(matrix)} cells, {len(planned)} runs, {len(done)} stored, {minutes} (builds not counted){more}",
        soft_wrap=True,
    )
    if todo:
        fits = ""
        if need.least + need.meanwhile > free:
            fits = ": they do not fit, and 'harness run' would refuse them"
        elif need.stay + need.meanwhile > free:
            fits = ": where too many of them fail, that will not do"
        console().print(f"{need.text}; {size_of(free)} are free{fits}", soft_wrap=True)
