"""YAML files → model. Every error says file, line and column, the reason, and what was probably meant."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from harness.errors import InputError, did_you_mean
from harness.model import Implementation, Part, Scenario
from harness.parameters import ROLES
from harness.path import inexpressible

M = TypeVar("M", bound=Part)
Location = tuple[int | str, ...]

SCENARIOS, IMAGES = "scenarios", "images"
MANIFEST = "image.yaml"


@dataclass(frozen=True)
class Place:
    """A position in a file, for people: line and column count from 1."""

    file: Path
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass
class _Positions:
    """Where each key and value of a YAML document stands."""

    file: Path
    keys: dict[Location, Place] = field(default_factory=dict)
    values: dict[Location, Place] = field(default_factory=dict)

    def walk(self, node: yaml.Node, location: Location = ()) -> None:
        self.values[location] = self._place(node)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*location, key.value)
                if inner in self.keys:
                    raise InputError(f"{self._place(key)}: '{key.value}' is given twice", "remove one of the two")
                self.keys[inner] = self._place(key)
                self.walk(value, inner)
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                self.walk(value, (*location, index))

    def _place(self, node: yaml.Node) -> Place:
        return Place(self.file, node.start_mark.line + 1, node.start_mark.column + 1)

    def find(self, location: Location, *, key: bool) -> tuple[Place, str]:
        """The place of a validation error, and its name; parts that are not in the file (tags) are skipped."""
        known: Location = ()
        for part in location:
            inner = (*known, part)
            if inner in self.values:
                known = inner
        name = ".".join(str(part) for part in known)
        if key and known in self.keys:
            return self.keys[known], name
        return self.values.get(known, Place(self.file)), name


def read_yaml(file: Path) -> tuple[Any, _Positions]:
    """The plain data of a YAML file and the positions in it. Raises InputError."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{file}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from error
    positions = _Positions(file)
    try:
        node, data = _parsed(text)
        if node is None:
            raise InputError(f"{file}:1:1: the file is empty", "see scenarios/ and images/ for examples")
        positions.walk(node)
        return data, positions
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)
        raise InputError(f"{place}: not valid YAML: {error.problem}", "check indentation, colons and quotes") from error


def _parsed(text: str) -> tuple[yaml.Node | None, Any]:
    """The nodes of a YAML text and its plain data. Raises YAMLError."""
    try:
        # libyaml takes a tenth of the time. What it says of errors is less: they are read again, for people.
        loader: Any = _FAST(text)
        node = loader.get_single_node()
        return node, None if node is None else loader.construct_document(node)
    except yaml.YAMLError:
        if _FAST is yaml.SafeLoader:
            raise
        return yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)


#: Not every build of PyYAML has libyaml.
_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _field_names(model: type[BaseModel]) -> set[str]:
    """All keys a model and the models inside it know."""
    schema = model.model_json_schema(by_alias=True)
    return {name for part in (schema, *schema.get("$defs", {}).values()) for name in part.get("properties", {})}


def _message(error: Mapping[str, Any]) -> str:
    text = str(error["msg"])
    return text.removeprefix("Value error, ").removeprefix("Assertion failed, ")


def load(file: Path, model: type[M], extra: Mapping[str, object] | None = None) -> M:
    """Read one file as `model`; `extra` adds keys the file leaves out. Raises InputError with all problems."""
    return _model(*read_yaml(file), model, extra)


def _model(data: Any, positions: _Positions, model: type[M], extra: Mapping[str, object] | None = None) -> M:
    """What was read of a file as `model`. Raises InputError with all problems."""
    file = positions.file
    if not isinstance(data, dict):
        raise InputError(f"{file}:1:1: expected a mapping of keys to values", "see scenarios/ and images/ for examples")
    try:
        return model.model_validate({**(extra or {}), **data})
    except ValidationError as errors:
        lines, hint = [], ""
        found = errors.errors(include_url=False)
        for error in found:
            location: Location = tuple(error["loc"])
            if error["type"] == "too_short" and any(_inside(other["loc"], location) for other in found):
                # Pydantic counts only the valid items; the invalid ones have errors of their own.
                continue
            if error["type"] == "extra_forbidden":
                place, name = positions.find(location, key=True)
                lines.append(f"{place}: unknown key '{name}'")
                hint = hint or did_you_mean(str(location[-1]), _field_names(model))
            elif error["type"] == "missing":
                place, name = positions.find(location[:-1], key=False)
                lines.append(f"{place}: '{location[-1]}' is missing" + (f" in {name}" if name else ""))
            else:
                # An error of a key itself, not of what stands behind it, is located at "[key]".
                place, name = positions.find(location, key=location[-1:] == ("[key]",))
                lines.append(f"{place}: {name or file.name}: {_message(error)}")
        raise InputError("\n".join(lines), hint) from errors


