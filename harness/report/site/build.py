"""The folder of a site, written from models and templates."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.formatting import counted, harmless
from harness.outcome import ENGINES
from harness.report.layout import number
from harness.report.metrics_page import metrics_page
from harness.report.plots.render import page_script
from harness.report.plots.stored import Search
from harness.report.site import pictures
from harness.report.site import study as drawn
from harness.report.site.cell import Qlog, cell_page, opening
from harness.report.site.implementation import implementation_page, implementations
from harness.report.site.interop import interop_page
from harness.report.site.markdown import CELL, address, html
from harness.report.site.matrix import neighbours
from harness.report.site.overview import MEANING, overview, players
from harness.report.site.study import study_pages
from harness.report.table import SYMBOLS, interval_text
from harness.scenario.parameters import ROLES
from harness.store.results import StoreReader, disk_error
from harness.writing import replace

_HERE = Path(__file__).parent
#: The first page. A folder with other files and without this one is somebody else's.
INDEX = "index.html"
#: What the first line of every page says, by which a folder is known to be a site of ours.
_MARK = "<!doctype html><!-- quic-lab site -->"
#: What a page may do, whatever a stored text has got into it (Content Security Policy 3): run the site's own scripts,
#: none that stands in the page, and fetch nothing. 'self' is the site, served or opened from files (Chromium 156 and
#: Firefox 153 take these for it). Vega makes functions of its own expressions ('unsafe-eval'); its figures, and bars as
#: wide as a share, have styles of their own.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'"
)
#: Folders of a site, whose files are the site's alone; "tables" is of older sites.
_FOLDERS = ("assets", "cells", "figures", "implementations", "qlogs", "studies", "tables")


@dataclass(frozen=True)
class Site:
    """What was written."""

    index: Path
    pages: int
    size: int
    """Bytes of all files."""


def write(folder: Path, results: Sequence[CellResult], store: StoreReader, search: Search, cache: Path) -> Site:
    """Write the site of these cells, in place of one that is there.

    `search`: finds the runs that belong beside others; `cache`: a folder for the script of the figures. Raises
    InputError for a folder that holds something else, EngineError when the disk refuses, ResultError for series that
    cannot be read.
    """
    folder = folder.resolve()
    require_ours(folder)
    sizes: dict[Path, int] = {}
    try:
        for name, text in _files(results, store, search, cache, folder):
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            content = text.encode()
            replace(file, content)
            sizes[file] = len(content)
        for file in (path for name in _FOLDERS for path in (folder / name).glob("*") if path not in sizes):
            # Cells that are not among these any more.
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    except OSError as error:
        raise disk_error(error, folder) from error
    # All cells' pages are one file.
    files = sum(file.suffix == ".html" and file.name != CELL for file in sizes)
    pages = files + sum(bool(result.runs) for result in results)
    return Site(folder / INDEX, pages, sum(sizes.values()))


def require_ours(folder: Path) -> None:
    """InputError for a folder that holds something that is no site."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: not a folder", "name a folder that is to be made")
    if not folder.exists() or not any(folder.iterdir()):
        return
    index = folder / INDEX
    if not index.is_file() or not index.read_text(encoding="utf-8", errors="replace").startswith(_MARK):
        raise InputError(f"{folder}: holds files that are no site of this program", "name another folder, or empty it")


