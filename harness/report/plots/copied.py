"""Altair's charts with a fast copy.

Altair copies a chart by calling its constructor. The constructor of a layered chart copies its layers again, several
times and recursively; and every panel of a figure and every nested layer is copied. That took most of the drawing time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self, cast

import altair as alt
from altair.utils.schemapi import SchemaBase


class _Copied(SchemaBase):
    def copy(self, deep: bool | Iterable[Any] = True, ignore: list[str] | None = None) -> Self:
        """A copy of the chart and of all its mutable parts; data frames are shared."""
        return cast(Self, _copied(self)) if deep is True and not ignore else super().copy(deep, ignore)


class Marks(_Copied, alt.Chart):
    """One kind of mark."""


#: Altair names views by a digest of their content, which includes the name of the class.
Marks.__name__ = alt.Chart.__name__


class Layers(_Copied, alt.LayerChart):
    """Charts on top of each other."""


def _copied(part: Any) -> Any:
    if isinstance(part, SchemaBase):
        copy = object.__new__(type(part))
        vars(copy).update(_copied(vars(part)))
        return copy
    if isinstance(part, dict):
        return {name: _copied(value) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return type(part)(_copied(value) for value in part)
    return part
