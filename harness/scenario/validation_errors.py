"""Mistakes in a file, with location and hint, in plain words: users never see pydantic's own messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from harness.errors import did_you_mean, similar_names
from harness.formatting import format_value

Location = tuple[int | str, ...]

#: Last part of the location of an error in a key itself.
_KEY = "[key]"
#: Pydantic's error type → the expected value.
_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "model_attributes_type": "keys with values",
}
#: Error types for a value that should be a mapping.
_PARTS = {"dict_type", "model_type", "model_attributes_type"}
#: Expected value → how it is written.
_WRITTEN = {
    "a text": "put it in quotes",
    "a whole number": "write digits alone, such as 5",
    "a number": "write digits, such as 0.5",
    "true or false": "write true or false, without quotes",
    "a list": "write [one, other], or a line each that begins with '- '",
    "keys with values": "write {key: value}, or a line each",
}
#: Pydantic's error type → name of the limit, and the relation that a value must have to it.
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


@dataclass(frozen=True)
class Mistake:
    """One mistake."""

    location: Location
    """Location in the data of the file."""
    text: str
    hint: str = ""
    of_key: bool = False
    """The key is wrong, not its value."""
    named: bool = True
    """Whether the text needs the name of the location before it."""


@dataclass(frozen=True)
class _LocatedError:
    """An error of pydantic, with its location in the file: pydantic's names of union members are left out of it."""

    error: Mapping[str, Any]
    location: Location
    unions: tuple[tuple[Location, str], ...]
    """Location of each union, and the member that pydantic tried."""
    missing_key: Location
    """The rest of pydantic's location: the name of a missing key."""

    @property
    def type(self) -> str:
        return str(self.error["type"])


def _locate(content: object, error: Mapping[str, Any]) -> _LocatedError:
    path: list[int | str] = []
    unions: dict[Location, str] = {}
    parts = [part for part in error["loc"] if part != _KEY]
    missing_key = (parts.pop(),) if error["type"] == "missing" and parts else ()
    node = content
    for part in parts:
        if (isinstance(node, Mapping) and part in node) or (
            isinstance(node, list | tuple) and isinstance(part, int) and 0 <= part < len(node)
        ):
            node = node[part]
        else:
            unions.setdefault(tuple(path), str(part))
            continue
        path.append(part)
    return _LocatedError(error, tuple(path), tuple(unions.items()), missing_key)


def _value_at(content: object, location: Location) -> Any:
    for part in location:
        content = content[part]  # type: ignore[index]  # `_locate` has been there
    return content


def _within(outer: _LocatedError, inner: _LocatedError) -> bool:
    return _inside(inner.location, outer.location)


def _inside(location: Location, outer: Location) -> bool:
    return len(location) > len(outer) and location[: len(outer)] == outer


def find_mistakes(
    errors: ValidationError,
    content: object,
    model: type[BaseModel] | None = None,
    forms: Mapping[str, str] | None = None,
) -> list[Mistake]:
    """The mistakes that pydantic found in `content`, each once, in words for people.

    `model`: its keys are suggested for an unknown key; `forms`: pattern → description of what matches it.
    """
    candidates = [_locate(content, raw) for raw in errors.errors(include_url=False)]
    # Pydantic counts only the valid items of a list; the invalid ones have their own errors.
    candidates = [
        outer
        for outer in candidates
        if outer.type != "too_short" or not any(_within(outer, inner) for inner in candidates)
    ]
    mistakes: dict[Mistake, None] = {}
    # Unknown keys first: a missing key is often one of them, misspelt.
    for error in sorted(_select_errors(candidates, content), key=lambda error: error.type != "extra_forbidden"):
        mistakes.setdefault(_mistake(error, content, model, forms or {}))
    return list(mistakes)


def _select_errors(candidates: list[_LocatedError], content: object) -> Iterator[_LocatedError]:
    """For each union, keep only the errors of the member that was probably meant; pydantic tries all members."""
    members: dict[Location, dict[str, list[_LocatedError]]] = {}
    for error in candidates:
        for location, member in error.unions:
            members.setdefault(location, {}).setdefault(member, []).append(error)
    dropped: set[int] = set()
    for location, by_member in members.items():
        if len(by_member) < 2:
            continue
        if isinstance(_value_at(content, location), Mapping):
            intended = _with_parts(by_member, location) or next(iter(by_member))
        else:
            flat = {name: errors for name, errors in by_member.items() if not {error.type for error in errors} & _PARTS}
            intended = _with_message(flat or by_member)
        dropped |= {id(error) for member, errors in by_member.items() if member != intended for error in errors}
    return (error for error in candidates if id(error) not in dropped)


