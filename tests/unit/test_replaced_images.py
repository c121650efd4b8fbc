"""Images that stand in for others are named by their tags and labels: by the gate, and on the site of a night."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import EngineError
from harness.evaluation.cell_result import CellResult
from harness.evaluation.regression.accepted_changes import apply_allowances
from harness.evaluation.regression.decision import decide, match_cells, version_differences
from harness.execution import App, CheckoutPaths, image_inventory
from harness.outcome import Image
from harness.report.gate import CellReport, GateReport
from harness.report.site.build import NightContext, render_site
from harness.report.site.cell import cell_page
from harness.scenario.schema import Implementation
from harness.store.identity import Ledger, with_key
from harness.store.results import Store
from tests.engine_pairs import completions, result, run
from tests.examples import ROOT, implementation
from tests.plot_runs import page_cache

BEFORE = Image(reference="mine/quiche:1", identity="mine/quiche@sha256:" + "a" * 64, label="version 0.24.1")
AFTER = Image(
    reference="mine/quiche:dev", identity="mine/quiche@sha256:" + "b" * 64, label="version 0.25.0, revision 5f3c"
)


def _played(image: Image, seconds: float) -> CellResult:
    """A cell whose server's image is this one."""
    of = completions("virtual", 1.0, client=implementation("alpha"), server=implementation("beta")).cell
    cell = with_key(of.model_copy(update={"server_image": image}), Ledger())
    return result("virtual", run(completion=seconds), of=cell)


def _differences(before: Image, after: Image) -> list[str]:
    (pair,) = match_cells([_played(before, 1.0)], [_played(after, 2.0)])
    return version_differences(pair, (lambda digest: None, lambda digest: None), Ledger())


def test_another_tag_is_named_with_its_label() -> None:
    assert _differences(BEFORE, AFTER) == [
        "the image of beta (mine/quiche:1 (version 0.24.1) → mine/quiche:dev (version 0.25.0, revision 5f3c))"
    ]


def test_a_tag_that_was_moved_has_its_digests() -> None:
    moved = AFTER.model_copy(update={"reference": BEFORE.reference, "label": BEFORE.label})
    assert _differences(BEFORE, moved) == [
        f"the image of beta (mine/quiche:1 (version 0.24.1): {'a' * 12} → {'b' * 12})"
    ]
    assert _differences(BEFORE, BEFORE) == []


def test_the_site_of_a_night_names_them(tmp_path: Path) -> None:
    base, now = _played(BEFORE, 1.0), _played(AFTER, 2.0)
    decided = apply_allowances(decide(match_cells([base], [now]), within=0.03), (), datetime.date(2026, 11, 28))
    causes = tuple(_differences(BEFORE, AFTER))
    report = GateReport(tuple(CellReport(weighed, causes) for weighed in decided.cells), decided, 0.03)
    site = tmp_path / "site"
    render_site(
        site, [now], Store(tmp_path / "store"), lambda wanted: [], page_cache(), lambda name: [], NightContext(report, [])
    )  # fmt: skip
    changes = (site / "changes.html").read_text()
    assert "mine/quiche:1 (version 0.24.1) → mine/quiche:dev (version 0.25.0, revision 5f3c)" in changes


def test_the_page_of_a_cell_names_its_published_image() -> None:
    facts = dict(cell_page(_played(AFTER, 1.0)).facts)
    assert facts["server"].endswith("image mine/quiche:dev (version 0.25.0, revision 5f3c)")


def test_a_label_is_in_the_record_and_in_no_key() -> None:
    plain = AFTER.model_copy(update={"label": ""})
    assert _played(plain, 1.0).cell.key == _played(AFTER, 1.0).cell.key
    assert "label" not in json.loads(plain.model_dump_json())
    assert Image.model_validate_json(AFTER.model_dump_json()) == AFTER


LABELS = {"org.opencontainers.image.version": "1.2", "org.opencontainers.image.revision": "f" * 64, "other": "x"}


@pytest.mark.parametrize(
    ("inspected", "label"),
    [
        ({"Config": {"Labels": LABELS}}, f"version 1.2, revision {'f' * 40}"),
        ({"Config": {"Labels": None}}, ""),
        ({"Config": {"Labels": {"other": "x"}}}, ""),
        (None, ""),
        (EngineError("no daemon"), ""),
    ],
)
def test_labels_are_those_of_the_image(
    inspected: Any, label: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def inspect(reference: str) -> dict[str, Any] | None:
        if isinstance(inspected, EngineError):
            raise inspected
        return {"Id": "sha256:1", **inspected} if inspected is not None else None

    def published(self: object, implementation: Implementation, folder: Path) -> Image:
        return Image(reference=str(implementation.image), identity="sha256:1")

    monkeypatch.setattr(image_inventory, "inspect_image", inspect)
    monkeypatch.setattr("harness.engine.images.build.Images.image_of", published)
    app = App(
        CheckoutPaths(ROOT, tmp_path / "store", tmp_path / "state", tmp_path / "cache"), stand_ins={"quiche": "mine/quiche:dev"}
    )  # fmt: skip
    quiche = app.inventory.implementation("quiche")
    image = app.inventory.image_of(quiche, lambda event: None, pull=False)
    assert (image.reference, image.label) == ("mine/quiche:dev", label)
    # Docker is asked of no image that is built here: its recipe says what it is.
    picoquic = app.inventory.implementation("picoquic")
    assert app.inventory.image_of(picoquic, lambda event: None, pull=False).label == ""
