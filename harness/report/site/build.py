"""Writes the folder of a site from models and templates."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from harness.doe.interventions import stored_explanations
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.formatting import escape_controls, format_count
from harness.outcome import ENGINES
from harness.report.gate import GateReport
from harness.report.metrics import metrics_page
from harness.report.numbers import interval_text, number_text
from harness.report.plots.nights import trend_figure
from harness.report.plots.render import page_script
from harness.report.plots.stored import Search
from harness.report.results import SYMBOLS
from harness.report.site import pictures
from harness.report.site import study as drawn
from harness.report.site.cell import CELL, Qlog, cell_address, cell_page, read_opening
from harness.report.site.changes import CHANGE_MEANING, ChangesPage, changes_page
from harness.report.site.implementation import implementation_page, implementations
from harness.report.site.interop import interop_page
from harness.report.site.overview import LINKS, MEANING, heading_spans, implementation_names, overview
from harness.report.site.releases import release_sections
from harness.report.site.study import study_pages
from harness.report.trend import Night, ScenarioTrend, factor_text, trends
from harness.report.why import HEADINGS, why_lines, why_rows
from harness.scenario.parameters import ROLES
from harness.scenario.schema import Implementation, Release
from harness.store.results import StoreReader, disk_error
from harness.writing import write_new_file

_FOLDER = Path(__file__).parent
#: The first page. A folder that has files, but not this one, is not a site.
INDEX = "index.html"
#: In it, files of a site that is being written, or was interrupted.
_UNFINISHED = ".unfinished"
#: The start of every page, by which a folder is recognised as a site of this program.
_MARK = "<!doctype html><!-- quic-lab site -->"
#: The Content Security Policy (level 3) of a page, whatever stored text it contains: it may run the site's own scripts,
#: no inline scripts, and fetch nothing. 'self' is the site, served or opened from files (Chromium 156 and Firefox 153
#: accept files as 'self'). Vega compiles its expressions to functions, which needs 'unsafe-eval'. Its figures, and bars
#: with the width of a share, have inline styles.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'"
)
#: Folders of a site, which contain nothing but its files; "tables" is from older sites.
_FOLDERS = ("assets", "cells", "figures", "implementations", "qlogs", "studies", "tables")


@dataclass(frozen=True)
class NightContext:
    """What the cells of a night are compared with; nothing by default."""

    gate: GateReport | None = None
    """The decisions on them, for badges and a page."""
    nights: Sequence[Night] = ()
    """The nights of a trend, this one among them; none for no such page."""

    def changes(self, keys: Collection[str]) -> ChangesPage | None:
        """The page of what changed, if there are decisions. `keys`: the cells that have a page on the site."""
        return None if self.gate is None else changes_page(self.gate, keys)


@dataclass(frozen=True)
class Site:
    """A site that was written."""

    index: Path
    pages: int
    size: int
    """Bytes of all files."""


def render_site(
    folder: Path,
    results: Sequence[CellResult],
    store: StoreReader,
    search: Search,
    cache: Path,
    releases_of: Callable[[str], Sequence[Release]] = lambda name: (),
    night: NightContext = NightContext(),
) -> Site:
    """Write the site of these cells; it replaces an existing site, once all of it is written.

    An interrupted one leaves an existing site as it was, and a folder of unfinished files that the next one removes.

    `search`: finds the partners of runs; `cache`: a folder for the script of the figures; `releases_of`: from the name
    of an implementation to its releases; `night`: what the cells are compared with. Raises InputError for a folder with
    other files, EngineError for errors of the disk, ResultError for unreadable series.
    """
    folder = folder.resolve()
    require_site_folder(folder)
    sizes: dict[Path, int] = {}
    unfinished = folder / _UNFINISHED
    try:
        if unfinished.exists():
            shutil.rmtree(unfinished)
        for name, text in _files(results, store, search, cache, folder, releases_of, night):
            file = unfinished / name
            file.parent.mkdir(parents=True, exist_ok=True)
            content = text.encode()
            write_new_file(file, content)
            sizes[folder / name] = len(content)
        for file in sizes:
            file.parent.mkdir(parents=True, exist_ok=True)
            (unfinished / file.relative_to(folder)).replace(file)
        for file in (path for name in _FOLDERS for path in (folder / name).glob("*") if path not in sizes):
            # Files of an earlier site whose cells are no longer included.
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        shutil.rmtree(unfinished)
    except OSError as error:
        raise disk_error(error, folder) from error
    # The pages of all cells are one file.
    files = sum(file.suffix == ".html" and file.name != CELL for file in sizes)
    pages = files + sum(bool(result.runs) for result in results)
    return Site(folder / INDEX, pages, sum(sizes.values()))


def require_site_folder(folder: Path) -> None:
    """Raise InputError for a folder with files that are not a site of this program."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: not a folder", "name a folder that is to be made")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if (folder / _UNFINISHED).is_dir():
        return  # one was interrupted
    index = folder / INDEX
    if not index.is_file() or not index.read_text(encoding="utf-8", errors="replace").startswith(_MARK):
        raise InputError(f"{folder}: holds files that are no site of this program", "name another folder, or empty it")