def _with_parts(by_member: Mapping[str, list[_LocatedError]], location: Location) -> str | None:
    """The member of a union that is a mapping with keys: its errors are about keys."""
    for member, errors in by_member.items():
        if any(_inside(error.location, location) or error.type in ("missing", "extra_forbidden") for error in errors):
            return member
    return None


def _with_message(by_member: Mapping[str, list[_LocatedError]]) -> str:
    """The first member with an error message of its own, else the first member."""
    with_message = (name for name, errors in by_member.items() if any(error.type == "value_error" for error in errors))
    return next(with_message, next(iter(by_member)))


def _mistake(
    located: _LocatedError, content: object, model: type[BaseModel] | None, forms: Mapping[str, str]
) -> Mistake:
    owners = _owners(model) if model is not None else {}
    error, value = located.error, located.error.get("input")
    context: Mapping[str, Any] = error.get("ctx") or {}
    name = ".".join(map(str, located.location))
    if located.type == "missing":
        missing = located.missing_key[-1]
        if isinstance(missing, int):
            return Mistake(located.location, f"needs {missing + 1} entries", "add what is missing")
        text = f"'{missing}' is missing" + (f" in {name}" if name else "")
        return Mistake(located.location, text, f"add {missing}: …", named=False)
    if located.type == "extra_forbidden":
        hint = _key_hint(str(located.location[-1]), _keys_at(model, located), owners)
        return Mistake(located.location, f"unknown key '{name}'", hint, of_key=True, named=False)
    of_key = error["loc"][-1:] == (_KEY,)
    if located.type in ("value_error", "assertion_error"):
        cause = context.get("error")
        return Mistake(located.location, str(cause), getattr(cause, "hint", ""), of_key)
    if located.type in _EXPECTED:
        expected = _EXPECTED[located.type]
        if value is None:
            text = f"expected {expected}, and there is nothing"
            return Mistake(located.location, text, "leave the key out, or fill it in")
        several = isinstance(value, Mapping | list | tuple) and located.type not in _PARTS
        hint = "write one value alone" if several and expected != "a list" else _WRITTEN[expected]
        return Mistake(located.location, f"expected {expected}, not {format_value(value)}", hint, of_key)
    if located.type in _BOUNDS:
        limit, words = _BOUNDS[located.type]
        text = f"it is {words} {context[limit]}, not {format_value(value)}"
        return Mistake(located.location, text, f"the limit is {context[limit]}")
    description = _OTHERS[located.type](value, context, forms) if located.type in _OTHERS else None
    if description is None:
        text = str(error["msg"])
        return Mistake(located.location, text[:1].lower() + text[1:])
    text, hint, inner = description
    location = (
        (*located.location, inner)
        if inner and isinstance(_value_at(content, located.location), Mapping)
        else located.location
    )
    return Mistake(location, text, hint, of_key)


def _literal(value: object, context: Mapping[str, Any], forms: Mapping[str, str]) -> tuple[str, str, str]:
    expected = str(context["expected"])
    words = re.findall(r"'([^']*)'", expected)
    text = f"expected {expected}, not {format_value(value)}"
    return text, did_you_mean(str(value), words) if words else f"write {expected}", ""


def _pattern(value: object, context: Mapping[str, Any], forms: Mapping[str, str]) -> tuple[str, str, str] | None:
    form = forms.get(str(context["pattern"]))
    if form is None:
        pattern = str(context["pattern"])
        return f"{format_value(value)} does not match {pattern}", f"write what the pattern {pattern} allows", ""
    expected, _, example = form.partition("; ")
    return f"{format_value(value)} is not {expected}", f"for example {example}" if example else "", ""


def _no_tag(value: object, context: Mapping[str, Any], forms: Mapping[str, str]) -> tuple[str, str, str]:
    word = str(context["discriminator"]).strip("'")
    if isinstance(value, Mapping):
        return f"'{word}' is missing", f"add {word}: …", ""
    return f"expected a text, or keys with values, not {format_value(value)}", _WRITTEN["keys with values"], ""


