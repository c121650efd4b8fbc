"""`harness bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.consoles import console, print_json
from harness.cli.environment import open_app
from harness.cli.options import AsJson
from harness.errors import InputError, did_you_mean


def bench(
    parts: Annotated[list[str] | None, typer.Argument(help="virtual, real; both without.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the harness itself: overhead, rates and delays in real time; repeatability and speed in virtual time."""
    from harness.bench import PARTS
    from harness.bench import bench as run_bench

    for part in parts or []:
        if part not in PARTS:
            raise InputError(f"no benchmarks '{part}'", did_you_mean(part, PARTS))
    content = run_bench(open_app(), console(), parts or list(PARTS))
    if as_json:
        print_json(content)