def _files(
    results: Sequence[CellResult],
    store: StoreReader,
    search: Search,
    cache: Path,
    folder: Path,
    releases_of: Callable[[str], Sequence[Release]],
    night: NightContext,
) -> Iterator[tuple[str, str]]:
    """(path in the folder, text) of all files. The first page comes last, so a site that has it is complete."""
    run_results = [result for result in results if result.runs]
    environment = _environment(folder)
    sections = release_sections(run_results, releases_of)
    with_history = {result.cell.key for section in sections for result in section.results}
    # A site of histories alone has an overview, too.
    remaining = [result for result in run_results if result.cell.key not in with_history] or run_results
    keys = {result.cell.key for result in run_results}
    changes, courses = night.changes(keys), trends(night.nights)
    studies, participants, interop = study_pages(remaining), implementations(remaining), interop_page(remaining)

    def page(template: str, **values: object) -> str:
        shared = {
            "studies": studies,
            "interop": interop is not None,
            "releases": bool(sections),
            "changes": changes,
            "trend": bool(courses),
            "participants": participants,
            "symbols": SYMBOLS,
            "meaning": MEANING,
            "links": LINKS,
            "mark": _MARK,
            "policy": POLICY,
        }
        return environment.get_template(template).render(**shared, **values)

    for asset in ("site.css", "site.js"):
        yield f"assets/{asset}", (_FOLDER / "assets" / asset).read_text(encoding="utf-8")
    kinds = set[str]()
    for place, text in _cells(run_results, page, store, search):
        kinds.add(place.partition("/")[0])
        yield place, text
    if run_results:
        yield CELL, page("cell.html", root="")
    yield from _implementation_pages(participants, run_results, page)
    for study in studies:
        figures = list(drawn.study_figures(study.study, run_results, store, search))
        if figures:
            kinds.add("figures")
        text = to_html(study.text, _local_target)
        yield f"studies/{study.name}.html", page("study.html", root="../", page=study, text=text, figures=figures)
    yield "studies/index.html", page("studies.html", root="../")
    yield (
        "studies/metrics.html",
        page("text.html", root="../", title="Metrics", text=to_html(metrics_page(), _local_target)),
    )
    if sections:
        kinds.add("figures")
        texts = {section.name: to_html(section.text, _local_target) for section in sections}
        yield "releases.html", page("releases.html", root="", sections=sections, texts=texts)
    for place, text, further in _night_pages(changes, courses, keys, page):
        kinds |= further
        yield place, text
    if interop is not None:
        yield "interop.html", page("interop.html", root="", page=interop)
    if "qlogs" in kinds:
        yield "assets/qlog.js", (_FOLDER / "assets" / "qlog.js").read_text(encoding="utf-8")
        yield "qlog.html", page("qlog.html", root="")
    if "figures" in kinds:
        yield "assets/vega.js", page_script(cache)
    yield INDEX, page("index.html", root="", page=overview(remaining), roles=ROLES)


_TAG = re.compile(r"(<[^>]*>)")
#: A number in a tag. Tags of two cells' pages that differ in numbers alone are kept together.
_NUMBER = re.compile(r"[-0-9.]+")
#: What stands for the cell's key in its packed page, which has no other control characters.
_KEY = "\x01"
#: Table of a cell → the number of its first columns that say what a row is about.
_LABELS = {"because": 2, "link": 2, "figures": 1, "sources": 2}


