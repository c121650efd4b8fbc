"""The content of a run's files: its record and its measurements (`harness.store.frames` has their tables).

Somebody else may have written these files, or replaced them. A file is refused, without waiting, if it is not regular,
is larger than any honest one, or holds content that no record of this format has.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.formatting import format_value
from harness.outcome import MEASURED_SCHEMA, RUN_SCHEMA, MeasuredRun, Run
from harness.reading import read_regular

#: The most bytes of a record. The largest of the reference's has a thousandth of it.
MAX_RECORD_SIZE = 64 << 20


def read_record_bytes(file: Path) -> bytes:
    """The content of a file with a record. Raises OSError."""
    return read_regular(file, MAX_RECORD_SIZE)


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object that a file holds. Raises OSError, ValueError."""
    return parse_json_object(read_record_bytes(file))


def parse_json(text: bytes | str, *, once: bool = False) -> Any:
    """The plain data of a JSON text, as RFC 8259 has it. Raises ValueError.

    `once`: a duplicate name in an object is an error too, since its meaning is ambiguous (§4).
    """
    text = text if isinstance(text, str) else text.decode()
    try:
        content = (_JSON_ONCE if once else _JSON).decode(text)
        if _SURROGATE.search(text):
            # A lone surrogate is no character, and cannot be encoded (RFC 8259 §8.2).
            json.dumps(content, ensure_ascii=False).encode()
        return content
    except RecursionError as error:
        raise ValueError("brackets within brackets, too many to read") from error


def parse_json_object(text: bytes | str) -> dict[str, Any]:
    """The object that a JSON text is. Raises ValueError."""
    content = parse_json(text)
    if not isinstance(content, dict):
        raise ValueError(f"it holds {'a list' if isinstance(content, list) else 'one value'}, not a record")
    return content


def _refuse_constant(word: str) -> float:
    """Refuse infinity and NaN: the harness writes infinity as a text, and never NaN (RFC 8259 §6 has neither)."""
    raise ValueError(f"it says {word}, which is no number in JSON")


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise ValueError(f"{format_value(twice)} is given twice in one object")
    return members


#: Created once: to create a decoder takes longer than to decode most texts.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_JSON = json.JSONDecoder(parse_constant=_refuse_constant)
_JSON_ONCE = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique_members)


class OtherSchemaError(ValueError):
    """A record is of a schema that this harness does not read."""


def require_schema(schema: object, ours: int) -> None:
    """OtherSchemaError unless a record is of the schema that this harness writes: keys of others have other meanings.

    `schema`: as in the record; None where it has none, as in the first schema.
    """
    schema = 1 if schema is None else schema
    if schema != ours:
        newer = isinstance(schema, int) and schema > ours
        hint = "use the newer harness that wrote it" if newer else "it is no longer read"
        raise OtherSchemaError(f"it is of schema {schema!r}, and this harness reads schema {ours}: {hint}")


def read_run(text: bytes) -> Run:
    """A run from its JSON. Raises ValueError."""
    content = parse_json_object(text)
    require_schema(content.get("schema"), RUN_SCHEMA)
    return Run.model_validate(content)


def read_measured(text: bytes) -> MeasuredRun:
    """The measurements of a run, from their JSON. Raises ValueError."""
    content = parse_json_object(text)
    require_schema(content.get("schema"), MEASURED_SCHEMA)
    return MeasuredRun.model_validate(content)


def describe_read_error(error: Exception) -> str:
    """Why a file cannot be read, as half a sentence; for a record with many mistakes, the first one."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"] if part != "[key]")
        if first["type"] == "string_pattern_mismatch":
            return f"{place}: {format_value(first['input'])} is no such name"
        return f"{place}: {first['msg']}"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
