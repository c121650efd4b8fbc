"""Reads a YAML file as a type of the schema. All its mistakes are reported in one error, with positions and hints."""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from harness.errors import InputError
from harness.scenario.schema import FOLDER, FORMS, NAMED_FILES, Part
from harness.scenario.validation_errors import Location, Mistake, find_mistakes

# --- A YAML file → plain data with positions, within limits that no sensible file reaches.
#
# The language is the core of YAML: strings, numbers, booleans, null, lists, mappings, aliases. Dates, tags and numbers
# in other bases are strings or errors; a key is always a string.


#: Maximum bytes of a file; the largest in the repository has 4 kB.
MAX_BYTES = 256 << 10
#: Maximum nesting depth of lists and mappings; the deepest file in the repository has 6.
MAX_DEPTH = 24
#: Maximum number of strings, lists and mappings of a file, with all aliases expanded.
MAX_NODES = 20_000
#: Maximum digits of an integer: those that 64 bits can hold.
MAX_DIGITS = 18

#: Characters that are not allowed in a YAML file (YAML 1.2.2 §5.1, the complement of c-printable).
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Characters that no string may have, not even escaped: terminal control characters and surrogates.
_UNUSABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_CORE = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Position:
    """A position in a file; lines and columns count from 1."""

    file: Path
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass
class Positions:
    """The positions of all keys and values of a YAML document."""

    file: Path
    keys: dict[Location, Position] = field(default_factory=dict)
    values: dict[Location, Position] = field(default_factory=dict)

    def find(self, location: Location, *, key: bool = False) -> tuple[Position, str]:
        """The position of a location, or of the nearest enclosing one that exists, and that location's name."""
        nearest: Location = ()
        for part in location:
            inner = (*nearest, part)
            if inner in self.values:
                nearest = inner
        name = ".".join(str(part) for part in nearest)
        if key and nearest in self.keys:
            return self.keys[nearest], name
        return self.values.get(nearest, Position(self.file)), name


