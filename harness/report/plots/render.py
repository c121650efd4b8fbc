"""Charts → files: PNG at twice the size, SVG, and one HTML page per run with all its figures, which works offline."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert
from altair.utils.schemapi import debug_mode
from jinja2 import Environment
from markupsafe import Markup

from harness.reading import open_regular
from harness.report.plots.curves import common_words
from harness.report.plots.raster import Paint, png_renderer
from harness.report.plots.registry import Plot, plots
from harness.report.plots.theme import FONT, INK, SOFT, add_heading, vega_config
from harness.report.plots.view import PlotData
from harness.store.results import disk_error
from harness.writing import replace_file

#: The page with all figures of a run.
PAGE = "figures.html"


class Format(StrEnum):
    """File formats of figures."""

    PNG = "png"
    SVG = "svg"
    HTML = "html"


@dataclass(frozen=True)
class RenderedFigure:
    """One figure of a run, or of a pair of runs."""

    plot: Plot
    specification: dict[str, Any]
    """Vega-Lite, with its data."""


@dataclass(frozen=True)
class PageHeading:
    """The heading of a page of figures."""

    title: str
    place: str
    """Whose they are, for people."""
    names: str
    """And for commands."""


def render_figure(plot: Plot, *runs: PlotData) -> RenderedFigure | None:
    """A plot of one run, a pair or several runs; None where they lack data for it."""
    # The structure of figures does not depend on the run. The tests validate it against the schema, so this does not.
    with warnings.catch_warnings(), alt.data_transformers.enable("default", max_rows=None), debug_mode(False):
        # Panels share the parameters of the interactive page on purpose.
        warnings.filterwarnings("ignore", "Automatically deduplicated selection parameter")
        chart = plot.chart(*runs)
        if chart is None:
            return None
        if plot.of == "runs":
            places = [" · ".join(word for _, word in common_words(runs))]
        else:
            places = list(dict.fromkeys(run.place for run in runs))
        specification: dict[str, Any] = add_heading(chart, plot.title, [*places, plot.note]).to_dict(validate=False)
    return RenderedFigure(plot, {**specification, "config": vega_config()})


def render_figures(
    run: PlotData, partner: PlotData | None = None, only: Collection[str] = ()
) -> Iterator[RenderedFigure]:
    """Figures of a run, in alphabetical order: those that fit it, or those that `only` names.

    With `partner`, the run with the other queue discipline, the figures of the pair are included.
    """
    for plot in plots().values():
        selected = plot.name in only if only else plot.of == "pair" or plot.fits(run)
        if not selected or not (plot.alone or (plot.of == "pair" and partner is not None)):
            continue
        rendered = render_figure(plot, run, *([] if plot.alone or partner is None else [partner]))
        if rendered is not None:
            yield rendered


def page_script(cache: Path) -> str:
    """Vega, Vega-Lite and Vega-Embed as one self-contained script, which is cached in a folder."""
    file = cache.resolve() / f"vega-embed-{vl_convert.get_vega_embed_version()}-{vl_convert.get_vega_version()}.js"
    if not file.exists():
        # The bundling takes longer than all figures of a run.
        script = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
        file.parent.mkdir(parents=True, exist_ok=True)
        _write_atomically(file, script)
    return file.read_text(encoding="utf-8")


def _write_atomically(file: Path, text: str) -> None:
    """Write a file atomically: other processes find it complete or not at all."""
    replace_file(file, text.encode(), f"{file.stem}.{os.getpid()}")


def has_font() -> bool:
    """Whether this machine has a font. PNGs use the machine's fonts, and without any they have no text."""
    empty, word = (
        vl_convert.svg_to_png(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><text y="15" font-family="{FONT}">{text}'
            "</text></svg>"
        )
        for text in ("", "axis")
    )
    return bool(empty != word)


def write_figures(
    run: PlotData,
    folder: Path,
    formats: Collection[Format],
    cache: Path,
    *,
    partner: PlotData | None = None,
    only: Collection[str] = (),
) -> list[Path]:
    """Write a run's figures into a folder, which is created if needed, and return the files. Raises EngineError.

    `cache`: a folder for the script that all pages share. A run without figures leaves no folder. The page is written
    last.
    """
    heading = PageHeading(run.run.cell.scenario.title, run.place, f"cell {run.run.name}")
    # A page with selected figures must not replace the page with all of them.
    return _write(
        render_figures(run, partner, only), heading, folder, formats, cache, PAGE if not only else "chosen.html"
    )