class _PackedCells:
    """Pages and tables of a scenario's cells in pieces, arranged so that gzip finds what they have in common.

    gzip looks back 32 KiB, which is less than two pages. So pieces of the same kind lie beside each other, those of all
    cells in order. If they are all the same, there is one. `cellOf` in site.js puts a cell's pieces together again.
    """

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._pieces: dict[str, list[str]] = {}
        self._orders: dict[str, list[list[str]]] = {}
        """The page, or a table's name → the kinds of each cell's pieces."""

    def add(self, key: str, page: str, tables: Mapping[str, Sequence[Sequence[str]]]) -> None:
        """Add a cell. All cells have the same tables."""
        self._keys.append(key)
        parts = {name: _table_pieces(rows, _LABELS[name]) for name, rows in tables.items()}
        for part, pieces in {"page": _page_pieces(page.replace(key, _KEY)), **parts}.items():
            order = list[str]()
            for kind, piece in pieces:
                order.append(f"{part} {kind}")
                self._pieces.setdefault(order[-1], []).append(piece)
            self._orders.setdefault(part, []).append(order)

    def content(self) -> dict[str, object]:
        """What a page's script is given. There a kind is its place among the pieces."""
        places = {kind: place for place, kind in enumerate(self._pieces)}
        orders = {part: [[places[kind] for kind in order] for order in own] for part, own in self._orders.items()}
        pieces = [same[0] if len(set(same)) == 1 else same for same in self._pieces.values()]
        return {"keys": self._keys, "orders": orders, "pieces": pieces}


def _page_pieces(page: str) -> Iterator[tuple[str, str]]:
    """A page's tags, and the texts behind them."""
    tag = ""
    for piece in filter(None, _TAG.split(page)):
        if piece.startswith("<"):
            tag = _NUMBER.sub("#", piece)
            yield tag, piece
        else:
            yield f"behind {tag}", piece


def _table_pieces(rows: Iterable[Sequence[str]], labels: int) -> Iterator[tuple[str, str]]:
    """A table's cells, row by row. Those of the same row and column are of a kind."""
    for row in rows:
        for column, text in enumerate(row):
            yield f"{column} {row[:labels]}", text


def _cells(
    results: Sequence[CellResult], page: Callable[..., str], store: StoreReader, search: Search
) -> Iterator[tuple[str, str]]:
    """Scripts with cells, figures and qlogs. A scenario's cells share one, since their pages and tables are similar."""
    cells: dict[str, _PackedCells] = {}
    experiments = stored_explanations(results, results)
    for result in results:
        figures = list(drawn.cell_figures(result, store, search))
        model = cell_page(result)
        text = page("cell_body.html", page=model, figures=figures, experiment=experiments.get(result.cell.key))
        tables = {
            "because": [row for transfer in model.because for row in transfer.rows],
            "link": [[direction.name, *row] for direction in model.proof.directions for row in direction.rows],
            "figures": [
                [metric.name, metric.text, metric.unit, str(metric.n), metric.vantage] for metric in model.figures
            ],
            "sources": [
                [parameter.role, parameter.name, *observation]
                for parameter in model.parameters
                for observation in parameter.seen
            ],
        }
        cells.setdefault(result.cell.scenario.name.replace("/", "-"), _PackedCells()).add(result.cell.key, text, tables)
        if figures:
            yield f"figures/{result.cell.key}.js", _to_script({figure.name: figure.specification for figure in figures})
        for trace in (qlog for run in model.runs for qlog in run.qlogs):
            yield f"qlogs/{trace.name}.js", _to_script(_viewer_data(trace))
    for name, scenario_cells in cells.items():
        yield f"cells/{name}.js", _to_script(scenario_cells.content())


def _implementation_pages(
    participants: Mapping[str, Implementation], results: Sequence[CellResult], page: Callable[..., str]
) -> Iterator[tuple[str, str]]:
    """(path, text) of a page for each implementation, and of their list."""
    pages = {name: implementation_page(implementation, results) for name, implementation in participants.items()}
    for name, model in pages.items():
        yield f"implementations/{name}.html", page("implementation.html", root="../", page=model)
    yield "implementations/index.html", page("implementations.html", root="../", pages=list(pages.values()))