def _inside(location: Location, outer: Location) -> bool:
    return len(location) > len(outer) and location[: len(outer)] == outer


@dataclass(frozen=True)
class Mistake:
    """What is wrong with a file beyond its form."""

    location: Location
    text: str
    hint: str


def _unchecked(scenario: Scenario) -> Iterable[Mistake]:
    return ()


@dataclass(frozen=True)
class Catalogue:
    """The scenarios and implementations below a root folder."""

    root: Path
    manifests: tuple[Path, ...] = ()
    """Further image.yaml files, from anywhere."""
    mistakes: Callable[[Scenario], Iterable[Mistake]] = _unchecked
    """What is wrong with a scenario that only measuring knows (`harness.metrics.objectives`)."""

    def scenario_files(self) -> list[Path]:
        """All scenario files, sorted by name."""
        return sorted((self.root / SCENARIOS).rglob("*.yaml"))

    def scenario_name(self, file: Path) -> str:
        """Name of a scenario file: its path below scenarios/ without the suffix."""
        base = (self.root / SCENARIOS).resolve()
        resolved = file.resolve()
        name = resolved.relative_to(base) if resolved.is_relative_to(base) else Path(resolved.name)
        return str(name.with_suffix(""))

    def scenario(self, file: Path) -> Scenario:
        """One scenario file, loaded once. Raises InputError; also for a name that no implementation has."""
        if file not in self._scenarios:
            self._scenarios[file] = self._load_scenario(file)
        return self._scenarios[file]

    @cached_property
    def _scenarios(self) -> dict[Path, Scenario]:
        return {}

    def _load_scenario(self, file: Path) -> Scenario:
        data, positions = read_yaml(file)
        scenario = _model(data, positions, Scenario, {"name": self.scenario_name(file)})
        if why := inexpressible(scenario.path):
            raise InputError(f"{positions.find(('path',), key=False)[0]}: path: {why}")
        for location, word, what in _named(data):
            known = self._known if what == "implementation" else self._congestion_controls
            if word not in known:
                place, name = positions.find(location, key=False)
                raise InputError(f"{place}: {name}: nobody here has the {what} '{word}'", did_you_mean(word, known))
        if wrong := list(self.mistakes(scenario)):
            places = [positions.find(one.location, key=False) for one in wrong]
            lines = [f"{place}: {name}: {one.text}" for (place, name), one in zip(places, wrong, strict=True)]
            raise InputError("\n".join(lines), wrong[0].hint)
        return scenario

    @cached_property
    def _known(self) -> dict[str, Implementation]:
        """The implementations, read once: every scenario's names are looked up in them."""
        return {name: one for name, (one, _) in self.implementations().items()}

    @cached_property
    def _congestion_controls(self) -> frozenset[str]:
        """What some implementation can be told to use, or uses."""
        settings = (
            setting
            for one in self._known.values()
            for role in ROLES
            if (setting := one.setting(role, "congestion_control")) is not None
        )
        return frozenset(
            str(word)
            for setting in settings
            for word in (*(setting.values or ()), *([] if setting.default is None else [setting.default]))
        )

    def find_scenarios(self, words: Iterable[str], instead: Iterable[str] = ()) -> list[Scenario]:
        """Scenarios by file, folder or name (`satellite/medium`, `satellite`); in the order given.

        `instead`: what may stand where a scenario does; InputError for a word that nothing is called names the nearest.
        """
        known = {self.scenario_name(file): file for file in self.scenario_files()}
        found: dict[str, Scenario] = {}
        for word in words:
            for file in self._files_of(word, known, instead):
                scenario = self.scenario(file)
                found.setdefault(scenario.name, scenario)
        return list(found.values())

    def _files_of(self, word: str, known: Mapping[str, Path], instead: Iterable[str]) -> list[Path]:
        path = Path(word)
        name = word.strip("/").removeprefix(SCENARIOS + "/").removesuffix(".yaml")
        if word in ("all", SCENARIOS, SCENARIOS + "/"):
            return list(known.values())
        if path.is_file():
            return [path]
        if name in known:
            return [known[name]]
        endings = [file for other, file in known.items() if other.rpartition("/")[2] == name]
        if len(endings) == 1:
            return endings
        inside = [file for other, file in known.items() if other.startswith(name + "/")]
        if inside:
            return inside
        if path.is_dir() and (files := sorted(path.rglob("*.yaml"))):
            return files
        families = {other.rpartition("/")[0] for other in known}
        raise InputError(f"no scenario '{word}'", did_you_mean(name, {*known, *families, *instead} - {""}))

    def implementation_files(self) -> list[Path]:
        """All image.yaml files, sorted by name."""
        return [*sorted((self.root / IMAGES).glob(f"*/{MANIFEST}")), *self.manifests]

    def implementations(self) -> dict[str, tuple[Implementation, Path]]:
        """Name → (implementation, folder of its manifest), read once. InputError when two share a name."""
        return dict(self._implementations)

    @cached_property
    def _implementations(self) -> dict[str, tuple[Implementation, Path]]:
        found: dict[str, tuple[Implementation, Path]] = {}
        for file in self.implementation_files():
            implementation = load(file, Implementation)
            if implementation.name in found:
                raise InputError(
                    f"{file}: the name '{implementation.name}' is taken by {found[implementation.name][1] / MANIFEST}",
                    "give each implementation a name of its own",
                )
            found[implementation.name] = (implementation, file.resolve().parent)
        return found

    def find_implementations(self, words: str, role: str, absent: Container[str] = ()) -> list[Implementation]:
        """Implementations by comma-separated names, or 'all' that can play the role and are not `absent`."""
        known = {name: implementation for name, (implementation, _) in self.implementations().items()}
        if words == "all":
            return [
                item for item in known.values() if item.speaks_quic and role in item.roles and item.name not in absent
            ]
        found = []
        for word in [word.strip() for word in words.split(",") if word.strip()]:
            if word not in known:
                raise InputError(f"no implementation '{word}' for the {role}s", did_you_mean(word, known))
            found.append(known[word])
        if not found:
            raise InputError(f"no {role} was named", "name implementations, separated by commas, or 'all'")
        return found


