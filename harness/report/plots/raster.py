"""SVG → PNG in a process of its own, in parallel with the drawing (`python -m harness.report.plots.raster`).

vl-convert holds Python's global interpreter lock while it renders. Standard input has one JSON object per line, with
svg (the text), png (the file to write) and scale. The first error ends the process, with one line on standard error.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import vl_convert

from harness.errors import EngineError
from harness.writing import replace_file

#: Pixels of a PNG per pixel of a figure.
SCALE = 2

#: Renders an SVG's text to a PNG file: (svg, file).
Paint = Callable[[str, Path], None]


@contextmanager
def png_renderer() -> Iterator[Paint]:
    """A process that makes PNGs in parallel; all of them exist when the context ends. Raises EngineError."""
    words = [sys.executable, "-m", "harness.report.plots.raster"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stderr is not None
        stdin = process.stdin

        def paint(svg: str, file: Path) -> None:
            # If the process has ended with an error, the error is reported at the end.
            with suppress(BrokenPipeError):
                stdin.write(json.dumps({"svg": svg, "png": str(file), "scale": SCALE}) + "\n")
                stdin.flush()

        try:
            yield paint
        finally:
            with suppress(BrokenPipeError):
                stdin.close()
            message = process.stderr.read().strip()
    if process.returncode != 0:
        raise EngineError(f"PNGs cannot be made: {message or f'exit code {process.returncode}'}", "--formats svg,html")


def paint_all(lines: TextIO) -> None:
    """Make the requested PNGs: one JSON object per line. Raises OSError and ValueError."""
    for line in lines:
        request = json.loads(line)
        replace_file(Path(request["png"]), vl_convert.svg_to_png(request["svg"], scale=request["scale"]))


if __name__ == "__main__":
    try:
        paint_all(sys.stdin)
    except (OSError, ValueError) as error:
        sys.exit(str(error))