def _files(
    results: Sequence[CellResult], store: StoreReader, search: Search, cache: Path, folder: Path
) -> Iterator[tuple[str, str]]:
    """Place in the folder → text, the first page last: where it is, all else is."""
    run_results = [result for result in results if result.runs]
    environment = _environment(folder)
    studies, participants, interop = study_pages(run_results), implementations(run_results), interop_page(run_results)

    def page(template: str, **values: object) -> str:
        shared = {
            "studies": studies,
            "interop": interop is not None,
            "symbols": SYMBOLS,
            "meaning": MEANING,
            "mark": _MARK,
            "policy": POLICY,
        }
        return environment.get_template(template).render(**shared, **values)

    for asset in ("site.css", "site.js"):
        yield f"assets/{asset}", (_HERE / "assets" / asset).read_text(encoding="utf-8")
    kinds = set[str]()
    for place, text in _cells(run_results, page, store, search):
        kinds.add(place.partition("/")[0])
        yield place, text
    if run_results:
        yield CELL, page("cell.html", root="")
    pages = {name: implementation_page(implementation, run_results) for name, implementation in participants.items()}
    for name, model in pages.items():
        yield f"implementations/{name}.html", page("implementation.html", root="../", page=model)
    yield "implementations/index.html", page("implementations.html", root="../", pages=list(pages.values()))
    for study in studies:
        figures = list(drawn.of_study(study.study, run_results, store, search))
        if figures:
            kinds.add("figures")
        text = html(study.text, _nowhere)
        yield f"studies/{study.name}.html", page("study.html", root="../", page=study, text=text, figures=figures)
    yield "studies/index.html", page("studies.html", root="../")
    yield "studies/metrics.html", page("text.html", root="../", title="Metrics", text=html(metrics_page(), _nowhere))
    if interop is not None:
        yield "interop.html", page("interop.html", root="", page=interop)
    if "qlogs" in kinds:
        yield "assets/qlog.js", (_HERE / "assets" / "qlog.js").read_text(encoding="utf-8")
        yield "qlog.html", page("qlog.html", root="")
    if "figures" in kinds:
        yield "assets/vega.js", page_script(cache)
    yield INDEX, page("index.html", root="", page=overview(run_results), roles=ROLES)


def _cells(
    results: Sequence[CellResult], page: Callable[..., str], store: StoreReader, search: Search
) -> Iterator[tuple[str, str]]:
    """Scripts: the cells, a scenario's together as their pages and tables repeat each other, and figures and qlogs."""
    cells: dict[str, dict[str, dict[str, object]]] = {}
    for result in results:
        figures = list(drawn.of_cell(result, store, search))
        model = cell_page(result)
        cells.setdefault(result.cell.scenario.name.replace("/", "-"), {})[result.cell.key] = {
            "page": page("cell_body.html", page=model, figures=figures),
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
        if figures:
            yield f"figures/{result.cell.key}.js", _packed({figure.name: figure.specification for figure in figures})
        for trace in (qlog for run in model.runs for qlog in run.qlogs):
            yield f"qlogs/{trace.name}.js", _packed(_told(trace))
    for name, pages in cells.items():
        yield f"cells/{name}.js", _packed(pages)


def _packed(content: object) -> str:
    """A script that hands over what is packed: from a file no page may read another."""
    return f"packed({json.dumps(drawn.packed(content))});\n"


def _told(trace: Qlog) -> dict[str, object]:
    """What the viewer shows of a trace: its beginning."""
    begin = opening(trace.file)
    return {"run": trace.run, "whose": trace.whose, "file": trace.place, "cut": begin.cut, "events": begin.events}


def _nowhere(target: str) -> str | None:
    """Of links in generated texts those to somewhere in the page stay: what others name is not on the site."""
    return target if target.startswith("#") else None


def _environment(folder: Path) -> Environment:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown,
        loader=FileSystemLoader(_HERE / "templates"),
    )  # fmt: skip
    environment.filters |= {
        "interval": interval_text, "number": number, "counted": counted, "address": address, "to": _to(folder),
        "by_folder": _by_folder, "packed": drawn.packed,
        "players": lambda cell, role: " ".join(players(cell, role)), "bare": lambda text: text.lstrip("≤≥ "),
    }  # fmt: skip
    environment.globals |= {"neighbours": neighbours, "picture": pictures, "dark": drawn.DARK, "engines": ENGINES}
    return environment


def _shown(value: object) -> object:
    """A value as a template writes it: what is generated as HTML stays; of any other text nothing hides or turns."""
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _by_folder(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Names of scenarios by what stands before their last part."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    return list(folders.items())


def _to(folder: Path) -> Callable[[Path], str]:
    """From a file to its address as seen from a page of the site's own folder."""

    def address(file: Path) -> str:
        return quote(os.path.relpath(file, folder).replace(os.sep, "/"))

    return address
