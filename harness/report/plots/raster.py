"""SVG → PNG in a process of its own, beside the one that draws (`python -m harness.report.plots.raster`).

vl-convert keeps Python's lock while it paints. Standard input has one JSON object a line: svg (the text), png (the file
to write), scale. The first error ends the process, with one line on standard error.
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
from harness.writing import replace

#: Pixels of a PNG per pixel of a figure.
SCALE = 2

#: Has a PNG made of an SVG's text: (svg, file).
Paint = Callable[[str, Path], None]


@contextmanager
def painting() -> Iterator[Paint]:
    """A process that makes PNGs while this one goes on; all are there when the context ends. Raises EngineError."""
    words = [sys.executable, "-m", "harness.report.plots.raster"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stderr is not None
        stdin = process.stdin

        def paint(svg: str, file: Path) -> None:
            # Where it has ended with an error, that is what is said in the end.
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
    """Make the PNGs that are asked for. Raises OSError and ValueError."""
    for line in lines:
        request = json.loads(line)
        replace(Path(request["png"]), vl_convert.svg_to_png(request["svg"], scale=request["scale"]))


if __name__ == "__main__":
    try:
        paint_all(sys.stdin)
    except (OSError, ValueError) as error:
        sys.exit(str(error))
