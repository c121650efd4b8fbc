"""What is generated into the repository: schemas, compose/, and the pages and figures about the reference runs.

Nothing here writes. `generate` and `figures` of `python -m tools.reference` do, and a test holds the files against
these texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from harness.catalogue import json_schema
from harness.cli.entry import program
from harness.doe.interventions import Explained, stored_explanations, trial_keys
from harness.engine.compose_file import compose_text
from harness.evaluation.cell_result import CellResult
from harness.evaluation.regression.baseline import read_comparison
from harness.evaluation.release_history import has_release
from harness.execution import App
from harness.report.metrics import metrics_page
from harness.report.plots.registry import plots
from harness.report.plots.stored import is_queue_pair, is_red
from harness.scenario.schema import Implementation, Scenario
from harness.topology import Lab, build_lab, sim_plan
from tools.reference.because_figure import STATES_OF_PAIRS
from tools.reference.by_hand import open_cell
from tools.reference.campaign import Reference
from tools.reference.changed import (
    CHANGES,
    CHANGES_CAPTION,
    Changed,
    changed,
    changed_page,
    draw_changes,
    read_reasons,
)
from tools.reference.commands_page import commands_page
from tools.reference.histories_page import histories_page, history_figures
from tools.reference.interop_page import SUCCESSES, interop_page
from tools.reference.plots_page import plots_page
from tools.reference.readme import (
    SHOWN,
    TIMES,
    reference_page,
    with_datagrams,
    with_experiments,
    with_implementations,
    with_parameters,
    with_results,
    with_verdicts,
)
from tools.reference.scenario_page import scenario_page
from tools.reference.study_pages import claims, figures, image_line, study_page, study_page_names
from tools.reference.study_pages import drawings as study_drawings
from tools.reference.terminal_page import terminal_picture
from tools.reference.validation import read_session, with_validation

#: Makes the text of a file.
Text = Callable[[], str]


def page_texts(app: App) -> dict[Path, Text]:
    """File → what makes its text, of a checkout whose store has the reference runs.

    The stored runs are read once, by the first page that needs them. The last page quotes the others as they stand in
    their files, so these are written before it is made.
    """
    return _model_pages(app) | _result_pages(app)


def _model_pages(app: App) -> dict[Path, Text]:
    """What follows from the model, the scenarios and the metrics alone."""
    root = app.paths.root

    @cache
    def lab() -> Lab:
        return build_lab(open_cell(app.catalogue.find_scenarios(["satellite/medium"])[0]), 0)

    def plan() -> str:
        return json.dumps(sim_plan(lab(), lab().simulators[0]), indent=1) + "\n"

    return {
        root / "scenarios" / "schema.json": lambda: json_schema(Scenario),
        root / "images" / "schema.json": lambda: json_schema(Implementation),
        root / "docs" / "metrics.md": metrics_page,
        root / "docs" / "commands.md": lambda: commands_page(program()),
        root / "docs" / "plots.md": lambda: plots_page(_figures()),
        root / "docs" / "scenario.md": lambda: _scenario_page(app),
        root / "compose" / "lab.yaml": lambda: compose_text(lab()),
        root / "compose" / "plan" / "plan.json": plan,
    }


def _figures() -> list[tuple[str, str, str, str]]:
    """Name, of what, what it shows, and needs of every figure."""
    of = {
        "flows": "flows that share or stop",
        "transfer": "one flow",
        "pair": "RED beside DropTail",
        "runs": "several runs",
    }
    return [(plot.name, of[plot.of], plot.shows, ", ".join(plot.needs)) for plot in plots().values()]


def _scenarios(app: App) -> list[Scenario]:
    return [app.catalogue.scenario(file) for file in app.catalogue.scenario_files()]


def _scenario_page(app: App) -> str:
    files = sorted((app.paths.root / "docs" / "scenarios").glob("*.yaml"))
    texts = {file.name: file.read_text(encoding="utf-8") for file in files}
    return scenario_page(texts, {file.name: app.catalogue.scenario(file) for file in files})


def _result_pages(app: App) -> dict[Path, Text]:
    """The pages with tables of runs. In README.md, images/PARAMETERS.md, and of docs/ in because.md, limits.md and
    results.md marked parts change.
    """
    root = app.paths.root
    readme, page, parameters = (root / name for name in ("README.md", "docs/results.md", "images/PARAMETERS.md"))
    because, limits = (root / "docs" / name for name in ("because.md", "limits.md"))

    @cache
    def every_result() -> Sequence[CellResult]:
        reference = Reference(app, root / "results" / "reference")
        return reference.with_staleness(app.results.find(lambda cell: True), lambda event: None)

    @cache
    def results() -> Sequence[CellResult]:
        # Other releases have a page of their own, and so have cells with a cause removed.
        trials = trial_keys([result for result in every_result() if result.cell.scenario.name == SHOWN])
        return [result for result in every_result() if not has_release(result) and result.cell.key not in trials]

    def experiments() -> list[Explained]:
        shown = [result for result in results() if result.cell.scenario.name == SHOWN and result.cell.virtual_time]
        return list(stored_explanations(shown, every_result()).values())

    def known() -> list[Implementation]:
        return [item for item, _ in app.catalogue.implementations().values() if item.transfers_files]

    def drawn() -> list[str]:
        return [file.name for file in (root / "docs" / "figures").glob("*.svg")]

    def study_text(name: str) -> str:
        return study_page(name, results(), drawn())

    return {
        readme: lambda: with_implementations(with_verdicts(readme.read_text(encoding="utf-8"), results()), known()),
        page: lambda: with_results(page.read_text(encoding="utf-8"), results(), claims(results()), drawn()),
        root / "docs" / "figures" / "terminal.svg": lambda: terminal_picture(results()),
        root / "results" / "reference" / "README.md": lambda: reference_page(results()),
        root / "docs" / "histories.md": lambda: histories_page(app.catalogue, every_result(), drawn()),
        root / "docs" / "interop.md": lambda: interop_page(_scenarios(app), known(), results(), drawn()),
        parameters: lambda: with_parameters(
            parameters.read_text(encoding="utf-8"), [item for item in known() if item.speaks_quic], results()
        ),
        because: lambda: with_experiments(
            because.read_text(encoding="utf-8"),
            experiments(),
            results(),
            image_line(STATES_OF_PAIRS.caption, STATES_OF_PAIRS.file, drawn()),
        ),
        limits: lambda: with_datagrams(limits.read_text(encoding="utf-8"), every_result()),
        **{root / "docs" / name: partial(study_text, name) for name in study_page_names()},
        **_validation(root),
        **_changed(app, every_result, drawn),
    }


def _validation(root: Path) -> dict[Path, Text]:
    """What links are held against, where a session of that is kept."""
    session, page = read_session(root / "results"), root / "docs" / "validation.md"
    return {} if session is None else {page: lambda: with_validation(page.read_text(encoding="utf-8"), session)}


def _changed(app: App, results: Callable[[], Sequence[CellResult]], drawn: Callable[[], list[str]]) -> dict[Path, Text]:
    """What the reference had before, where a comparison with it is kept."""
    root = app.paths.root
    compared = read_comparison(root / "results" / "former")
    if compared is None:
        return {}

    def text() -> str:
        reasons = read_reasons(root / "docs" / "data" / "changed.yaml", root)
        figure = image_line(CHANGES_CAPTION, CHANGES, drawn())
        return changed_page(_changed_cells(app, results(), compared.within), compared, reasons, figure)

    return {root / "docs" / "changed.md": text}


def _changed_cells(app: App, results: Sequence[CellResult], within: float) -> list[Changed]:
    former = App(replace(app.paths, store=app.paths.root / "results" / "former"))
    contents = (former.stored_runs.contents, app.stored_runs.contents)
    return changed(former.results.find(lambda cell: True), results, within, contents, app.ledger)


def behind_figures(results: Sequence[CellResult]) -> set[str]:
    """Names of the runs whose series the studies' figures are drawn from."""
    drawn = [result for result in results if any(figure.is_of(result) for figure in figures())]
    reds = [result.cell for result in drawn if is_red(result.cell)]
    partners = [result for result in results if any(is_queue_pair(red, result.cell) for red in reds)]
    return {result.runs[0][0].name for result in (*drawn, *partners) if result.runs}


