from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from harness import derived
from harness.catalogue import Catalogue, Positions, json_schema, load, read_yaml
from harness.catalogue import catalogue as catalogue_module
from harness.errors import InputError
from harness.scenario.schema import Implementation, Scenario
from harness.scenario.validation_errors import Mistake
from tests.examples import ROOT, catalogue

SCENARIO = """schema: 1
title: x
path:
  forward: {rate: 50 Mbit/s, delay: 325 ms}
  return: {rate: 10 Mbit/s, delay: 325 ms}
flows: [{download: 1 MB}]
"""


@pytest.mark.parametrize("file", catalogue().scenario_files(), ids=lambda file: file.stem)
def test_every_scenario_loads_and_cites_its_source(file: Path) -> None:
    scenario = catalogue().scenario(file)
    assert scenario.references
    assert scenario.title
    assert file.read_text().startswith("# yaml-language-server: $schema=../schema.json\n")


@pytest.mark.parametrize("file", catalogue().implementation_files(), ids=lambda file: file.parent.name)
def test_every_image_loads_and_is_named_after_its_folder(file: Path) -> None:
    implementation = load(file, Implementation)
    assert implementation.name == file.parent.name
    assert implementation.licence
    assert implementation.project
    if implementation.build is not None:
        assert (file.parent / implementation.build / "Dockerfile").is_file()


def test_implementations_are_told_apart() -> None:
    implementations = [item for item, _ in catalogue().implementations().values()]
    assert len({(item.colour, item.marker) for item in implementations}) == len(implementations)
    assert len({item.colour for item in implementations}) == len(implementations)


@pytest.mark.parametrize(
    ("kind", "file"), [(Scenario, "scenarios/schema.json"), (Implementation, "images/schema.json")]
)
def test_the_schema_files_are_in_step(kind: type[Scenario], file: str) -> None:
    assert (ROOT / file).read_text() == json_schema(kind), "run 'make generate'"


@pytest.mark.parametrize("file", [*catalogue().scenario_files(), *catalogue().implementation_files()], ids=str)
def test_editors_accept_every_file_of_ours(file: Path) -> None:
    assert complaints(file.parent.parent / "schema.json", yaml.safe_load(file.read_text())) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [("325 ms}\n  ret", "325 ms, queue: [1 BDP]}\n  ret"), ("1 MB", "1 MB, traffic: 7"), ("1 MB", "1 MB, start: 5 s, tsop: 9 s")],
)  # fmt: skip
def test_editors_refuse(place: str, text: str) -> None:
    assert complaints(ROOT / "scenarios/schema.json", yaml.safe_load(SCENARIO)) == []
    assert complaints(ROOT / "scenarios/schema.json", yaml.safe_load(SCENARIO.replace(place, text)))


def complaints(schema: Path, content: object) -> list[str]:
    """What an editor says of a file's content."""
    return [error.message for error in _editor(schema).iter_errors(content)]


@cache
def _editor(schema: Path) -> Any:
    rules = json.loads(schema.read_text())
    Draft7Validator.check_schema(rules)
    return Draft7Validator(rules)


@pytest.mark.parametrize(
    ("change", "line", "column", "words", "hint"),
    [
        (("rate: 50", "rat: 50"), 4, 13, "unknown key 'path.forward.rat'", "rate"),
        (("325 ms}\n  ret", "325}\n  ret"), 4, 37, "no unit", ""),
        (("10 Mbit/s", "10 Mbix/s"), 5, 18, "not a unit of a rate", ""),
        (("1 MB", "1 MB, start: soon"), 6, 33, "not a duration", ""),
        (("title: x\n", ""), 1, 1, "'title' is missing", ""),
        (("title: x", "title: [x"), 3, 5, "not valid YAML", "indentation"),
        (("title: x", "title: x\ntitle: y"), 3, 1, "given twice", ""),
    ],
)  # fmt: skip
def test_errors_say_where_and_what(
    tmp_path: Path, change: tuple[str, str], line: int, column: int, words: str, hint: str
) -> None:
    file = tmp_path / "case.yaml"
    file.write_text(SCENARIO.replace(*change))
    with pytest.raises(InputError) as caught:
        catalogue().scenario(file)
    assert f"{file}:{line}:{column}: " in caught.value.message
    assert words in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


def test_a_path_that_tc_cannot_express_is_refused_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "case.yaml"
    slow = "rate: 5 kbit/s, queue: 20 packets, service: {process: poisson}"
    file.write_text(SCENARIO.replace("rate: 50 Mbit/s", slow))
    with pytest.raises(InputError) as caught:
        catalogue().scenario(file)
    assert f"{file}:4:19: path.forward.rate: netem has no Poisson process as slow as 5 kbit/s" in caught.value.message


def test_all_problems_of_a_file_are_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "case.yaml"
    file.write_text(SCENARIO.replace("rate: 50", "rat: 50").replace("10 Mbit/s", "10"))
    with pytest.raises(InputError) as caught:
        catalogue().scenario(file)
    assert len(caught.value.message.splitlines()) == 3  # the unknown key, the missing one, the unit


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    for file, words in ((tmp_path / "none.yaml", "no such file"), (empty, "empty")):
        with pytest.raises(InputError, match=words):
            catalogue().scenario(file)