def _night_pages(
    changes: ChangesPage | None, courses: Sequence[ScenarioTrend], keys: Collection[str], page: Callable[..., str]
) -> Iterator[tuple[str, str, set[str]]]:
    """(path, text, "figures" if it has any) of the pages that compare nights. `keys`: the cells with a page."""
    if changes is not None:
        yield "changes.html", page("changes.html", root="", page=changes, change_meaning=CHANGE_MEANING), set()
    if courses:
        drawings = {course.anchor: list(_trend_figures(course)) for course in courses}
        text = page("trend.html", root="", trends=courses, drawings=drawings, keys=keys)
        yield "trend.html", text, {"figures"} if any(drawings.values()) else set()


def _trend_figures(course: ScenarioTrend) -> Iterator[drawn.EmbeddedFigure]:
    """The figure of a scenario's nights, where two nights have figures. A verdict is no figure."""
    specification = None if course.is_test_case else trend_figure(course)
    if specification is not None:
        shows = (
            f"{course.figure} of each cell over the nights, in the colour of its server. Point at a line for its cell."
        )
        yield drawn.embed_figure(f"trend-{course.anchor}", f"{course.scenario} over the nights", shows, specification)


def _to_script(content: object) -> str:
    """A script that passes packed content to the page: a page opened from a file may not read other files."""
    return f"packed({json.dumps(drawn.pack(content))});\n"


def _viewer_data(trace: Qlog) -> dict[str, object]:
    """The part of a trace that the viewer shows: its beginning."""
    begin = read_opening(trace.file)
    return {"run": trace.run, "whose": trace.whose, "file": trace.place, "cut": begin.cut, "events": begin.events}


def _local_target(target: str) -> str | None:
    """The target of a link within the page; None for other links of generated texts: the site lacks their targets."""
    return target if target.startswith("#") else None


def _environment(folder: Path) -> Environment:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
        loader=FileSystemLoader(_FOLDER / "templates"),
    )
    environment.filters |= {
        "interval": interval_text,
        "number": number_text,
        "counted": format_count,
        "address": cell_address,
        "to": _address_filter(folder),
        "by_folder": _group_by_folder,
        "packed": drawn.pack,
        "players": lambda cell, role: " ".join(implementation_names(cell, role)),
        "bare": lambda text: text.lstrip("≤≥ "),
        "factor": factor_text,
        "why_rows": why_rows,
        "why_lines": why_lines,
    }
    environment.globals |= {"neighbours": heading_spans, "picture": pictures, "dark": drawn.DARK, "engines": ENGINES}
    environment.globals["why_headings"] = HEADINGS
    return environment


def _finalize(value: object) -> object:
    """A value as a template writes it: generated HTML is kept; other text loses invisible and direction characters."""
    return escape_controls(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _group_by_folder(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Names of scenarios, grouped by folder: the part before the last slash."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    return list(folders.items())


def _address_filter(folder: Path) -> Callable[[Path], str]:
    """A function from a file to its address, relative to the site's own folder."""

    def address(file: Path) -> str:
        return quote(os.path.relpath(file, folder).replace(os.sep, "/"))

    return address


# --- Markdown → HTML, for generated texts. HTML in them is escaped.


#: Comments between the parts of generated pages.
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def to_html(text: str, place: Callable[[str], str | None]) -> Markup:
    """A text as HTML.

    `place`: maps the target of a link to its address on the site, or to None where it is not on the site. A link
    without an address keeps only its text. Pictures are dropped.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_COMMENT.sub("", text))
    for token in tokens:
        if token.children:
            token.children = _resolve_links(token.children, place)
        if token.type == "table_open":
            token.attrSet("class", "plain")
    rendered = parser.renderer.render(tokens, parser.options, {})
    # A wide table scrolls horizontally, also by keyboard.
    region = '<div class="scroll" tabindex="0" role="region" aria-label="table">'
    rendered = rendered.replace('<table class="plain">', f'{region}<table class="plain">')
    return Markup(_fix_empty_headings(rendered.replace("</table>", "</table></div>")))


def _resolve_links(tokens: list[Token], place: Callable[[str], str | None]) -> list[Token]:
    output: list[Token] = []
    dropped: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            target = place(str(token.attrGet("href")))
            dropped.append(target is None)
            if target is None:
                continue
            token.attrSet("href", target)
        elif token.type == "link_close":
            if dropped.pop():
                continue
        elif token.type == "image":
            continue
        output.append(token)
    return output


def _fix_empty_headings(text: str) -> str:
    """HTML with empty table headings replaced by plain cells."""
    return re.sub(r"<th([^>]*)></th>", r"<td\1></td>", text)