#: libyaml needs a tenth of the time, but not every build of PyYAML has it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _CoreLoader(_LOADER):  # type: ignore[misc]
    """Reads nodes, and decides which plain scalars are not strings."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _name, _pattern, _first in (
    ("bool", r"(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)", "yYnNtTfFoO"),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*)", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
):
    _CoreLoader.add_implicit_resolver(_CORE + _name, re.compile(f"^{_pattern}$"), list(_first))


def read_yaml(file: Path) -> tuple[Any, Positions]:
    """The plain data of a YAML file and the positions in it. Raises InputError."""
    text = _text(file, _content(file))
    positions = Positions(file)
    try:
        _SizeCheck(file).read(text)
        node = _CoreLoader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(file, text, error) from error
    except yaml.YAMLError as error:
        raise InputError(
            f"{Position(file)}: not valid YAML: {error}", "check indentation, colons and quotes"
        ) from error
    if node is None:
        raise InputError(f"{file}:1:1: the file is empty", "see scenarios/ and images/ for examples")
    return _data(node, (), positions), positions


def _content(file: Path) -> bytes:
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise InputError(f"{file}: not a file", "name a YAML file")
        with file.open("rb") as content:
            data = content.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        hint = "check the name" if file.parent.is_dir() else f"there is no folder {file.parent}"
        raise InputError(f"{file}: no such file", hint) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{file}: cannot be read: {reason}", "check its permissions") from error
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{file}:1:1: more than {MAX_BYTES >> 10} KiB: too large for a scenario or a manifest",
            "is it another file?",
        )
    return data


def _place(file: Path, text: str, index: int) -> Position:
    return Position(file, text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))


def _text(file: Path, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8", "replace")
        position, byte = _place(file, before, len(before)), content[error.start]
        raise InputError(f"{position}: the byte 0x{byte:02x} is not UTF-8", "save the file as UTF-8") from error
    if match := _UNPRINTABLE.search(text):
        position = _place(file, text, match.start())
        raise InputError(f"{position}: the character U+{ord(match[0]):04X} cannot stand in YAML", "remove it")
    return text


@dataclass
class _Node:
    """A string, list or mapping, with its aliases expanded."""

    anchor: str | None
    nodes: int = 1
    height: int = 0
    """Nesting depth of lists and mappings, including the node itself."""


@dataclass
class _SizeCheck:
    """Measures depth and expanded size of a YAML text before it is loaded. Raises InputError beyond the limits."""

    file: Path
    open_nodes: list[_Node] = field(default_factory=list)
    """The open lists and mappings."""
    complete_nodes: dict[str, _Node] = field(default_factory=dict)
    """Anchor → complete node."""
    total: int = 0

    def read(self, text: str) -> None:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                self.open_nodes.append(_Node(event.anchor, height=1))
                self._count(event, 1, 0)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end(self.open_nodes.pop())
            elif isinstance(event, yaml.ScalarEvent):
                self._count(event, 1, 0)
                self._end(_Node(event.anchor))
            elif isinstance(event, yaml.AliasEvent):
                target = self._resolve_alias(event)
                self._count(event, target.nodes, target.height)
                self._end(_Node(None, target.nodes, target.height))

    def _count(self, event: Any, nodes: int, height: int) -> None:
        self.total += nodes
        if self.total > MAX_NODES:
            raise self._limit_error(event, f"more than {MAX_NODES} entries, aliases written out")
        if len(self.open_nodes) + height > MAX_DEPTH:
            raise self._limit_error(event, f"more than {MAX_DEPTH} lists and mappings within each other")

    def _end(self, part: _Node) -> None:
        if part.anchor is not None:
            self.complete_nodes[part.anchor] = part
        if self.open_nodes:
            self.open_nodes[-1].nodes += part.nodes
            self.open_nodes[-1].height = max(self.open_nodes[-1].height, part.height + 1)

    def _resolve_alias(self, alias: Any) -> _Node:
        if any(node.anchor == alias.anchor for node in self.open_nodes):
            raise self._limit_error(alias, f"*{alias.anchor} stands for something that it is in itself")
        if alias.anchor not in self.complete_nodes:
            raise InputError(
                f"{_start(self.file, alias)}: *{alias.anchor} stands for nothing",
                f"write &{alias.anchor} where it is said first",
            )
        return self.complete_nodes[alias.anchor]

    def _limit_error(self, event: Any, problem: str) -> InputError:
        hint = "a scenario needs a few lines; see scenarios/ for examples"
        return InputError(f"{_start(self.file, event)}: {problem}", hint)


def _start(file: Path, marked: Any) -> Position:
    """The start of an event or a node of PyYAML."""
    return Position(file, marked.start_mark.line + 1, marked.start_mark.column + 1)


def _not_yaml(file: Path, text: str, error: yaml.MarkedYAMLError) -> InputError:
    """The error for people. PyYAML's own parser reads the text again, since its messages are better than libyaml's."""
    try:
        for _ in yaml.parse(text, Loader=yaml.SafeLoader):
            pass
    except yaml.MarkedYAMLError as better:
        error = better
    mark = error.problem_mark
    position = Position(file, mark.line + 1, mark.column + 1) if mark else Position(file)
    return InputError(f"{position}: not valid YAML: {error.problem}", "check indentation, colons and quotes")


def _data(node: yaml.Node, location: Location, positions: Positions) -> Any:
    """The plain data of a node; records the positions in it."""
    position = _start(positions.file, node)
    positions.values[location] = position
    if isinstance(node, yaml.SequenceNode):
        _require_tag(node, position, "seq")
        return [_data(value, (*location, index), positions) for index, value in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        _require_tag(node, position, "map")
        return dict(_entries(node, location, positions))
    return _scalar(node, position)


def _require_tag(node: yaml.Node, position: Position, tag: str) -> None:
    if node.tag != _CORE + tag:
        raise InputError(f"{position}: the tag {_short(node.tag)} means nothing here", "leave it out")


def _short(tag: str) -> str:
    return tag.replace(_CORE, "!!")


def _entries(node: yaml.MappingNode, location: Location, positions: Positions) -> Iterator[tuple[str, Any]]:
    keys: set[str] = set()
    merged: list[yaml.Node] = []
    for key, value in node.value:
        position, word = _key(key, positions.file)
        if word in keys:
            raise InputError(f"{position}: '{word}' is given twice", "remove one of the two")
        keys.add(word)
        if word == "<<" and key.style not in ("'", '"'):
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
            continue
        positions.keys[(*location, word)] = position
        yield word, _data(value, (*location, word), positions)
    # Keys of the mapping override merged ones (yaml.org/type/merge.html).
    for mapping in merged:
        if not isinstance(mapping, yaml.MappingNode):
            position = _start(positions.file, mapping)
            raise InputError(f"{position}: '<<' merges mappings, and this is none", "write <<: *name of a mapping")
        for key, value in mapping.value:
            position, word = _key(key, positions.file)
            if word not in keys:
                keys.add(word)
                positions.keys[(*location, word)] = position
                yield word, _data(value, (*location, word), positions)


def _key(node: yaml.Node, file: Path) -> tuple[Position, str]:
    position = _start(file, node)
    if not isinstance(node, yaml.ScalarNode):
        raise InputError(f"{position}: a key is a word, not a list or a mapping", "check brackets and braces")
    return position, _usable(node.value, position)


def _usable(text: str, position: Position) -> str:
    if match := _UNUSABLE.search(text):
        raise InputError(f"{position}: the character U+{ord(match[0]):04X} is none of a text", "remove its escape")
    return text


def _scalar(node: yaml.Node, position: Position) -> Any:
    text = _usable(node.value, position)
    if node.tag == _CORE + "str":
        return text
    if node.tag == _CORE + "null":
        return None
    if node.tag == _CORE + "bool" and text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    digits = text.replace("_", "")
    if node.tag == _CORE + "int" and re.fullmatch(r"[-+]?[0-9]+", digits):
        if len(digits) > MAX_DIGITS:
            raise InputError(f"{position}: a number of {len(digits)} digits", f"{MAX_DIGITS} digits are the most")
        return int(digits)
    if node.tag == _CORE + "float":
        try:
            value = float(digits)
        except ValueError:
            value = math.nan
        if math.isfinite(value):
            return value
        raise InputError(f"{position}: '{text[:60]}' is not a number that can be used", "write a smaller one")
    raise InputError(f"{position}: the tag {_short(node.tag)} means nothing here", "leave it out")


_BOOLEANS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


# --- loader


M = TypeVar("M", bound=Part)


def load(file: Path, model: type[M], extra: Mapping[str, object] | None = None) -> M:
    """Read one file as `model`; `extra` adds keys the file leaves out. Raises InputError with all problems."""
    return validate_data(*read_yaml(file), model, extra)


def validate_data(
    data: Any,
    positions: Positions,
    model: type[M],
    extra: Mapping[str, object] | None = None,
    named_files: list[Path] | None = None,
) -> M:
    """Validate the data of a file as `model`. Raises InputError with all problems.

    `named_files` gets the files that the data names and that were read, too: traces, recordings of page loads.
    """
    file = positions.file
    if not isinstance(data, dict):
        raise InputError(f"{file}:1:1: expected a mapping of keys to values", "see scenarios/ and images/ for examples")
    content = {**(extra or {}), **data}
    # Files that a scenario names are in its folder.
    context = {FOLDER: file.parent, NAMED_FILES: [] if named_files is None else named_files}
    try:
        return model.model_validate(content, context=context)
    except ValidationError as errors:
        raise to_error(find_mistakes(errors, content, model, FORMS), positions) from errors


def to_error(mistakes: Iterable[Mistake], positions: Positions) -> InputError:
    """The error that names all mistakes of a file, each with its position, and has the first hint."""
    lines, hint = [], ""
    for mistake in mistakes:
        position, name = positions.find(mistake.location, key=mistake.of_key)
        lines.append(
            f"{position}: {mistake.text}"
            if not mistake.named
            else f"{position}: {name or positions.file.name}: {mistake.text}"
        )
        hint = hint or mistake.hint
    return InputError("\n".join(lines), hint)