def _named(data: Mapping[str, Any]) -> Iterator[tuple[Location, str, str]]:
    """(where, word, what it names) of a scenario's words for implementations and congestion controls."""
    for role in ROLES:
        for index, word in enumerate(data.get(f"{role}s") or ()):
            yield (f"{role}s", index), word, "implementation"
    for index, flow in enumerate(data["flows"]):
        for role in ROLES:
            if role in flow:
                yield ("flows", index, role), flow[role], "implementation"
        yield from _controls(("flows", index, "parameters"), flow.get("parameters") or {})
    yield from _controls(("parameters",), data.get("parameters") or {})
    for name, words in (data.get("vary") or {}).items():
        last = name.rpartition(".")[2]
        if last == "congestion_control" or (last in ROLES and name.startswith("flow")):
            what = "implementation" if last in ROLES else "congestion control"
            for index, word in enumerate(words):
                yield ("vary", name, index), str(word), what


def _controls(where: Location, parameters: Mapping[str, Any]) -> Iterator[tuple[Location, str, str]]:
    for name, word in parameters.items():
        if name.endswith(".congestion_control"):
            yield (*where, name), str(word), "congestion control"


def json_schema(model: type[BaseModel]) -> str:
    """The JSON Schema of a model, as text for a file that editors read."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **model.model_json_schema(by_alias=True)}
    # yaml-language-server speaks draft-07, where definitions live under `definitions`.
    text = json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=False)
    return text.replace('"$defs"', '"definitions"').replace("#/$defs/", "#/definitions/") + "\n"
