"""Studies of other packages: found by their entry points, and refused by name where they are none."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from harness.errors import InputError
from harness.report import studies
from harness.report.studies import ENTRY_POINT_GROUP, Study, installed_studies

MINE = Study(source="My paper", text=lambda results: "", scenarios=("satellite/medium",), place=-1)


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    installed_studies.cache_clear()
    yield
    installed_studies.cache_clear()


def _install(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    entries = EntryPoints(EntryPoint(name, value, ENTRY_POINT_GROUP) for name, value in values.items())
    monkeypatch.setattr(studies, "entry_points", lambda group: entries)


def test_this_project_has_its_own() -> None:
    assert "red_droptail" in installed_studies()


def test_a_study_of_another_package_stands_at_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, papers="studies", mine=f"{__name__}:MINE")
    by_name = installed_studies()
    assert by_name["mine"] is MINE
    assert next(iter(by_name)) == "mine"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mine": "no_such_package:STUDY"}, "no_such_package:STUDY cannot be loaded"),
        ({"mine": "pathlib:Path"}, "'mine' is no Study but a type"),
        ({"mine": "pathlib"}, "pathlib cannot be loaded"),
        ({"papers": "studies", "red_droptail": f"{__name__}:MINE"}, "two studies are called 'red_droptail'"),
    ],
)
def test_what_is_no_study_is_named(monkeypatch: pytest.MonkeyPatch, values: dict[str, str], message: str) -> None:
    _install(monkeypatch, **values)
    with pytest.raises(InputError, match=message) as refused:
        installed_studies()
    assert refused.value.hint
