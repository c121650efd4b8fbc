"""Altair's charts, but that copies of them are made quickly.

Altair makes a copy by calling what makes a chart. Layers that are put together anew copy what is in them, several
times, and so on below them; and every panel of a figure and every layer within another is copied. That took most of
the time of drawing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self, cast

import altair as alt
from altair.utils.schemapi import SchemaBase


class _Copied(SchemaBase):
    def copy(self, deep: bool | Iterable[Any] = True, ignore: list[str] | None = None) -> Self:
        """The same chart, with everything in it that can be changed; frames are the same ones."""
        return cast(Self, _copied(self)) if deep is True and not ignore else super().copy(deep, ignore)


class Marks(_Copied, alt.Chart):
    """One kind of mark."""


#: Views are called by a digest of what they are, in which their class is by its name.
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
