"""`harness plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.cli.asking import AskingForShards, taking
from harness.cli.consoles import console, print_json, print_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.execution.matrix import PlannedRun, SharedOut
    from harness.outcome import Cell


@taking(AskingForShards)
def plan(asking: AskingForShards) -> None:
    """Print the runs a request amounts to, which of them are stored, how long the rest takes and what of the disk.

    Takes the words of `run`; those that say what becomes of results change nothing here, but for --artefacts.
    """
    from harness.execution.disk_estimate import DiskUse
    from harness.execution.matrix import UntilDecided, designs, named, points_of
    from harness.execution.repetitions import Repetitions
    from harness.formatting import size_of
    from harness.report import design, json_report
    from harness.report.progress import span

    app = asking.open()
    # What would be refused by 'harness run' is refused here.
    asking.options()
    request = asking.request(app)
    matrix = app.matrix(request, lambda event: None, pull=False)
    studies = designs(request, {name: app.inventory.named(name) for name in named(points_of(request))})
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
    disk = DiskUse(app.store, asking.artefacts.value, app.cache.www)
    need, free = disk.need(todo, beside), disk.free()
    shards = _shards(asking.shards or 0, todo, experience.expected)
    if asking.as_json:
        room = {
            "least": need.least,
            "stay": need.stay,
            "meanwhile": need.meanwhile,
            "served": need.served,
            "free": free,
        }
        designed = {"studies": design.report(studies)} if studies else {}
        print_json(json_report.plan(planned, done, seconds, room, shards) | designed)
        return
    for item in planned:
        state = "stored" if (item.cell.key, item.repetition) in done else "to run"
        cell = item.cell
        extra = " ".join(f"{name}={value}" for name, value in cell.parameters.items())
        pair = f"{cell.client.name}→{cell.server.name}"
        print_text(f"{cell.key} {item.repetition:3} {state:7} {cell.scenario.name} {pair} {extra}".rstrip())
    for line in design.lines(studies):
        print_text(line)
    undecided = isinstance(request.repetitions, UntilDecided) and len(done) < len(planned)
    more = ", then more until the objectives are decided" if undecided else ""
    minutes = f"about {span(seconds / max(1, min(beside, len(todo))))} to run" + (
        f", {beside} at a time" if beside > 1 else ""
    )
    console().print(
        f"{len(matrix)} cells, {len(planned)} runs, {len(done)} stored, {minutes} (builds not counted){more}",
        soft_wrap=True,
    )
    for one in shards:
        print_text(
            f"shard {one.shard}: {one.cells} cells, {one.runs} runs to do, about {span(one.seconds)} on one core"
        )
    if todo:
        fits = ""
        if (found := disk.fits(need)) is False:
            fits = ": they do not fit, and 'harness run' would refuse them"
        elif found is None:
            fits = ": where too many of them fail, that will not do"
        console().print(f"{need.text}; {size_of(free)} are free{fits}", soft_wrap=True)


def _shards(count: int, todo: Sequence[PlannedRun], expected: Callable[[Cell], float]) -> list[SharedOut]:
    """What each of so many shards has to do."""
    from harness.evaluation.cell_result import point_of
    from harness.execution.matrix import Shard, SharedOut

    found = []
    for number in range(1, count + 1):
        shard = Shard(number, count)
        mine = [item for item in todo if shard.takes(point_of(item.cell))]
        seconds = sum(expected(item.cell) for item in mine)
        found.append(SharedOut(f"{number}/{count}", len({item.cell.key for item in mine}), len(mine), seconds))
    return found