def test_scenarios_by_name_folder_and_file() -> None:
    real_catalogue = catalogue()
    medium = real_catalogue.find_scenarios(["satellite/medium"])
    assert [item.name for item in medium] == ["satellite/medium"]
    assert real_catalogue.find_scenarios([str(ROOT / "scenarios/satellite/medium.yaml")]) == medium
    family = [item.name for item in real_catalogue.find_scenarios(["scenarios/satellite"])]
    assert "satellite/medium" in family
    assert len(family) == len(set(family))
    assert real_catalogue.find_scenarios(["medium"]) == medium
    with pytest.raises(InputError) as caught:
        real_catalogue.find_scenarios(["satelite/medium"])
    assert "satellite/medium" in caught.value.hint


def test_implementations_by_name(tmp_path: Path) -> None:
    real_catalogue = Catalogue(tmp_path, (_manifest(tmp_path, "alpha"), _manifest(tmp_path, "beta")))
    assert [item.name for item in real_catalogue.find_implementations("all", "client")] == ["alpha", "beta"]
    assert [item.name for item in real_catalogue.find_implementations("all", "client", {"beta"})] == ["alpha"]
    assert [item.name for item in real_catalogue.find_implementations("beta, alpha", "server")] == ["beta", "alpha"]
    with pytest.raises(InputError) as caught:
        real_catalogue.find_implementations("alfa", "client")
    assert "'alpha'" in caught.value.hint
    with pytest.raises(InputError, match="no client was named"):
        real_catalogue.find_implementations(",", "client")


def test_two_implementations_cannot_share_a_name(tmp_path: Path) -> None:
    real_catalogue = Catalogue(tmp_path, (_manifest(tmp_path, "alpha"), _manifest(tmp_path, "alpha", "other")))
    with pytest.raises(InputError, match="is taken by"):
        real_catalogue.implementations()


def _manifest(folder: Path, name: str, place: str = "") -> Path:
    file = folder / (place or name) / "image.yaml"
    file.parent.mkdir()
    file.write_text(f"schema: 1\nname: {name}\nimage: example/{name}:1\n")
    return file


def test_a_scenario_is_checked_again_only_where_something_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived, "_SETTLED", -60.0)
    values = derived.DerivedValues()
    values.keep_in(tmp_path / "derived.json")
    monkeypatch.setattr(catalogue_module, "DERIVED", values)
    file = tmp_path / "mine.yaml"
    file.write_text(SCENARIO)
    checked: list[str] = []

    def read(*manifests: Path) -> Scenario:
        def mistakes(scenario: Scenario) -> Iterable[Mistake]:
            checked.append(scenario.title)
            return [Mistake(("title",), "wrong", "")] if scenario.title == "bad" else []

        return Catalogue(ROOT, manifests, mistakes).scenario(file)

    assert read() == read()
    assert checked == ["x"]
    file.write_text(SCENARIO.replace("title: x", "title: longer"))
    assert read().title == "longer"
    assert checked == ["x", "longer"]
    # Another implementation may support what a scenario asks for.
    manifest = tmp_path / "image.yaml"
    manifest.write_text((ROOT / "images" / "ngtcp2-qns" / "image.yaml").read_text().replace("ngtcp2-qns", "mine"))
    read(manifest)
    assert checked == ["x", "longer", "longer"]
    # A mistake is found every time.
    file.write_text(SCENARIO.replace("title: x", "title: bad"))
    for _ in range(2):
        with pytest.raises(InputError, match="wrong"):
            read()


def test_a_list_looks_at_the_files_that_a_scenario_names_and_at_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A scenario may stand in '/': what is beside it is not the harness's business.
    monkeypatch.setattr(derived, "_SETTLED", -60.0)
    values = derived.DerivedValues()
    values.keep_in(tmp_path / "kept" / "derived.json")
    monkeypatch.setattr(catalogue_module, "DERIVED", values)
    file, trace, other = (tmp_path / name for name in ("mine.yaml", "traces/lte.trace", "other.trace"))
    trace.parent.mkdir()
    trace.write_text("1\n2\n3\n")
    other.write_text("1\n")
    file.write_text(SCENARIO.replace("rate: 50 Mbit/s", "rate: {trace: traces/lte.trace}"))
    assert "trace" in file.read_text()
    reads: list[Path] = []

    def read(path: Path) -> tuple[Any, Positions]:
        reads.append(path)
        return read_yaml(path)

    def rglob(self: Path, pattern: str) -> Iterable[Path]:
        raise AssertionError(f"{self} is searched for {pattern}")

    monkeypatch.setattr(catalogue_module, "read_yaml", read)
    monkeypatch.setattr(catalogue_module, "_schema_version", lambda: "code")
    monkeypatch.setattr(Path, "rglob", rglob)
    first = Catalogue(ROOT).listed_scenario(file)
    other.write_text("1\n2\n")
    assert Catalogue(ROOT).listed_scenario(file) == first
    assert reads == [file]
    trace.write_text("1\n2\n3\n4\n")
    assert Catalogue(ROOT).listed_scenario(file) == first
    assert reads == [file, file]
    trace.unlink()
    with pytest.raises(InputError, match=r"lte\.trace cannot be read: No such file"):
        Catalogue(ROOT).listed_scenario(file)
