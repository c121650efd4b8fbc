"""Lists of implementations: those that were run stand apart from those that are known by manifest alone."""

from __future__ import annotations

import pytest

from harness.report.catalogue import UNTESTED, ListedImplementation, catalogue_document
from harness.report.markdown import render_markdown
from harness.report.parameters import defaults, defaults_document
from harness.scenario.schema import Implementation
from tests.examples import catalogue, implementation
from tests.rendering import printed


def entries() -> list[ListedImplementation]:
    return [ListedImplementation(implementation(name, tested=tested), True, None) for name, tested in TESTED.items()]


TESTED = {"alpha": True, "beta": False, "gamma": True}


def test_the_list_shows_them_apart() -> None:
    first, second = printed(catalogue_document([], entries())).split(UNTESTED)
    assert "alpha" in first and "gamma" in first and "beta" not in first
    assert "beta" in second and "alpha" not in second
    assert UNTESTED not in printed(catalogue_document([], entries()[:1]))


def test_the_json_says_so() -> None:
    implementations = catalogue_document([], entries()).data["implementations"]
    assert {entry["name"]: entry["tested"] for entry in implementations} == TESTED


def test_the_table_of_defaults_says_so() -> None:
    text = render_markdown(defaults_document(defaults([entry.implementation for entry in entries()], {})))
    assert "| alpha | client |" in text and "| beta (never run) | client |" in text


@pytest.mark.parametrize(
    "manifest", [item for item, _ in catalogue().implementations().values()], ids=lambda manifest: manifest.name
)
def test_what_must_come_from_elsewhere_was_not_run(manifest: Implementation) -> None:
    """No registry and no repository was reached, so that everything made here, and nothing else, was run."""
    assert manifest.tested == (not manifest.elsewhere)
