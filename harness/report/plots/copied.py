"""Altair's charts with a fast copy.

Altair copies a chart by calling its constructor. The constructor of a layered chart copies its layers again, several
times and recursively; and every panel of a figure and every nested layer is copied. That took most of the drawing time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self, cast

import altair as alt
from altair.utils.schemapi import SchemaBase


class _FastCopy(SchemaBase):
    def copy(self, deep: bool | Iterable[Any] = True, ignore: list[str] | None = None) -> Self:
        """A copy of the chart and of all its mutable parts; data frames are shared."""
        return cast(Self, _deep_copy(self)) if deep is True and not ignore else super().copy(deep, ignore)


class Marks(_FastCopy, alt.Chart):
    """One kind of mark."""


#: Altair names views by a digest of their content, which includes the name of the class.
Marks.__name__ = alt.Chart.__name__


class Layers(_FastCopy, alt.LayerChart):
    """Charts on top of each other."""


def _deep_copy(part: Any) -> Any:
    if isinstance(part, SchemaBase):
        copy = object.__new__(type(part))
        vars(copy).update(_deep_copy(vars(part)))
        return copy
    if isinstance(part, dict):
        return {name: _deep_copy(value) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return type(part)(_deep_copy(value) for value in part)
    return part