def _other_tag(value: object, context: Mapping[str, Any], forms: Mapping[str, str]) -> tuple[str, str, str]:
    word, tags = str(context["discriminator"]).strip("'"), re.findall(r"'([^']*)'", str(context["expected_tags"]))
    text = f"{format_value(context['tag'])} is no {word}: it is one of {', '.join(tags)}"
    return text, did_you_mean(str(context["tag"]), tags), word


def _few(value: object, context: Mapping[str, Any], forms: Mapping[str, str]) -> tuple[str, str, str]:
    minimum = context["min_length"]
    return (
        f"needs at least {minimum} {'entry' if minimum == 1 else 'entries'}",
        "leave the key out, or fill the list",
        "",
    )


def _many(value: object, context: Mapping[str, Any], forms: Mapping[str, str]) -> tuple[str, str, str]:
    count = len(value) if isinstance(value, list | tuple) else context.get("actual_length") or "more"
    return f"{count} entries, and there is room for {context['max_length']}", "leave some out", ""


#: Pydantic's error type → text, hint, and the inner key that it is about.
_OTHERS: dict[str, Callable[[object, Mapping[str, Any], Mapping[str, str]], tuple[str, str, str] | None]] = {
    "literal_error": _literal,
    "string_pattern_mismatch": _pattern,
    "union_tag_not_found": _no_tag,
    "union_tag_invalid": _other_tag,
    "too_short": _few,
    "too_long": _many,
}


@cache
def _owners(model: type[BaseModel]) -> dict[str, list[str]]:
    """Key → the models that have it, for a model and its nested models."""
    schema = model.model_json_schema(by_alias=True)
    owners: dict[str, list[str]] = {}
    for name, part in {"the file itself": schema, **schema.get("$defs", {})}.items():
        for key in part.get("properties", {}):
            owners.setdefault(key, []).append(name)
    return owners


def _keys_at(model: type[BaseModel] | None, located: _LocatedError) -> list[str]:
    """The keys that the model has at the place of an unknown one, in the model's order."""
    annotations: list[Any] = [] if model is None else [model]
    for part in located.location[:-1]:
        annotations = [inner for member in _members(annotations) for inner in _inner(member, part)]
    models = [member for member in _members(annotations) if isinstance(member, type) and issubclass(member, BaseModel)]
    tried = {member for location, member in located.unions if location == located.location[:-1]}
    models = [member for member in models if tried & _names_in_union(member)] or models
    return list(dict.fromkeys(key for member in models for key in _fields(member)))


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    """Key → its annotation."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _members(annotations: Iterable[Any]) -> Iterator[Any]:
    """The annotations, and those of unions one by one."""
    for annotation in annotations:
        if get_origin(annotation) is Annotated:
            yield from _members(get_args(annotation)[:1])
        elif get_origin(annotation) in (Union, UnionType):
            yield from _members(get_args(annotation))
        else:
            yield annotation


def _inner(annotation: Any, part: int | str) -> Iterator[Any]:
    """The annotation of what stands at a key or an index of a value."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = _fields(annotation)
        if part in fields:
            yield fields[str(part)]
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield arguments[1]
    elif origin in (tuple, list):
        yield from (argument for argument in arguments if argument is not Ellipsis)


def _names_in_union(model: type[BaseModel]) -> set[str]:
    """How pydantic may call a member of a union: its class, or the values of its discriminator."""
    literals = [annotation for annotation in _fields(model).values() if get_origin(annotation) is Literal]
    return {model.__name__, *(str(value) for literal in literals for value in get_args(literal))}


#: Models that a hint names, when more have a key.
_MOST_OWNERS = 3


def _key_hint(key: str, here: Sequence[str], owners: Mapping[str, list[str]]) -> str:
    """What to write instead of an unknown key: a similar key of that place, or all of them; and who has such a key."""
    similar = similar_names(key, here)
    names = owners.get(key, [])
    remainder = [f"{len(names) - _MOST_OWNERS} others"] if len(names) > _MOST_OWNERS else []
    whose = f"'{key}' is a key of {' and '.join([*names[:_MOST_OWNERS], *remainder])}"
    if similar:
        return similar + (f" {whose}" if names else "")
    keys = f"the keys here are {', '.join(here)}" if here else did_you_mean(key, owners)
    return f"{whose}; {keys}" if names else keys
