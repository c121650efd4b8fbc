"""Records as rows of a table, and back: the columns of a model are its fields."""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import polars as pl
from pydantic import BaseModel

from harness.store.records import plain

Record = TypeVar("Record", bound=BaseModel)

#: What stands behind the name of a field that may be a number or a word: its words have a column of their own.
_WORD = "_word"
_SCALARS: dict[type, type[pl.DataType]] = {
    bool: pl.Boolean, int: pl.Int64, float: pl.Float64, str: pl.String,
}  # fmt: skip


@dataclass(frozen=True)
class _Column:
    """How one field is kept."""

    field: str
    kind: Literal["plain", "list", "either", "json"]
    dtype: pl.DataType

    @property
    def schema(self) -> dict[str, pl.DataType]:
        if self.kind == "either":
            return {self.field: self.dtype, self.field + _WORD: pl.String()}
        return {self.field: self.dtype}

    def write(self, value: Any) -> dict[str, Any]:
        if self.kind == "json":
            return {self.field: None if value is None else json.dumps(value, ensure_ascii=False)}
        if self.kind == "either":
            word = isinstance(value, str)
            return {self.field: None if word else value, self.field + _WORD: value if word else None}
        return {self.field: value}

    def read(self, row: Mapping[str, Any]) -> Any:
        value = row.get(self.field)
        if self.kind == "json":
            return None if value is None else plain(value)
        if self.kind == "either" and value is None:
            return row.get(self.field + _WORD)
        return value


class Sheet(Generic[Record]):
    """A table of records of one model.

    Numbers, words and lists of them are columns of that type; what is built of more is JSON. A file that lacks a
    column, since it is older than the field, gives the field's default; one it has beyond is left out.
    """

    def __init__(self, model: type[Record], without: Iterable[str] = ()) -> None:
        """`without`: fields that are kept elsewhere."""
        self._model = model
        self._without = frozenset(without)

    @cached_property
    def _columns(self) -> tuple[_Column, ...]:
        hints = get_type_hints(self._model)
        return tuple(_column(name, hints[name]) for name in self._model.model_fields if name not in self._without)

    @property
    def required(self) -> frozenset[str]:
        """The columns without which there is no record: those of fields that have no default."""
        fields = self._model.model_fields
        return frozenset(name for one in self._columns if fields[one.field].is_required() for name in one.schema)

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """Column → type."""
        return {name: dtype for column in self._columns for name, dtype in column.schema.items()}

    def row(self, record: Record) -> dict[str, Any]:
        """A record as values by column."""
        content = record.model_dump(mode="json", exclude=set(self._without))
        # Infinity is a word in JSON, and a number here.
        plain = {one.field: getattr(record, one.field) for one in self._columns if one.kind in ("plain", "either")}
        return {
            name: value
            for column in self._columns
            for name, value in column.write((content | plain)[column.field]).items()
        }

    def fields(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a record whose row that is; of columns that are not there, none."""
        return dict(self._read(row))

    def record(self, row: Mapping[str, Any]) -> Record:
        """The record whose row that is. Raises ValueError."""
        return self._model.model_validate(self.fields(row))

    def _read(self, row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for column in self._columns:
            if column.field in row:
                value = column.read(row)
                if value is None and column.kind in ("list", "json"):
                    # None stands for a column that a file's older rows did not have.
                    value = self._model.model_fields[column.field].default
                yield column.field, value


def _column(name: str, hint: Any) -> _Column:
    options = [one for one in get_args(hint) if one is not type(None)] if _is_union(hint) else [hint]
    words = {_scalar(one) for one in options}
    if words == {float, str}:
        return _Column(name, "either", pl.Float64())
    if len(words) == 1 and (scalar := words.pop()) is not None:
        return _Column(name, "plain", _SCALARS[scalar]())
    if len(options) == 1 and get_origin(options[0]) is tuple:
        item = _scalar(get_args(options[0])[0])
        if item is not None and get_args(options[0])[1:] == (Ellipsis,):
            return _Column(name, "list", pl.List(_SCALARS[item]()))
    return _Column(name, "json", pl.String())


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _scalar(hint: Any) -> type | None:
    """The scalar that a hint stands for; None of what is built of more."""
    if get_origin(hint) is Literal:
        kinds = {type(one) for one in get_args(hint)}
        return kinds.pop() if len(kinds) == 1 else None
    return hint if hint in _SCALARS else None
