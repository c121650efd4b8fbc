"""`harness schema`."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.completion import kinds
from harness.cli.consoles import print_text
from harness.errors import InputError, did_you_mean


def schema(kind: Annotated[str, typer.Argument(help="scenario or image.", autocompletion=kinds)] = "scenario") -> None:
    """Print the JSON Schema that editors use."""
    from harness.catalogue import json_schema
    from harness.scenario.schema import Implementation, Part, Scenario

    models: dict[str, type[Part]] = {"scenario": Scenario, "image": Implementation}
    if kind not in models:
        raise InputError(f"no schema '{kind}'", did_you_mean(kind, models))
    print_text(json_schema(models[kind]))
