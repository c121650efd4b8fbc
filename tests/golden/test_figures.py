"""What the figures are made of, letter by letter, with their data in brief. `make golden` renews it; read the diff."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from harness.report.plots.registry import plots
from harness.report.plots.render import render_figure
from harness.report.plots.theme import vega_config
from tests.plot_runs import runs_for

NAMES = sorted(plots())


def _brief(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many rows, and the first and the last of them."""
    return {"rows": len(rows), "first": _rounded(rows[0]), "last": _rounded(rows[-1])} if rows else {"rows": 0}


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in row.items()}


def _text(specification: dict[str, Any]) -> str:
    """A specification as text; names that Altair counts or hashes are numbered in the order they come."""
    brief = {name: _brief(rows) for name, rows in specification["datasets"].items()}
    kept = {name: part for name, part in specification.items() if name not in ("$schema", "config", "datasets")}
    text = json.dumps({**kept, "datasets": brief}, ensure_ascii=False)
    for kind in ("data-[0-9a-f]{32}", r"\bview_[0-9]+"):
        for number, name in enumerate(dict.fromkeys(re.findall(kind, text))):
            text = re.sub(rf"\b{name}\b", f"{kind[:4]}-{number}", text)
    document: str = yaml.dump(
        json.loads(text), Dumper=_Plain, allow_unicode=True, sort_keys=False, width=118, default_flow_style=None
    )
    return document


class _Plain(yaml.SafeDumper):
    """Without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@pytest.mark.parametrize("name", NAMES)
def test_specification(name: str, snapshot: SnapshotAssertion) -> None:
    plot = plots()[name]
    figure = render_figure(plot, *runs_for(plot))
    assert figure is not None
    assert _text(figure.specification) == snapshot


def test_configuration(snapshot: SnapshotAssertion) -> None:
    assert vega_config() == snapshot