def _write(
    items: Iterable[RenderedFigure],
    heading: PageHeading,
    folder: Path,
    formats: Collection[Format],
    cache: Path,
    name: str,
) -> list[Path]:
    rendered: list[RenderedFigure] = []
    files: list[Path] = []
    with png_renderer() if Format.PNG in formats else nullcontext() as paint:
        try:
            for item in items:
                folder.mkdir(parents=True, exist_ok=True)
                rendered.append(item)
                if {Format.PNG, Format.SVG} & set(formats):
                    files += _write_pictures(item, folder / item.plot.name, formats, paint)
            if rendered and Format.HTML in formats:
                _write_atomically(folder / name, render_page(heading, rendered, page_script(cache)))
                files.append(folder / name)
        except OSError as error:
            raise disk_error(error, folder) from error
    return files


def write_comparison(runs: Sequence[PlotData], folder: Path, formats: Collection[Format], cache: Path) -> list[Path]:
    """Write the figures of several runs into a folder, which is created if needed, and return the files.

    Raises EngineError.
    """
    rendered = [
        item for plot in plots().values() if plot.of == "runs" and (item := render_figure(plot, *runs)) is not None
    ]
    names = ", ".join(run.run.name for run in runs)
    heading = PageHeading("Runs side by side", " · ".join(word for _, word in common_words(runs)), f"runs {names}")
    return _write(rendered, heading, folder, formats, cache, PAGE)


def render_svg(item: RenderedFigure) -> str:
    """The SVG of a figure, as text."""
    return str(vl_convert.vegalite_to_svg(item.specification))


def _write_pictures(item: RenderedFigure, stem: Path, formats: Collection[Format], paint: Paint | None) -> list[Path]:
    picture, files = render_svg(item), []
    if paint is not None:
        files.append(stem.with_suffix(".png"))
        # The PNG is made from the SVG, so that Vega draws only once.
        paint(picture, files[-1])
    if Format.SVG in formats:
        files.append(stem.with_suffix(".svg"))
        replace_file(files[-1], picture.encode())
    return files


#: The links to a page's figures are within this many bytes at its start.
_HEAD = 8192

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<title>{{ heading.title }}</title>
<style>
body { font-family: {{ font }}; color: {{ ink }}; margin: 2em auto; max-width: 62em; padding: 0 1em; line-height: 1.4; }
h1 { font-size: 1.3em; } p, nav { color: {{ soft }}; font-size: .85em; } figure { margin: 2.5em 0; overflow-x: auto; }
nav a { margin-right: 1em; }
</style>
</head>
<body>
<h1>{{ heading.title }}</h1>
<p>{{ heading.place }}<br>{{ heading.names }}</p>
<p>A click on a legend's entry picks a flow (with shift several). Over a time axis the wheel zooms while shift is held,
dragging moves, and a double click goes back.</p>
<nav>{% for item in figures %}<a href="#{{ item.plot.name }}">{{ item.plot.title }}</a>{% endfor %}</nav>
{% for item in figures %}<figure id="{{ item.plot.name }}"></figure>
{% endfor %}<script>{{ script }}</script>
<script>{{ drawing }}</script>
</body>
</html>
"""


#: The script that draws the figures of a page.
_DRAWING = """
const figures = SPECIFICATIONS;
for (const [name, specification] of Object.entries(figures)) {
  vegaEmbed("#" + name, specification, {
    mode: "vega-lite", renderer: "svg", actions: { export: true, source: false, compiled: false, editor: false },
  });
}
"""


def _policy(*scripts: str) -> str:
    """The page's Content Security Policy (level 3): it may run these scripts and draw, and fetch nothing.

    Vega compiles its expressions to functions, which needs 'unsafe-eval'.
    """
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def figure_names(file: Path) -> list[str]:
    """Names of the figures on a page, from the links at its head. Raises OSError."""
    with open_regular(file) as content:
        return re.findall(r'<a href="#(\w+)">', content.read(_HEAD).decode(errors="replace"))


def render_page(heading: PageHeading, rendered: Sequence[RenderedFigure], script: str) -> str:
    """One HTML page with figures, their data and the script that draws them."""
    specifications = json.dumps(
        {item.plot.name: item.specification for item in rendered}, separators=(",", ":"), ensure_ascii=False
    )
    script = script.replace("</script", "<\\/script")
    # Text in the data must not end the script element.
    drawing = _DRAWING.replace("SPECIFICATIONS", specifications.replace("<", "\\u003c"))
    return (
        Environment(autoescape=True)
        .from_string(_PAGE)
        .render(
            heading=heading,
            figures=rendered,
            font=Markup(FONT),
            ink=INK,
            soft=SOFT,
            policy=_policy(script, drawing),
            script=Markup(script),
            drawing=Markup(drawing),
        )
    )