def drawings(app: App) -> Iterator[tuple[Path, str]]:
    """The figures of the pages, one after the other: file, SVG."""
    import vl_convert

    from harness.report.plots.render import render_figures as figures_of
    from harness.report.plots.render import render_svg
    from harness.report.plots.stored import load_drawings

    folder = app.paths.root / "docs" / "figures"
    every = app.results.find(lambda cell: True)
    current = [result for result in every if not has_release(result)]
    for whole in (*study_drawings(), TIMES, SUCCESSES, STATES_OF_PAIRS):
        if (specification := whole.draw(current)) is not None:
            yield folder / whole.file, str(vl_convert.vegalite_to_svg(specification))
    if (compared := read_comparison(app.paths.root / "results" / "former")) is not None:
        changes = draw_changes(_changed_cells(app, every, compared.within))
        if changes is not None:
            yield folder / CHANGES, str(vl_convert.vegalite_to_svg(changes))
    for file, figure in history_figures(app.catalogue, every):
        yield folder / file, str(vl_convert.vegalite_to_svg(dict(figure)))
    shown = figures()
    for study_figure in shown:
        chosen = [result for result in current if study_figure.is_of(result)]
        for drawing in load_drawings(app.stored_runs, chosen, app.results.find, (), None):
            for rendered in figures_of(drawing.run, drawing.partner, (study_figure.plot,)):
                yield folder / study_figure.file, render_svg(rendered)
