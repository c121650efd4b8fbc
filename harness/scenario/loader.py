"""One file as a part of the model, and what is wrong with it as one error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from harness.errors import InputError
from harness.scenario.schema import FORMS, Part
from harness.scenario.validation_errors import Mistake, mistakes_in
from harness.scenario.yaml_reader import Positions, read_yaml

M = TypeVar("M", bound=Part)


def load(file: Path, model: type[M], extra: Mapping[str, object] | None = None) -> M:
    """Read one file as `model`; `extra` adds keys the file leaves out. Raises InputError with all problems."""
    return modelled(*read_yaml(file), model, extra)


def modelled(data: Any, positions: Positions, model: type[M], extra: Mapping[str, object] | None = None) -> M:
    """What was read of a file as `model`. Raises InputError with all problems."""
    file = positions.file
    if not isinstance(data, dict):
        raise InputError(f"{file}:1:1: expected a mapping of keys to values", "see scenarios/ and images/ for examples")
    content = {**(extra or {}), **data}
    try:
        return model.model_validate(content)
    except ValidationError as errors:
        raise error_of(mistakes_in(errors, content, model, FORMS), positions) from errors


def error_of(mistakes: Iterable[Mistake], positions: Positions) -> InputError:
    """The error that names all mistakes of a file, each with its place; the first hint there is."""
    lines, hint = [], ""
    for one in mistakes:
        place, name = positions.find(one.location, key=one.of_key)
        lines.append(f"{place}: {one.text}" if not one.named else f"{place}: {name or positions.file.name}: {one.text}")
        hint = hint or one.hint
    return InputError("\n".join(lines), hint)
