"""Lists of implementations: those that were run stand apart from those that are known by manifest alone."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.report import json_report, listing, parameters
from harness.scenario.schema import Implementation
from tests.examples import catalogue, implementation


def entries() -> list[listing.ListedImplementation]:
    return [
        listing.ListedImplementation(implementation(name, tested=tested), True, None) for name, tested in TESTED.items()
    ]


TESTED = {"alpha": True, "beta": False, "gamma": True}


def test_the_list_shows_them_apart() -> None:
    paper = Console(file=io.StringIO(), width=200)
    listing.show([], entries(), paper)
    assert isinstance(paper.file, io.StringIO)
    first, second = paper.file.getvalue().split(listing.UNTESTED)
    assert "alpha" in first and "gamma" in first and "beta" not in first
    assert "beta" in second and "alpha" not in second
    everybody = Console(file=io.StringIO(), width=200)
    listing.show([], entries()[:1], everybody)
    assert isinstance(everybody.file, io.StringIO) and listing.UNTESTED not in everybody.file.getvalue()


def test_the_json_says_so() -> None:
    told = json_report.catalogue([], entries())["implementations"]
    assert {one["name"]: one["tested"] for one in told} == TESTED


def test_the_table_of_defaults_says_so() -> None:
    text = parameters.markdown(
        parameters.defaults([listed_implementation.implementation for listed_implementation in entries()], {})
    )
    assert "| alpha | client |" in text and "| beta (never run) | client |" in text


@pytest.mark.parametrize("one", [item for item, _ in catalogue().implementations().values()], ids=lambda one: one.name)
def test_what_must_come_from_elsewhere_was_not_run(one: Implementation) -> None:
    """No registry and no repository was reached, so that everything made here, and nothing else, was run."""
    assert one.tested == (not one.elsewhere)
